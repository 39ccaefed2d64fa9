/* POST blobs/uploads/: begins a session, mounts a blob, or takes a whole one (OCI Distribution Specification,
 * "Pushing blobs", "Mounting a blob from another repository"). */
#include <string.h>

#include "gateway/oci/manifest_label_priv.h"
#include "gateway/oci/upload_priv.h"
#include "gateway/pipeline/resolve.h"
#include "registry/stored_blob.h"

#define CHUNK_MIN "1048576" /* bytes: 65,536 extents of this size are 64 GiB; a session that stays open needs no minimum */

/* Whether both are in one project. Nothing is mounted from another project: an event about both projects would show each of them the names and
 * numbers of the other. */
static bool is_beside(const char *name, const struct repository_name *other)
{
    struct repository_name own;
    struct error ignored = {0};

    return repository_name_split(bytes_of_text(name), &own, &ignored).ok && bytes_equal(own.organisation, other->organisation) &&
           bytes_equal(own.project, other->project);
}

/* Names the source of a mount: `from`, or the repository itself, which may have the blob. False: it can't be a repository. */
static bool name_source(const struct request *request, const char **from_out, struct repository_name *name_out)
{
    const char *from = request_argument(request, "from");
    struct error ignored = {0};

    *from_out = from == NULL ? request->name : from;
    return repository_name_split(bytes_of_text(*from_out), name_out, &ignored).ok;
}

static struct action_pair reading_of(const struct request *request, const char *from)
{
    struct action_pair source = {.action = ACTION_BLOB_READ, .resource.kind = RESOURCE_REPOSITORY};

    memcpy(source.resource.name, from, strlen(from) + 1);
    resolve_name(request, &source.resource);
    return source;
}

/*
 * Finds the source of a mount, in the same project. False: it can't be one. A source that does not exist is decided and recorded like a
 * hidden one, because the time would tell them apart.
 */
static bool find_source(struct request *request, struct lookup *lookup, struct action_pair *source)
{
    const char *from = NULL;
    struct repository_name name;
    struct error ignored = {0};
    bool is_later = false;

    if (!name_source(request, &from, &name) || !is_beside(request->name, &name)) return false;
    *source = reading_of(request, from);
    return resolve_repository(request, lookup, source, &is_later, &ignored).ok;
}

static bool digest_to_mount(const struct request *request, struct digest *digest_out)
{
    const char *text = request_argument(request, "mount");
    struct error ignored = {0};

    return text != NULL && digest_parse(bytes_of_text(text), digest_out, &ignored).ok;
}

/* The pairs of a mount: the target, and the source that is read. False: it can't be mounted. */
static bool mount_pairs(struct request *request, struct lookup *lookup, const struct resource *target,
                        struct action_pair pairs_out[2])
{
    struct digest digest;

    if (!digest_to_mount(request, &digest)) return false;
    pairs_out[0] = (struct action_pair){.action = ACTION_BLOB_MOUNT, .resource = *target};
    if (!find_source(request, lookup, &pairs_out[1])) return false;
    digest_format(&digest, pairs_out[0].resource.detail);
    digest_format(&digest, pairs_out[1].resource.detail);
    return true;
}

/*
 * For a source in another project. Nothing is read there, so only a denial is recorded there: the caller asked, and may not read. This
 * event says nothing about the target.
 */
static void record_if_denied(struct request *request)
{
    const char *from = NULL;
    struct repository_name name;
    struct digest digest;
    struct error ignored = {0};

    if (!digest_to_mount(request, &digest) || !name_source(request, &from, &name) || is_beside(request->name, &name)) return;
    struct action_pair source = reading_of(request, from);
    digest_format(&digest, source.resource.detail);
    (void)request_record_denial(request, &source, &ignored).ok; /* if the log can't be written, the upload reports it */
}

/* The challenge asks for the source too, whether or not it exists. A source in another project can't be mounted. */
static void ask_for_source(struct request *request)
{
    const char *from = NULL;
    struct repository_name name;

    if (request_argument(request, "from") == NULL || request_argument(request, "mount") == NULL) return;
    if (name_source(request, &from, &name) && is_beside(request->name, &name))
        request_add_pair(request, ACTION_BLOB_READ, from)->kind = RESOURCE_REPOSITORY;
}

/* A caller without the right to upload may still mount (the role promoter); then the request is decided as a mount only. */
static void choose_pairs(struct request *request, struct lookup *lookup)
{
    struct action_pair pairs[2];

    if (!mount_pairs(request, lookup, &request->pairs[0].resource, pairs)) return;
    if (oci_may(request, request->pairs, 1) || !oci_may(request, pairs, 2)) return;
    memcpy(request->pairs, pairs, sizeof pairs);
    request->pair_count = 2;
}

struct result target_upload_begin(struct request *request, struct lookup *lookup, struct error *err)
{
    const char *algorithm = request_argument(request, "digest-algorithm");
    struct digest digest;

    (void)err;
    if (request_argument(request, "digest") != NULL && !upload_digest_argument(request, &digest)) return SUCCESS;
    if (algorithm != NULL && strcmp(algorithm, "sha256") != 0 && strcmp(algorithm, "sha512") != 0)
        return oci_refuse(request, 400, "DIGEST_INVALID", "the digest-algorithm is neither sha256 nor sha512");
    if (oci_target(request, ACTION_UPLOAD_BEGIN) == NULL) return SUCCESS;
    if (request->principal->kind == PRINCIPAL_NONE) ask_for_source(request);
    else choose_pairs(request, lookup);
    return SUCCESS;
}

/* Decides and records the mount separately. After any failure or denial the client gets an upload session: clients take a 403 here
 * as the end of the push. */
static bool mount(struct request *request, struct pg *pg)
{
    struct action_pair pairs[2];
    struct blob_mount change;
    struct error ignored = {0};
    OWNED_LABELLING labelling = {.text = {0}};
    bool goes_on = false;

    if (!mount_pairs(request, lookup_of(pg), oci_where(request), pairs)) {
        record_if_denied(request);
        return false;
    }
    blob_mount_prepare(request->gateway->registry, &pairs[0].resource, &pairs[1].resource, pairs[0].resource.detail, &change);
    const bool may_mount = oci_may(request, pairs, 2); /* else the denial is recorded, and no label is asked for */
    if (may_mount && (!mount_labelling_find(request, pairs, &change, &labelling, &goes_on, &ignored).ok || !goes_on))
        return false;
    return request_record_instead(request, pairs, 2, &change.change, &ignored).ok;
}

/* For a caller without the right to upload. A blob that can't be mounted is denied, like a plain POST of this caller. After a 202 the client would
   send the blob, and a 404 would mean that the repository does not exist (docs/conformance.md). */
static struct result mount_only(struct request *request, struct error *err)
{
    const struct action_pair *pairs = request->pairs;
    OWNED_LABELLING labelling = {.text = {0}};
    struct blob_mount change;
    bool goes_on = false;

    blob_mount_prepare(request->gateway->registry, &pairs[0].resource, &pairs[1].resource, pairs[0].resource.detail, &change);
    TRY(mount_labelling_find(request, pairs, &change, &labelling, &goes_on, err));
    if (!goes_on)
        return oci_refuse(request, 403, "DENIED",
                          "the label of what is mounted is one that this repository can't take where it is");
    const struct result mounted = request_record(request, &change.change, err);
    if (!mounted.ok && err->kind == ERROR_NOT_FOUND)
        return oci_refuse(request, 403, "DENIED",
                          "this can't be mounted from there, and no role that you have here permits an upload; blobs are "
                          "mounted inside one project");
    if (!mounted.ok) return oci_fail(request, "BLOB_UNKNOWN", err);
    upload_created(request, change.digest);
    return SUCCESS;
}

/* The algorithm of the final digest, if the client names it; a digest to mount is also the one to upload. */
static enum digest_algorithm algorithm_of(const struct request *request)
{
    const char *algorithm = request_argument(request, "digest-algorithm");
    const char *text = request_argument(request, "digest");
    struct digest digest;
    struct error ignored = {0};

    if (text == NULL) text = request_argument(request, "mount");
    if (text != NULL && digest_parse(bytes_of_text(text), &digest, &ignored).ok) return digest.algorithm;
    return algorithm != NULL && strcmp(algorithm, "sha512") == 0 ? DIGEST_SHA512 : DIGEST_SHA256;
}

static void accepted(struct request *request, const struct upload_location *location)
{
    response_empty(request, 202);
    upload_headers(request, location, 0);
    response_header(request, "OCI-Chunk-Min-Length", CHUNK_MIN);
}

/* Claims a session that this same request fills and closes. */
static struct result claim_whole(struct request *request, struct pg *pg, const struct upload_begin *begun, struct error *err)
{
    struct upload_body *state = request->handler_state;
    struct result result = SUCCESS;

    const struct result found = upload_of_begin(request->permit, request->gateway->registry, begun, &state->upload, err);
    (void)upload_body_claim(request, pg, found, &result, err);
    return result;
}

static struct result begin(struct request *request, struct pg *pg, struct error *err)
{
    const char *mounted = request_argument(request, "mount");
    const bool is_whole = request_argument(request, "digest") != NULL;
    struct upload_body *state = NULL;
    struct upload_begin begun;
    struct digest digest = {0};

    if (request->pairs[0].action == ACTION_BLOB_MOUNT) return mount_only(request, err);
    if (mounted != NULL && mount(request, pg)) {
        upload_created(request, mounted);
        return SUCCESS;
    }
    if (is_whole && !upload_digest_argument(request, &digest)) return SUCCESS;
    TRY(upload_body_new(request, &state, err));
    const struct result prepared = upload_begin_prepare(request->gateway->registry, oci_where(request), request->principal,
                                                        algorithm_of(request), &begun, err);
    if (!prepared.ok || !request_record(request, &begun.change, err).ok) return oci_fail(request, "NAME_UNKNOWN", err);
    upload_begin_finish(request->gateway->registry, &begun);
    state->location = begun.location;
    state->digest = digest;
    state->is_whole = is_whole;
    if (is_whole) return claim_whole(request, pg, &begun, err);
    accepted(request, &begun.location);
    return SUCCESS;
}

static void cut(struct request *request, struct pg *pg)
{
    if (request->handler_state != NULL) upload_body_let_go(request->handler_state, pg);
}

static bool is_empty_digest(const struct digest *digest)
{
    const struct digest empty = digest_of(digest->algorithm, (struct bytes){0});

    return digest_equal(&empty, digest);
}

static struct result finish(struct request *request, struct pg *pg, struct error *err)
{
    struct upload_body *state = request->handler_state;

    /* Without a body, the client only names the digest early, and the request begins a session. */
    if (upload_offset(state->upload) == 0 && !is_empty_digest(&state->digest)) {
        upload_body_end(state);
        accepted(request, &state->location);
        return SUCCESS;
    }
    return upload_body_commit(request, pg, err);
}

const struct handler handler_upload_begin = {.begin = begin,
                                             .write = upload_body_write,
                                             .finish = finish,
                                             .cut = cut,
                                             .release = upload_body_release,
                                             .takes_passed = true,
                                             .passes_on = true};
