/* Bodies into upload sessions (OCI Distribution Specification, "Pushing blobs"). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "crypto/secret.h"
#include "gateway/http/range.h"
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

struct upload_request upload_session_of(const struct request *request)
{
    struct upload_request session = {
        .action = request->pairs[0].action, .where = oci_where(request), .principal = request->principal};

    (void)upload_location_parse(bytes_of_text(request->reference), &session.location); /* the target function has checked it */
    return session;
}

struct result upload_body_ask(struct request *request, struct error *err)
{
    const struct upload_request session = upload_session_of(request);
    struct upload_body *state = NULL;

    upload_body_release(request); /* of an earlier decision that was stale */
    TRY(upload_body_new(request, &state, err));
    state->location = session.location;
    return upload_new(request->gateway->registry, &session, &state->upload, err);
}

struct result upload_body_find(struct request *request, struct pg *pg, struct upload_body **state_out, struct error *err)
{
    struct upload_body *state = request->handler_state;

    if (state == NULL || state->upload == NULL) {
        TRY(upload_body_ask(request, err));
        state = request->handler_state;
    }
    *state_out = state;
    return upload_find(request->permit, state->upload, pg, err);
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

/* 416 with the offset from which the client can go on. */
static struct result out_of_order(struct request *request, const struct upload_body *state)
{
    (void)oci_refuse(request, 416, "RANGE_INVALID", "the body does not begin where the upload ends; Range says where").ok;
    upload_headers(request, &state->location, upload_offset(state->upload));
    return SUCCESS;
}

/* A Content-Range must begin at the offset and be as long as the body. Some clients send "0-0" with an empty body. */
static struct result check_range(struct request *request, struct upload_body *state)
{
    const char *value = request_header(request, "Content-Range");
    const char *length = request_header(request, "Content-Length");
    struct range range = {0};
    char expected[24];

    if (value == NULL || (length != NULL && strcmp(length, "0") == 0)) return SUCCESS;
    if (!content_range_read(value, &range))
        return oci_refuse(request, 416, "RANGE_INVALID", "the Content-Range is not of the form first-last");
    if (range.first != upload_offset(state->upload)) return out_of_order(request, state);
    (void)snprintf(expected, sizeof expected, "%" PRIu64, range.last - range.first + 1);
    if (length != NULL && strcmp(length, expected) != 0)
        return oci_refuse(request, 400, "SIZE_INVALID", "the Content-Length is not that of the Content-Range");
    state->has_range = true;
    state->expected_end = range.last + 1;
    return SUCCESS;
}

/* Reserves the announced length before the first byte: room where it is stored, and bytes of the project's quota. */
static struct result reserve(struct request *request, struct pg *pg, struct upload_body *state, struct error *err)
{
    const char *text = request_header(request, "Content-Length");
    uint64_t length = 0;

    if (text == NULL || !text_to_u64(bytes_of_text(text), INT64_MAX, &length))
        return SUCCESS; /* unknown length: reserved piece by piece */
    TRY(upload_run_check(state, pg, length, err));
    upload_expect(state->upload, length);
    return upload_reserve(state->upload, &(struct upload_announcement){.length = length}, &state->recorder.recorder, err);
}

bool upload_body_claim(struct request *request, struct pg *pg, struct result found, struct result *result_out, struct error *err)
{
    struct upload_body *state = request->handler_state;

    if (found.ok && upload_claim(state->upload, pg, err).ok && upload_run_open(request, pg, state, err).ok &&
        reserve(request, pg, state, err).ok)
        return true;
    *result_out = upload_body_give_up(request, pg, err);
    return false;
}

struct result upload_body_begin(struct request *request, struct pg *pg, struct error *err)
{
    struct upload_body *state = NULL;
    struct result result = SUCCESS;

    const struct result found = upload_body_find(request, pg, &state, err);
    if (state == NULL) return found;
    if (!upload_body_claim(request, pg, found, &result, err)) return result;
    result = check_range(request, state);
    if (request->response == NULL) return result;
    upload_body_let_go(state, pg);
    return result;
}

struct result upload_body_begin_close(struct request *request, struct pg *pg, struct error *err)
{
    struct digest digest;

    if (!upload_digest_argument(request, &digest)) return SUCCESS;
    const struct result result = upload_body_begin(request, pg, err);
    if (result.ok) ((struct upload_body *)request->handler_state)->digest = digest;
    return result;
}

static struct result write(struct upload_body *state, struct pg *pg, struct bytes bytes, struct error *err)
{
    const struct upload_announcement announced = {.length = bytes.length, .more_may_come = true};

    TRY(upload_run_check(state, pg, bytes.length, err));
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

    struct result committed = upload_run_keep(request, pg, state, err);
    if (committed.ok) committed = upload_commit(state->upload, pg, &state->digest, &state->recorder.recorder, err);
    if (!committed.ok) return upload_body_give_up(request, pg, err);
    upload_body_end(state);
    if (!upload_run_confirm(request, pg, state, err).ok) return upload_body_refuse(request, err);
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
