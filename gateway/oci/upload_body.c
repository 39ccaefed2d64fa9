/* Bodies into upload sessions (OCI Distribution Specification, "Pushing blobs"). */
#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "crypto/secret.h"
#include "gateway/oci/upload_priv.h"

struct result upload_body_new(struct request *request, struct upload_body **state_out, struct error *err)
{
    struct upload_body *state = arena_take(request->arena, sizeof *state);

    if (state == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an upload");
    request_recorder_init(&state->recorder, request);
    request->handler_state = state;
    *state_out = state;
    return SUCCESS;
}

void upload_headers(struct request *request, const struct upload_location *location, uint64_t offset)
{
    char name[UPLOAD_LOCATION_SIZE], id[UUID_TEXT_SIZE];

    upload_location_format(location, name);
    uuid_format(&location->upload, id);
    oci_location(request, "blobs/uploads", name);
    response_header(request, "Docker-Upload-UUID", "%s", id);
    /* "0-0" also means that there are no bytes. In a 416 it would send some clients to byte 1, again and again. */
    if (offset > 0 || request->response->status != 416)
        response_header(request, "Range", "0-%" PRIu64, offset > 0 ? offset - 1 : 0);
    secret_wipe(name, sizeof name);
}

bool upload_digest_argument(struct request *request, struct digest *digest_out)
{
    const char *text = request_argument(request, "digest");
    struct error wrong = {0};

    if (text != NULL && digest_parse(bytes_of_text(text), digest_out, &wrong).ok) return true;
    (void)oci_refuse(request, 400, "DIGEST_INVALID", text == NULL ? "the argument digest is missing" : wrong.message).ok;
    return false;
}

void upload_created(struct request *request, const char *digest)
{
    response_empty(request, 201);
    oci_location(request, "blobs", digest);
    response_header(request, "Docker-Content-Digest", "%s", digest);
}

struct result upload_body_refuse(struct request *request, struct error *err)
{
    switch (err->kind) {
    case ERROR_CONFLICT: return oci_refuse(request, 409, "BLOB_UPLOAD_INVALID", err->message);
    case ERROR_INVALID: return oci_refuse(request, 400, "DIGEST_INVALID", err->message);
    case ERROR_NONE:
    case ERROR_DENIED:
    case ERROR_NOT_FOUND:
    case ERROR_LIMIT:
    case ERROR_FULL:
    case ERROR_UNAVAILABLE:
    case ERROR_UNCERTAIN:
    case ERROR_CORRUPT:
    case ERROR_NO_MEMORY:
    case ERROR_FORKED: break;
    }
    return oci_fail(request, "BLOB_UPLOAD_UNKNOWN", err);
}

void upload_body_end(struct upload_body *state)
{
    upload_free(GIVE(state->upload));
}

void upload_body_let_go(struct upload_body *state, struct pg *pg)
{
    struct recorder *recorder = &state->recorder.recorder;
    struct error ignored = {0};

    if (state->upload == NULL) return;
    if (state->is_whole) (void)upload_drop(state->upload, pg, "its only request failed", recorder, &ignored).ok;
    else (void)upload_give_back(state->upload, recorder, &ignored).ok;
    upload_body_end(state);
}

/* Clients begin anew if an upload is unknown. A damaged upload becomes unknown, unless another writer has it. */
static struct result end_lost(struct request *request, struct pg *pg, struct error *err)
{
    struct upload_body *state = request->handler_state;

    log_error("saved bytes of an upload are missing or damaged, so the upload ends", err);
    const struct result dropped = upload_drop(state->upload, pg, "what it had is lost", &state->recorder.recorder, err);
    upload_body_end(state);
    if (!dropped.ok) return upload_body_refuse(request, err);
    return oci_refuse(request, 404, "BLOB_UPLOAD_UNKNOWN", "the stored part of this upload is lost: begin a new one");
}

struct result upload_body_give_up(struct request *request, struct pg *pg, struct error *err)
{
    struct upload_body *state = request->handler_state;

    if (state->upload != NULL && upload_is_lost(state->upload)) return end_lost(request, pg, err);
    if (state->upload != NULL) upload_note_end(state->upload, pg, err);
    upload_body_let_go(state, pg);
    return upload_body_refuse(request, err);
}

static struct result write(struct upload_body *state, struct pg *pg, struct bytes bytes, struct error *err)
{
    const struct upload_announcement announced = {.length = bytes.length, .more_may_come = true};

    if (upload_must_reserve(state->upload, bytes.length))
        TRY(upload_reserve(state->upload, &announced, &state->recorder.recorder, err));
    TRY(upload_write(state->upload, bytes, err));
    TRY(upload_heartbeat(state->upload, pg, err));
    return upload_must_save(state->upload) ? upload_save(state->upload, pg, &state->recorder.recorder, err) : SUCCESS;
}

struct result upload_body_write(struct request *request, struct pg *pg, struct bytes bytes, struct error *err)
{
    struct upload_body *state = request->handler_state;

    return write(state, pg, bytes, err).ok ? SUCCESS : upload_body_give_up(request, pg, err);
}

struct result upload_body_commit(struct request *request, struct pg *pg, struct error *err)
{
    struct upload_body *state = request->handler_state;
    char digest[DIGEST_TEXT_SIZE];

    const struct result committed = upload_commit(state->upload, pg, &state->digest, &state->recorder.recorder, err);
    if (!committed.ok) return upload_body_give_up(request, pg, err);
    upload_body_end(state);
    digest_format(&state->digest, digest);
    upload_created(request, digest);
    return SUCCESS;
}

static bool is_short(struct request *request, const struct upload_body *state)
{
    if (!state->has_range || upload_offset(state->upload) == state->expected_end) return false;
    (void)oci_refuse(request, 400, "SIZE_INVALID", "the body was not as long as its Content-Range").ok;
    return true;
}

struct result upload_body_finish_write(struct request *request, struct pg *pg, struct error *err)
{
    struct upload_body *state = request->handler_state;

    const bool wrong = is_short(request, state); /* bytes that were not saved in time do not count then */
    const struct result saved = wrong ? SUCCESS : upload_save(state->upload, pg, &state->recorder.recorder, err);
    const uint64_t offset = upload_offset(state->upload);
    upload_body_let_go(state, pg);
    if (!saved.ok) return upload_body_refuse(request, err);
    if (wrong) return SUCCESS;
    response_empty(request, 202);
    upload_headers(request, &state->location, offset);
    return SUCCESS;
}

struct result upload_body_finish_close(struct request *request, struct pg *pg, struct error *err)
{
    const struct result result = is_short(request, request->handler_state) ? SUCCESS : upload_body_commit(request, pg, err);

    upload_body_end(request->handler_state);
    return result;
}

/* The bytes that arrived before the connection broke are kept; the client asks where to go on. */
void upload_body_cut(struct request *request, struct pg *pg)
{
    struct upload_body *state = request->handler_state;
    struct error ignored = {0};

    if (state == NULL || state->upload == NULL) return;
    if (!request->is_right_lost && upload_can_save(state->upload))
        (void)upload_save(state->upload, pg, &state->recorder.recorder, &ignored).ok;
    upload_body_let_go(state, pg);
}

void upload_body_release(struct request *request)
{
    struct upload_body *state = request->handler_state;

    if (state == NULL) return;
    upload_body_end(state);
    secret_wipe(&state->location, sizeof state->location);
}
