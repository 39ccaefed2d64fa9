#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "gateway/http/condition.h"
#include "gateway/oci/oci_priv.h"
#include "gateway/pipeline/resolve.h"
#include "gateway/pipeline/run_gate.h"
#include "policy/decider/copies.h"
#include "policy/decider/decider.h"
#include "registry/names/reference.h"

struct result oci_refuse(struct request *request, unsigned status, const char *code, const char *message)
{
    response_oci_error(request, status, code, message, NULL);
    return SUCCESS;
}

static struct result damaged(struct request *request, const struct error *err)
{
    log_error("stored bytes do not verify", err);
    return oci_refuse(request, 500, "UNKNOWN",
                      "the stored bytes do not verify, so nothing was sent; an alarm was raised; pushing it again "
                      "replaces them");
}

struct result oci_fail(struct request *request, const char *code, struct error *err)
{
    if (err->kind == ERROR_NOT_FOUND) return oci_refuse(request, 404, code, err->message);
    if (err->kind == ERROR_CORRUPT) return damaged(request, err);
    if (err->kind == ERROR_DENIED) return oci_refuse(request, 403, "DENIED", err->message); /* a quota, an immutable tag */
    if (err->kind != ERROR_LIMIT) return (struct result){.ok = false};
    (void)oci_refuse(request, 429, "TOOMANYREQUESTS", err->message).ok;
    response_header(request, "Retry-After", "%d", 5);
    response_header(request, "RateLimit", "\"work\";r=0;t=5");
    return SUCCESS;
}

struct result oci_fail_to_delete(struct request *request, const char *code, struct error *err)
{
    return err->kind == ERROR_CONFLICT ? oci_refuse(request, 405, "UNSUPPORTED", err->message) : oci_fail(request, code, err);
}

struct resource *oci_target(struct request *request, enum action action)
{
    struct repository_name name;
    struct error wrong = {0};

    if (!repository_name_split(bytes_of_text(request->name), &name, &wrong).ok) {
        (void)oci_refuse(request, 400, "NAME_INVALID", wrong.message).ok;
        return NULL;
    }
    struct resource *resource = request_add_pair(request, action, request->name);
    resource->kind = RESOURCE_REPOSITORY;
    resolve_name(request, resource);
    return resource;
}

static bool can_use(void *context, const char *region)
{
    return registry_region_is_readable(context, region);
}

void oci_read_nearest(struct request *request, struct resource *resource)
{
    struct reading_region reading = {.can_use = can_use, .context = request->gateway->registry};

    request->reads_copy = false;
    if (uuid_is_nil(&resource->project) || resource->region[0] == '\0') return;
    if (!decider_reads_elsewhere(request->gateway->decider, resource->name, &reading)) return;
    request->reads_copy = true;
    request->home_region = arena_copy_text(request->arena, bytes_of_text(resource->region));
    (void)snprintf(resource->region, sizeof resource->region, "%s", reading.region);
}

/* Whether it is neither the home region nor one that was tried. */
static bool can_use_other(void *context, const char *region)
{
    const struct oci_copies *copies = context;

    for (size_t i = 0; i < copies->count; i++)
        if (strcmp(copies->tried[i], region) == 0) return false;
    return registry_region_is_readable(copies->registry, region);
}

bool oci_next_copy(struct request *request, struct oci_copies *copies, struct resource *resource)
{
    struct reading_region reading = {.can_use = can_use_other, .context = copies};

    copies->registry = request->gateway->registry;
    if (copies->count == OCI_COPIES_MAX) return false;
    (void)snprintf(copies->tried[copies->count++], sizeof copies->tried[0], "%s", resource->region);
    if (!decider_reads_elsewhere(request->gateway->decider, resource->name, &reading)) return false;
    (void)snprintf(resource->region, sizeof resource->region, "%s", reading.region);
    return true;
}

/* A run asks with HEAD for blobs of its outputs before it pushes them. It may not read there, so it is told "not there". */
enum action oci_reading(const struct request *request, enum action read)
{
    const struct principal *principal = request->principal;

    if (principal->kind != PRINCIPAL_RUN) return read;
    const bool writes = principal->access_count == 1 && principal->access[0].push && principal->content[0] == '\0';
    return request->method == METHOD_HEAD && writes ? ACTION_UPLOAD_PROBE : ACTION_RUN_FETCH;
}

void oci_add_place(struct request *request)
{
    const struct action_pair fetch = request->pairs[0];

    if (fetch.action != ACTION_RUN_FETCH) return;
    struct resource *place = request_add_pair(request, ACTION_RUN_USE, fetch.resource.name);
    *place = fetch.resource;
    (void)snprintf(place->region, sizeof place->region, "%s", request->run->region);
}

bool oci_may(const struct request *request, const struct action_pair *pairs, size_t count)
{
    struct decision_request question = {.principal = request->principal, .pair_count = count, .now_ms = clock_wall_ms()};
    OWNED(decision) *decision = NULL;
    struct error ignored = {0};

    memcpy(question.pairs, pairs, count * sizeof *pairs);
    question.client = request_place(request);
    return decider_decide(request->gateway->decider, &question, &decision, &ignored).ok &&
           decision_verdict(decision) == VERDICT_ALLOW;
}

/* Before a push, clients ask which blobs exist, and upload only the others. A client without the right to look is told "not there", and uploads. */
void oci_probe_instead(struct request *request)
{
    if (request->method == METHOD_HEAD) request->pairs[0].action = ACTION_UPLOAD_PROBE;
}

bool oci_is_probe(const struct request *request)
{
    return request->pairs[0].action == ACTION_UPLOAD_PROBE;
}

const struct resource *oci_where(const struct request *request)
{
    return &request->pairs[0].resource;
}

void oci_location(struct request *request, const char *kind, const char *reference)
{
    response_header(request, "Location", "/v2/%s/%s/%s", request->name, kind, reference);
}

#define EXPIRY_NOTICE_MS (7 * INT64_C(86400000)) /* time to ask an administrator */

void oci_warn_of_expiry(struct request *request)
{
    const int64_t expires_ms = decider_robot_expires(request->gateway->decider, request->principal);
    char when[CLOCK_TEXT_SIZE];

    if (expires_ms == 0 || expires_ms - clock_wall_ms() > EXPIRY_NOTICE_MS) return;
    clock_format(expires_ms, when);
    response_warning(request, "the secret of %s ends at %s: ask an administrator for a new robot before that",
                     request->principal->subject, when);
}

void oci_etag(const char *digest, const char *suffix, char etag_out[OCI_ETAG_SIZE])
{
    (void)snprintf(etag_out, OCI_ETAG_SIZE, "\"%s%s\"", digest, suffix);
}

bool oci_is_answered_by_condition(struct request *request, const char *etag, uint64_t size)
{
    const enum condition condition = condition_of_request(&request->headers, etag);

    if (condition == CONDITION_NO_MATCH)
        (void)oci_refuse(request, 412, "PRECONDITION_FAILED", "it is not what If-Match names").ok;
    else if (condition == CONDITION_A_MATCH) response_not_modified(request, size);
    return condition != CONDITIONS_HOLD;
}

bool oci_page_size(struct request *request, unsigned fallback, unsigned most, unsigned *size_out)
{
    const char *text = request_argument(request, "n");
    uint64_t size = fallback;

    if (text != NULL && !text_to_u64(bytes_of_text(text), INT32_MAX, &size)) {
        (void)oci_refuse(request, 400, "PAGINATION_NUMBER_INVALID", "n is a number of 0 or more").ok;
        return false;
    }
    *size_out = size > most ? most : (unsigned)size;
    return true;
}

void oci_next_page(struct request *request, const char *path, unsigned size, const char *last)
{
    response_header(request, "Link", "</v2/%s?n=%u&last=%s>; rel=\"next\"", path, size, last);
}
