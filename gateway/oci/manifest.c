/* Manifests (OCI Distribution Specification, "Pulling manifests", "Pushing Manifests", "Deleting Manifests"). */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "gateway/background/holds.h"
#include "gateway/http/condition.h"
#include "gateway/oci/manifest_evidence_priv.h"
#include "gateway/oci/manifest_label_priv.h"
#include "gateway/oci/manifest_promotion_priv.h"
#include "gateway/oci/oci_priv.h"
#include "gateway/pipeline/run_gate.h"
#include "policy/decider/decider.h"
#include "registry/held_checkpoint.h"
#include "registry/names/reference.h"
#include "registry/stored_manifest.h"
#include "registry/tag.h"
#include "training/format/artifact_types.h"

/* A reference is a tag or a digest; a tag has no ':'. */
static bool is_digest(const char *reference)
{
    return strchr(reference, ':') != NULL;
}

/* False: the reference is malformed, and an answer was made. */
static bool check_reference(struct request *request, bool is_push)
{
    const char *reference = request->reference;
    struct digest digest;
    struct error wrong = {0};

    if (is_digest(reference)) {
        if (digest_parse(bytes_of_text(reference), &digest, &wrong).ok) return true;
        (void)oci_refuse(request, 400, "DIGEST_INVALID", wrong.message).ok;
        return false;
    }
    if (tag_is_valid(bytes_of_text(reference))) return true;
    if (is_push) (void)oci_refuse(request, 400, "TAG_INVALID", "a tag has up to 128 letters, digits and . _ -").ok;
    else (void)oci_refuse(request, 404, "MANIFEST_UNKNOWN", "this repository has no such manifest").ok;
    return false;
}

static struct result target_manifest(struct request *request, enum action action)
{
    if (!check_reference(request, action == ACTION_MANIFEST_PUSH)) return SUCCESS;
    struct resource *resource = oci_target(request, action);
    if (resource == NULL) return SUCCESS;
    (void)snprintf(resource->detail, sizeof resource->detail, "%s", request->reference);
    if (action == ACTION_MANIFEST_READ || action == ACTION_MANIFEST_STAT) oci_read_nearest(request, resource);
    oci_add_place(request);
    return SUCCESS;
}

static enum action action_of(const struct request *request)
{
    return oci_reading(request, request->method == METHOD_HEAD ? ACTION_MANIFEST_STAT : ACTION_MANIFEST_READ);
}

struct result target_manifest_read(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    (void)err;
    return target_manifest(request, action_of(request));
}

struct result target_manifest_push(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    (void)err;
    return target_manifest(request, ACTION_MANIFEST_PUSH);
}

struct result target_manifest_delete(struct request *request, struct lookup *lookup, struct error *err)
{
    const enum action action = is_digest(request->reference) ? ACTION_MANIFEST_DELETE : ACTION_TAG_DELETE;

    (void)lookup;
    (void)err;
    return target_manifest(request, action);
}

static struct manifest_query query_of(const struct request *request)
{
    return (struct manifest_query){.action = action_of(request), .where = oci_where(request), .reference = request->reference};
}

/* The entity tag depends on the media type too: an older version could store the same bytes under Docker's type and later under OCI's. */
static void manifest_etag(const char *digest, const char *media_type, char etag_out[OCI_ETAG_SIZE])
{
    const bool is_docker = strcmp(media_type, MEDIA_TYPE_DOCKER) == 0 || strcmp(media_type, MEDIA_TYPE_DOCKER_LIST) == 0;

    oci_etag(digest, is_docker ? ".docker" : "", etag_out);
}

/* If-Match and If-None-Match of a change, about the manifest that its reference names. */
struct condition_on_manifest {
    struct manifest_condition condition;
    const struct request *request;
};

static bool holds(const struct manifest_condition *condition, const char *digest, const char *media_type)
{
    const struct condition_on_manifest *self =
        (const struct condition_on_manifest *)(const void *)condition; /* its first member */
    char etag[OCI_ETAG_SIZE];

    if (digest != NULL) manifest_etag(digest, media_type, etag);
    return condition_of_request(&self->request->headers, digest == NULL ? NULL : etag) == CONDITIONS_HOLD;
}

static struct condition_on_manifest condition_of(const struct request *request)
{
    const bool is_stated = request_header(request, "If-Match") != NULL || request_header(request, "If-None-Match") != NULL;

    return (struct condition_on_manifest){.condition = {.holds = is_stated ? holds : NULL, .reference = request->reference},
                                          .request = request};
}

/* Only callers with the right to look learn which manifest the reference names, and which size something has. Others get a text that does not say it. */
static struct result refuse(struct request *request, unsigned status, const char *code, const struct error *err)
{
    struct action_pair look = {.action = ACTION_MANIFEST_STAT, .resource = *oci_where(request)};
    const char *blind = status == 412 ? "If-Match or If-None-Match does not hold" : "a stated size or media type is wrong";

    return oci_refuse(request, status, code, oci_may(request, &look, 1) ? err->message : blind);
}

static void answer(struct request *request, struct stored_manifest *manifest)
{
    char etag[OCI_ETAG_SIZE];

    /* The answer has the media type of the push, whatever Accept lists. */
    manifest_etag(manifest->digest, manifest->media_type, etag);
    const bool is_answered = oci_is_answered_by_condition(request, etag, manifest->size_bytes);
    const struct response_source described = {.length = manifest->size_bytes}; /* HEAD never reads it */
    if (!is_answered && request->method == METHOD_HEAD) response_from_source(request, 200, manifest->media_type, &described);
    else if (!is_answered) response_buffer(request, 200, manifest->media_type, &manifest->body, NULL);
    response_header(request, "Docker-Content-Digest", "%s", manifest->digest);
    response_header(request, "ETag", "%s", etag);
    response_header(request, "Cache-Control", "private, no-cache");
    oci_warn_of_expiry(request);
}

/* A checkpoint of a run is no manifest of its repository: only a run whose order names it gets it (docs/runs.md, "Checkpoints"). */
static struct result find(const struct request *request, struct pg *pg, const struct manifest_query *query,
                          struct stored_manifest **manifest_out, struct error *err)
{
    struct registry *registry = request->gateway->registry;
    struct error why = {0};

    if (stored_manifest_find(request->permit, registry, pg, query, manifest_out, &why).ok) return SUCCESS;
    if (why.kind == ERROR_NOT_FOUND && request->run != NULL && request->run->resumes) {
        const struct manifest_query checkpoint = {query->action, query->where, query->reference, &request->run->holder.run,
                                                  false};
        return held_checkpoint_find(request->permit, registry, pg, &checkpoint, manifest_out, err);
    }
    return failure(err, why.kind, "%s", why.message);
}

static struct result answer_elsewhere(struct request *request, struct error *err)
{
    OWNED(stored_manifest) *manifest = GIVE(request->handler_state);

    if (!oci_pass_manifest_on(request, manifest, err).ok) return oci_fail(request, "MANIFEST_UNKNOWN", err);
    if (request->response == NULL) answer(request, manifest);
    return SUCCESS;
}

/* After find(): its key is with the sijil-keyd of a region that another gateway serves. */
static bool is_found_elsewhere(struct request *request, struct pg *pg, const struct error *why)
{
    struct manifest_query query = query_of(request);
    OWNED(stored_manifest) *manifest = NULL;
    struct error ignored = {0};

    query.without_body = true;
    if (why->kind != ERROR_UNAVAILABLE || request->method != METHOD_GET || request->is_passed ||
        !find(request, pg, &query, &manifest, &ignored).ok || !oci_decide_for(request, manifest->sealed_in))
        return false;
    request->handler_state = GIVE(manifest);
    request->rest = answer_elsewhere;
    return true;
}

static struct result read(struct request *request, struct pg *pg, struct error *err)
{
    const struct manifest_query query = query_of(request);
    OWNED(stored_manifest) *manifest = NULL;

    if (oci_is_probe(request))
        return oci_refuse(request, 404, "MANIFEST_UNKNOWN", "you may push here, and not read: push it without asking");
    if (find(request, pg, &query, &manifest, err).ok) answer(request, manifest);
    else if (!is_found_elsewhere(request, pg, err)) return oci_fail(request, "MANIFEST_UNKNOWN", err);
    return SUCCESS;
}

static bool fast_path(struct request *request)
{
    const struct manifest_query query = query_of(request);
    OWNED(stored_manifest) *manifest = NULL;

    if (oci_is_probe(request) || !stored_manifest_find_cached(request->permit, request->gateway->registry, &query, &manifest))
        return false;
    answer(request, manifest);
    return true;
}

/* The tags of a push: its reference, unless that is a digest, and every ?tag=. */
struct tags {
    size_t count;
    const char *names[MANIFEST_TAGS_MAX];
};

static bool add_tag(struct request *request, struct tags *tags, const char *name)
{
    if (!tag_is_valid(bytes_of_text(name))) {
        (void)oci_refuse(request, 400, "TAG_INVALID", "a tag has up to 128 letters, digits and . _ -").ok;
        return false;
    }
    if (tags->count == MANIFEST_TAGS_MAX) {
        (void)oci_refuse(request, 414, "TAG_INVALID", "more tags than one push may set").ok;
        return false;
    }
    tags->names[tags->count++] = name;
    return true;
}

static bool gather_tags(struct request *request, struct tags *tags)
{
    const char *name = NULL;

    if (!is_digest(request->reference) && !add_tag(request, tags, request->reference)) return false;
    for (size_t at = 0; (name = request_next_argument(request, "tag", &at)) != NULL;)
        if (!add_tag(request, tags, name)) return false;
    return true;
}

/* Writes the digest's text. False: the body has another digest than the reference, and the answer is 400. */
static bool check_digest(struct request *request, char text_out[DIGEST_TEXT_SIZE])
{
    struct digest expected = {.algorithm = DIGEST_SHA256};
    struct error wrong = {0};
    const bool is_named = is_digest(request->reference);

    if (is_named && !digest_parse(bytes_of_text(request->reference), &expected, &wrong).ok) return false;
    const struct digest actual = digest_of(expected.algorithm, request->body);
    digest_format(&actual, text_out);
    if (!is_named || digest_equal(&actual, &expected)) return true;
    (void)oci_refuse(request, 400, "DIGEST_INVALID", "the manifest's bytes have another digest").ok;
    return false;
}

static struct result refuse_push(struct request *request, const struct manifest_push *push, struct error *err)
{
    struct error unrecorded = {0};

    if (push->condition->has_failed) return refuse(request, 412, "PRECONDITION_FAILED", err);
    if (push->is_label_refused && !manifest_shred(request, push->manifest, LABEL_IS_REFUSED, &unrecorded).ok)
        return failure(err, unrecorded.kind, "%s", unrecorded.message);
    if (push->is_wrong) return refuse(request, 400, "MANIFEST_INVALID", err);
    if (err->kind != ERROR_NOT_FOUND || push->missing[0] == '\0') return oci_fail(request, "NAME_UNKNOWN", err);
    OWNED_JSON detail = json_pack("{s:s}", "digest", push->missing);
    response_oci_error(request, 400, "MANIFEST_BLOB_UNKNOWN", err->message, detail);
    return SUCCESS;
}

static void warn_of_layers_elsewhere(struct request *request, const struct manifest *manifest)
{
    size_t count = 0;

    for (size_t i = 0; i < manifest->reference_count; i++) count += !manifest->references[i].is_required;
    if (count > 0)
        response_warning(request,
                         "%zu of the layers may be kept elsewhere (non-distributable, or with urls): whether they "
                         "are here was not checked",
                         count);
}

static void created(struct request *request, const struct manifest_push *push)
{
    response_empty(request, 201);
    oci_location(request, "manifests", push->digest);
    response_header(request, "Docker-Content-Digest", "%s", push->digest);
    char etag[OCI_ETAG_SIZE];
    manifest_etag(push->digest, push->manifest->media_type, etag);
    response_header(request, "ETag", "%s", etag);
    if (push->manifest->subject[0] != '\0') response_header(request, "OCI-Subject", "%s", push->manifest->subject);
    for (size_t i = 0; i < push->tag_count; i++) response_header(request, "OCI-Tag", "%s", push->tags[i]);
    warn_of_layers_elsewhere(request, push->manifest);
    oci_warn_of_expiry(request);
}

static struct result seal_and_store(struct request *request, struct pg *pg, struct manifest_push *push, struct error *err)
{
    const struct result prepared =
        manifest_push_prepare(request->gateway->registry, pg, oci_where(request), request->body, push, err);

    if (!prepared.ok) return refuse_push(request, push, err);
    const struct result stored = push->is_promotion ? request_record_as(request, ACTION_MANIFEST_PROMOTE, &push->change, err)
                                                    : request_record(request, &push->change, err);
    manifest_push_done(push);
    if (!stored.ok) return refuse_push(request, push, err);
    created(request, push);
    return SUCCESS;
}

static struct result store(struct request *request, struct pg *pg, struct manifest_push *push, struct error *err)
{
    OWNED_LABELLING labelling;
    bool goes_on = false;

    TRY(manifest_labelling_find(request, pg, push, &labelling, &goes_on, err));
    if (goes_on) TRY(manifest_promotion_find(request, pg, push, &goes_on, err));
    if (goes_on) TRY(manifest_evidence_check(request, push, &goes_on, err));
    if (push->is_promotion && push->label != NULL) labelling.label.action = ACTION_MANIFEST_PROMOTE;
    return goes_on ? seal_and_store(request, pg, push, err) : SUCCESS;
}

static struct result parse(struct request *request, struct manifest **manifest_out, struct error *err)
{
    const char *content_type = request_header(request, "Content-Type");
    const struct bytes type = content_type == NULL ? ((struct bytes){0}) : bytes_of_text(content_type);

    if (manifest_parse(request->body, type, manifest_out, err).ok) return SUCCESS;
    /* The route has checked the size; other limits are of nesting and of list lengths. */
    if (err->kind == ERROR_INVALID || err->kind == ERROR_LIMIT) return oci_refuse(request, 400, "MANIFEST_INVALID", err->message);
    return (struct result){.ok = false};
}

/* Clients without the referrers API take an index under a tag for the list of referrers, and believe the types that it gives to manifests. */
static struct result lists_one_of_a_run(const struct request *request, const struct manifest *manifest, bool *does_out,
                                        struct error *err)
{
    OWNED_JSON document = NULL;

    *does_out = false;
    if (manifest->kind != MANIFEST_INDEX) return SUCCESS;
    TRY(json_read_any_number(request->body, MANIFEST_SIZE_MAX, &document, err));
    const json_t *listed = json_object_get(document, "manifests");
    for (size_t i = 0; i < json_array_size(listed) && !*does_out; i++) {
        const char *type = json_text_of(json_array_get(listed, i), "artifactType");
        *does_out = type != NULL && run_artifact_is_reserved(type);
    }
    return SUCCESS;
}

/* Such manifests say how an output was made, so only the server itself stores them (docs/runs.md), and the answer is 403. */
static struct result check_types(struct request *request, const struct manifest *manifest, struct error *err)
{
    bool is_reserved = run_artifact_is_reserved(manifest->artifact_type) || run_artifact_is_reserved(manifest->config_type);

    if (!is_reserved) TRY(lists_one_of_a_run(request, manifest, &is_reserved, err));
    if (!is_reserved) return SUCCESS;
    return oci_refuse(
        request, 403, "DENIED",
        "types that begin with " RUN_TYPES_RESERVED " are for what the registry stores when it admits a run: give your"
        " artifact another artifactType and config; a copy of an output goes without its referrers (oras cp without -r, regctl"
        " image copy without --referrers)");
}

static struct result push(struct request *request, struct pg *pg, struct error *err)
{
    struct manifest_push *push = arena_take(request->arena, sizeof *push);
    struct tags *tags = arena_take(request->arena, sizeof *tags);
    struct condition_on_manifest condition = condition_of(request);
    OWNED(manifest) *manifest = NULL;

    if (push == NULL || tags == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a push");
    TRY(parse(request, &manifest, err));
    if (manifest != NULL) TRY(check_types(request, manifest, err));
    if (manifest == NULL || request->response != NULL || !check_digest(request, push->digest) || !gather_tags(request, tags))
        return SUCCESS;
    push->manifest = manifest;
    push->tags = tags->names;
    push->tag_count = tags->count;
    push->condition = &condition.condition;
    return store(request, pg, push, err);
}

/* Deleting a tag keeps its manifest and the events. Policies on retention are about the manifest. */
static struct result delete (struct request *request, struct pg *pg, struct error *err)
{
    struct policy_retention retention;
    union {
        struct tag_delete tag;
        struct manifest_delete manifest;
    } deletion;
    struct change *change = &deletion.tag.change;
    struct condition_on_manifest condition = condition_of(request);

    if (is_digest(request->reference)) {
        TRY(holds_follow(request->gateway, pg, err));
        TRY(decider_retention(request->gateway->decider, request->name, clock_wall_ms(), &retention, err));
        manifest_delete_prepare(oci_where(request), request->reference, &retention, &deletion.manifest);
        deletion.manifest.condition = &condition.condition;
        change = &deletion.manifest.change;
    } else {
        tag_delete_prepare(oci_where(request), request->reference, &deletion.tag);
        deletion.tag.condition = &condition.condition;
    }
    const struct result result = request_record(request, change, err);
    if (!result.ok && condition.condition.has_failed) return refuse(request, 412, "PRECONDITION_FAILED", err);
    if (!result.ok) return oci_fail_to_delete(request, "MANIFEST_UNKNOWN", err);
    response_empty(request, 202);
    return SUCCESS;
}

/* An exception is for digests, and the client has named a tag. The event then names the digest, and that is what is read. */
static struct result pin_tag(struct request *request, struct lookup *lookup, enum pinning *pinning_out, struct error *err)
{
    struct resource *where = &request->pairs[0].resource;
    char digest[DIGEST_TEXT_SIZE];

    *pinning_out = PINNED_NOTHING;
    if (is_digest(request->reference) || request->pairs[0].action == ACTION_RUN_FETCH ||
        !decider_has_exceptions(request->gateway->decider, &where->project))
        return SUCCESS;
    *pinning_out = PINNED_LATER;
    if (lookup == NULL) return SUCCESS;
    *pinning_out = PINNED_NOTHING;
    TRY(tag_stands_for(lookup, &where->repository, request->reference, digest, err));
    if (digest[0] == '\0') return SUCCESS;
    request->reference = arena_copy_text(request->arena, bytes_of_text(digest));
    if (request->reference == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a digest");
    (void)snprintf(where->detail, sizeof where->detail, "%s", digest);
    *pinning_out = PINNED_DIGEST;
    return SUCCESS;
}

const struct handler handler_manifest_read = {.handle = read,
                                              .instead = oci_probe_instead,
                                              .pin = pin_tag,
                                              .fast_path = fast_path,
                                              .decides_on_event_thread = true,
                                              .takes_passed = true};
const struct handler handler_manifest_push = {.handle = push, .takes_passed = true, .passes_on = true};
const struct handler handler_manifest_delete = {.handle = delete, .takes_passed = true, .passes_on = true};
