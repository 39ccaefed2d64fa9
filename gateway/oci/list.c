/* Lists of tags and of referrers (OCI Distribution Specification, "Listing Tags", "Listing Referrers"). */
#include <stdio.h>
#include <string.h>

#include "gateway/http/percent.h"
#include "gateway/oci/oci_priv.h"
#include "registry/stored_manifest.h"
#include "registry/tag.h"

#define TAGS_DEFAULT  1000
#define REFERRER_PAGE ((size_t)1 << 20)    /* bytes of descriptors; clients read at most 4 MiB */
#define REFERRER_READ ((uint64_t)32 << 20) /* of manifests for one page: some tens of milliseconds */
#define REFERRER_MAX  (REFERRER_PAGE + MANIFEST_REFERRER_ANNOTATIONS_MAX + 4096) /* the other members of a descriptor are short */

struct result target_tag_list(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    (void)err;
    (void)oci_target(request, ACTION_TAG_LIST);
    return SUCCESS;
}

static struct result write_tags(const struct request *request, const struct tag_page *page, struct buffer *body,
                                struct error *err)
{
    TRY(buffer_format(body, err, "{\"name\":\"%s\",\"tags\":[", request->name));
    for (size_t i = 0; page != NULL && i < page->count; i++)
        TRY(buffer_format(body, err, "%s\"%s\"", i > 0 ? "," : "", page->names[i]));
    return buffer_add_text(body, "]}", err);
}

static struct result list_tags(struct request *request, struct pg *pg, struct error *err)
{
    struct tag_query query = {.where = oci_where(request)};
    struct buffer OWNED_BUFFER body = BUFFER((size_t)TAG_PAGE_MAX * (TAG_MAX + 4) + 512);
    OWNED(tag_page) *page = NULL;
    char path[RESOURCE_NAME_MAX + 16];

    if (uuid_is_nil(&query.where->repository)) return oci_refuse(request, 404, "NAME_UNKNOWN", "there is no such repository");
    if (!oci_page_size(request, TAGS_DEFAULT, TAG_PAGE_MAX, &query.limit)) return SUCCESS;
    query.last = request_argument(request, "last");
    if (query.last == NULL) query.last = "";
    if (query.limit > 0) TRY(tag_list(request->permit, pg, &query, &page, err));
    TRY(write_tags(request, page, &body, err));
    const bool has_more = page != NULL && page->has_more;
    response_buffer(request, 200, "application/json", &body, NULL);
    if (!has_more) return SUCCESS;
    (void)snprintf(path, sizeof path, "%s/tags/list", request->name);
    oci_next_page(request, path, query.limit, page->names[page->count - 1]);
    return SUCCESS;
}

struct result target_referrer_list(struct request *request, struct lookup *lookup, struct error *err)
{
    struct digest digest;
    struct error wrong = {0};

    (void)lookup;
    (void)err;
    if (!digest_parse(bytes_of_text(request->reference), &digest, &wrong).ok)
        return oci_refuse(request, 400, "DIGEST_INVALID", wrong.message);
    struct resource *resource = oci_target(request, ACTION_REFERRER_LIST);
    if (resource != NULL) digest_format(&digest, resource->detail);
    return SUCCESS;
}

static void referrer_headers(struct request *request, const struct referrer_query *query, const char *last)
{
    const bool is_filtered = query->artifact_type[0] != '\0';
    const char *type = percent_encode(query->artifact_type, request->arena);

    if (is_filtered) response_header(request, "OCI-Filters-Applied", "artifactType");
    if (last[0] == '\0') return;
    if (type == NULL) request->response->is_broken = true; /* a list without its link to the next page would look complete */
    response_header(request, "Link", "</v2/%s/referrers/%s?last=%s%s%s>; rel=\"next\"", request->name, request->reference, last,
                    is_filtered ? "&artifactType=" : "", type == NULL ? "" : type);
}

static struct result list_referrers(struct request *request, struct pg *pg, struct error *err)
{
    const char *type = request_argument(request, "artifactType"), *last = request_argument(request, "last");
    const struct referrer_query query = {.where = oci_where(request),
                                         .subject = request->reference,
                                         .artifact_type = type == NULL ? "" : type,
                                         .last = last == NULL ? "" : last,
                                         .page_bytes = REFERRER_PAGE,
                                         .read_bytes = REFERRER_READ};
    struct referrer_page page = {.descriptors = BUFFER(REFERRER_MAX)};
    struct buffer OWNED_BUFFER body = BUFFER(REFERRER_MAX + 512);

    struct result result = referrers_list(request->permit, request->gateway->registry, pg, &query, &page, err);
    if (result.ok)
        result = buffer_format(&body, err, "{\"schemaVersion\":2,\"mediaType\":\"%s\",\"manifests\":[%s]}", MEDIA_TYPE_INDEX,
                               buffer_text(&page.descriptors));
    buffer_done(&page.descriptors);
    if (!result.ok) return oci_fail(request, "NAME_UNKNOWN", err);
    response_buffer(request, 200, MEDIA_TYPE_INDEX, &body, NULL);
    referrer_headers(request, &query, page.last);
    return SUCCESS;
}

const struct handler handler_tag_list = {.handle = list_tags};
const struct handler handler_referrer_list = {.handle = list_referrers, .takes_passed = true, .passes_on = true};
