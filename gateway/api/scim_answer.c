/* The form of requests and answers of /scim/v2 (RFC 7644). */
#include <stdio.h>
#include <string.h>

#include "authz/authenticate.h"
#include "base/clock.h"
#include "base/text.h"
#include "gateway/api/scim_priv.h"
#include "gateway/http/condition.h"

#define BODY_MAX       ((size_t)16 << 20) /* SCIM_PAGE_MAX groups, or SCIM_MEMBERS_MAX members */
#define COUNT_DEFAULT  100
#define VERSION_DIGITS 18

struct result scim_site_open(const struct request *request, struct pg *pg, enum action action, struct scim_site *site,
                             struct error *err)
{
    *site = (struct scim_site){.snapshot = authz_directory_take(request->gateway->directory),
                               .source = {pg, request->gateway->keyd, request->gateway->origin}};
    if (site->snapshot == NULL) return failure(err, ERROR_UNAVAILABLE, "rights are not loaded yet");
    site->entry = scim_entry_of_client(authz_snapshot_rules(site->snapshot), request->principal, clock_wall_ms());
    if (site->entry == NULL) return failure(err, ERROR_DENIED, "the document of the SCIM service has ended");
    site->client = (struct scim_client){request->gateway->directory, request->principal, site->entry->service.issuer};
    site->look = (struct scim_look){action, &site->source, site->entry->service.issuer};
    return SUCCESS;
}

void scim_site_done(struct scim_site *site)
{
    authz_snapshot_free(site->snapshot);
    site->snapshot = NULL;
}

void scim_pair(struct request *request, enum action action)
{
    struct uuid id;

    if (request->reference != NULL && !uuid_parse(bytes_of_text(request->reference), &id)) {
        response_unknown(request);
        return;
    }
    struct resource *resource = api_pair(request, action, RESOURCE_SYSTEM, "");
    (void)snprintf(resource->detail, sizeof resource->detail, "%s", request->reference == NULL ? "" : request->reference);
}

struct result scim_id(const struct request *request, const char *what, struct uuid *id_out, struct error *err)
{
    return api_id(request, what, id_out, err);
}

/* Our entity tags are versions in quotes; clients also send them as weak ones. */
int64_t scim_if_match(const struct request *request)
{
    const char *value = request_header(request, "If-Match");
    struct bytes text = bytes_of_text(value == NULL ? "" : value);
    uint64_t version = 0;

    if (value == NULL || strcmp(value, "*") == 0) return 0;
    if (text.length > 2 && memcmp(text.data, "W/", 2) == 0) text = (struct bytes){text.data + 2, text.length - 2};
    if (text.length < 3 || text.length > VERSION_DIGITS + 2 || text.data[0] != '"' || text.data[text.length - 1] != '"')
        return -1;
    if (!text_to_u64((struct bytes){text.data + 1, text.length - 2}, INT64_MAX, &version) || version == 0) return -1;
    return (int64_t)version;
}

/* ---- attributes ---- */

static bool list_names(const char *list, const char *attribute)
{
    struct bytes left = bytes_of_text(list);
    const size_t length = strlen(attribute);

    while (left.length > 0) {
        struct bytes name = text_cut(&left, ',');
        while (name.length > 0 && name.data[0] == ' ') name = (struct bytes){name.data + 1, name.length - 1};
        if (name.length > length && name.data[length] == '.') name.length = length; /* a part of it: all of it */
        if (scim_name_is(name, attribute)) return true;
    }
    return false;
}

bool scim_wants(const struct request *request, const char *attribute)
{
    const char *only = request_argument(request, "attributes"), *without = request_argument(request, "excludedAttributes");

    if (strcmp(attribute, "schemas") == 0 || strcmp(attribute, "id") == 0) return true;
    if (only != NULL) return list_names(only, attribute);
    return without == NULL || !list_names(without, attribute);
}

static struct result add_meta(const struct request *request, const struct scim_meta *meta, json_t *resource, struct error *err)
{
    struct buffer OWNED_BUFFER location = BUFFER(512);
    char id[UUID_TEXT_SIZE], created[CLOCK_TEXT_SIZE], modified[CLOCK_TEXT_SIZE], version[32];

    uuid_format(meta->id, id);
    clock_format(meta->created_ms, created);
    clock_format(meta->modified_ms, modified);
    (void)snprintf(version, sizeof version, "\"%lld\"", (long long)meta->version);
    TRY(buffer_format(&location, err, "%s" SCIM_PATH "/%s/%s", authenticator_issuer(request->gateway->authenticator), meta->place,
                      id));
    json_t *value = json_pack("{s:s, s:s, s:s, s:s, s:s}", "resourceType", meta->type, "created", created, "lastModified",
                              modified, "location", buffer_text(&location), "version", version);
    if (json_object_set_new(resource, "meta", value) == 0) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for an answer");
}

struct result scim_finish(const struct request *request, const struct scim_meta *meta, json_t *resource, struct error *err)
{
    static const char *const optional[] = {"externalId", "userName", "displayName", "active", "members", "meta"};

    TRY(add_meta(request, meta, resource, err));
    for (size_t i = 0; i < sizeof optional / sizeof optional[0]; i++)
        if (!scim_wants(request, optional[i])) (void)json_object_del(resource, optional[i]);
    return SUCCESS;
}

/* ---- answers ---- */

struct result scim_answer_json(struct request *request, unsigned status, const json_t *value, struct error *err)
{
    struct buffer body = BUFFER(BODY_MAX);
    const struct result result =
        value == NULL ? failure(err, ERROR_NO_MEMORY, "no memory for an answer") : json_write_canonical(&body, value, err);

    if (result.ok) response_buffer(request, status, SCIM_TYPE, &body, NULL);
    else buffer_done(&body);
    return result;
}

struct result scim_answer(struct request *request, unsigned status, const struct scim_meta *meta, const json_t *resource,
                          struct error *err)
{
    const char *known = request->method == METHOD_GET ? request_header(request, "If-None-Match") : NULL;
    char etag[32], id[UUID_TEXT_SIZE];

    (void)snprintf(etag, sizeof etag, "\"%lld\"", (long long)meta->version);
    uuid_format(meta->id, id);
    if (known != NULL && entity_tags_name(known, etag, true)) response_not_modified(request, 0);
    else TRY(scim_answer_json(request, status, resource, err));
    response_header(request, "ETag", "%s", etag);
    response_header(request, "Cache-Control", "no-store");
    if (status == 201)
        response_header(request, "Location", "%s" SCIM_PATH "/%s/%s", authenticator_issuer(request->gateway->authenticator),
                        meta->place, id);
    return SUCCESS;
}

static struct result read_number(const struct request *request, const char *name, int64_t without, int64_t *number_out,
                                 struct error *err)
{
    const char *text = request_argument(request, name);
    uint64_t number = 0;

    *number_out = without;
    if (text == NULL) return SUCCESS;
    *number_out = 0;
    if (text[0] == '-') return SUCCESS; /* RFC 7644, 3.4.2.4: a negative value counts as the least one */
    if (!text_to_u64(bytes_of_text(text), INT32_MAX, &number))
        return failure(err, ERROR_INVALID, "invalidValue: %s is a whole number", name);
    *number_out = (int64_t)number;
    return SUCCESS;
}

struct result scim_page_read(const struct request *request, struct scim_page *page_out, struct error *err)
{
    int64_t first = 0, limit = 0;

    TRY(read_number(request, "startIndex", 1, &first, err));
    TRY(read_number(request, "count", COUNT_DEFAULT, &limit, err));
    page_out->first = first < 1 ? 0 : first - 1;
    page_out->limit = limit > SCIM_PAGE_MAX ? SCIM_PAGE_MAX : (size_t)limit;
    return SUCCESS;
}

struct result scim_answer_list(struct request *request, const struct scim_page *page, int64_t total, json_t *list,
                               struct error *err)
{
    OWNED_JSON answer =
        json_pack("{s:[s], s:I, s:I, s:I, s:o}", "schemas", SCIM_LIST_URN, "totalResults", (json_int_t)total, "startIndex",
                  (json_int_t)page->first + 1, "itemsPerPage", (json_int_t)json_array_size(list), "Resources", list);

    TRY(scim_answer_json(request, 200, answer, err));
    response_header(request, "Cache-Control", "no-store");
    return SUCCESS;
}

struct result scim_filter_of(const struct request *request, struct scim_filter *filter_out, bool *has_out, struct error *err)
{
    const char *text = request_argument(request, "filter");

    *has_out = text != NULL;
    return text == NULL ? SUCCESS : scim_filter_read(text, filter_out, err);
}

struct result scim_refuse(struct request *request, bool is_other, const struct error *why, struct error *err)
{
    if (!is_other) return failure(err, why->kind, "%s", why->message);
    response_error(request, 412, "UNKNOWN", "Another version",
                   "the resource has another version than If-Match names: read it again");
    return SUCCESS;
}
