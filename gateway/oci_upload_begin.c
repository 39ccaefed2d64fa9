/* POST blobs/uploads/: begins a session, mounts a blob, or takes a whole one (OCI Distribution Specification,
 * "Pushing blobs", "Mounting a blob from another repository"). */
#include <string.h>

#include "gateway/oci_upload_priv.h"
#include "policy/decider.h"
#include "registry/stored_blob.h"

#define CHUNK_MIN "1048576" /* bytes: 65,536 extents of it are 64 GiB, and writers that go on need none */

struct result target_upload_begin(struct request *request, struct pg *pg, struct error *err)
{
    const char *algorithm = request_argument(request, "digest-algorithm");
    struct resource *resource = NULL;
    struct digest digest;

    if (request_argument(request, "digest") != NULL && !upload_digest_argument(request, &digest)) return SUCCESS;
    if (algorithm != NULL && strcmp(algorithm, "sha256") != 0 && strcmp(algorithm, "sha512") != 0)
        return oci_refuse(request, 400, "DIGEST_INVALID", "the digest-algorithm is neither sha256 nor sha512");
    return oci_target(request, pg, ACTION_UPLOAD_BEGIN, &resource, err);
}

/* Where to mount from: `from`, or the repository itself, which may have the blob already. False: can't be. */
static bool find_source(struct request *request, struct pg *pg, struct resource *source)
{
    const char *from = request_argument(request, "from");
    struct repository_name name;
    struct error ignored = {0};

    if (from == NULL) from = request->name;
    if (!repository_name_split(bytes_of_text(from), &name, &ignored).ok) return false;
    *source = (struct resource){.kind = RESOURCE_REPOSITORY};
    memcpy(source->name, from, strlen(from) + 1);
    decider_resolve(request->gateway->decider, from, source);
    return registry_resolve(request->gateway->registry, pg, source, &ignored).ok && !uuid_is_nil(&source->repository);
}

/* Decided and recorded by itself. Whatever stands against it, also a denial, means a plain upload: clients take a
 * 403 here for the end of the push. */
static bool mount(struct request *request, struct pg *pg, const char *text)
{
    struct action_pair pairs[2] = {{.action = ACTION_BLOB_MOUNT, .resource = *oci_where(request)},
                                   {.action = ACTION_BLOB_READ}};
    struct blob_mount change;
    struct digest digest;
    struct error ignored = {0};

    if (!digest_parse(bytes_of_text(text), &digest, &ignored).ok) return false;
    if (!find_source(request, pg, &pairs[1].resource)) return false;
    digest_format(&digest, pairs[0].resource.detail);
    digest_format(&digest, pairs[1].resource.detail);
    blob_mount_prepare(&pairs[0].resource, &pairs[1].resource, text, &change);
    return request_record_instead(request, pairs, 2, &change.change, &ignored).ok;
}

/* What the client will close with, as far as it says: a digest to mount is also the one to upload. */
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
    response_header(request, "Range", "0-0");
    response_header(request, "OCI-Chunk-Min-Length", CHUNK_MIN);
}

/* A session that this same request fills and closes. */
static struct result claim_whole(struct request *request, struct pg *pg, const struct upload_begin *begun,
                                 struct error *err)
{
    struct resource where = begun->where;
    struct result result = SUCCESS;

    where.repository = begun->repository;
    const struct upload_request session = {.permit = request->permit,
                                           .action = ACTION_UPLOAD_BEGIN,
                                           .where = &where,
                                           .principal = &request->principal,
                                           .location = begun->location};
    (void)intake_claim(request, pg, &session, &result, err);
    return result;
}

static struct result begin(struct request *request, struct pg *pg, struct error *err)
{
    const char *mounted = request_argument(request, "mount");
    const bool is_whole = request_argument(request, "digest") != NULL;
    struct intake_state *state = NULL;
    struct upload_begin begun;
    struct digest digest = {0};

    if (mounted != NULL && mount(request, pg, mounted)) {
        upload_created(request, mounted);
        return SUCCESS;
    }
    if (is_whole && !upload_digest_argument(request, &digest)) return SUCCESS;
    TRY(intake_state_new(request, &state, err));
    const struct result prepared = upload_begin_prepare(request->gateway->registry, oci_where(request),
                                                        &request->principal, algorithm_of(request), &begun, err);
    if (!prepared.ok || !request_record(request, &begun.change, err).ok) return oci_fail(request, "NAME_UNKNOWN", err);
    state->location = begun.location;
    state->digest = digest;
    if (is_whole) return claim_whole(request, pg, &begun, err);
    accepted(request, &begun.location);
    return SUCCESS;
}

/* Nobody was told the Location, so nobody could go on. */
static void drop(struct request *request, struct pg *pg)
{
    struct intake_state *state = request->handler_state;
    struct error ignored = {0};

    if (state == NULL || state->upload == NULL) return;
    (void)upload_drop(state->upload, pg, "the body was not the blob", &state->recorder.recorder, &ignored).ok;
    intake_end(state);
}

static bool is_empty_digest(const struct digest *digest)
{
    const struct digest empty = digest_of(digest->algorithm, (struct bytes){0});

    return digest_equal(&empty, digest);
}

static struct result finish(struct request *request, struct pg *pg, struct error *err)
{
    struct intake_state *state = request->handler_state;

    /* Without a body it is the beginning of a session by a client that names the digest early. */
    if (upload_offset(state->upload) == 0 && !is_empty_digest(&state->digest)) {
        intake_end(state);
        accepted(request, &state->location);
        return SUCCESS;
    }
    const struct result result = intake_commit(request, pg, err);
    if (result.ok && request->response->status != 201) drop(request, pg);
    return result;
}

const struct handler handler_upload_begin = {
    .begin = begin, .write = intake_write, .finish = finish, .cut = drop, .release = intake_release};
