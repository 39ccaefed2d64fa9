/* PATCH, PUT, GET and DELETE of upload sessions (OCI Distribution Specification, "Pushing a blob in chunks"). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "gateway/http/range.h"
#include "gateway/oci/upload_priv.h"

/* Only the id goes into the decision and the log; the secret stays in the request. */
static struct result target_session(struct request *request, enum action action)
{
    struct upload_location location;

    if (!upload_location_parse(bytes_of_text(request->reference), &location))
        return oci_refuse(request, 404, "BLOB_UPLOAD_UNKNOWN", "there is no such upload, or it has ended: begin a new one");
    struct resource *resource = oci_target(request, action);
    if (resource != NULL) uuid_format(&location.upload, resource->detail);
    return SUCCESS;
}

struct result target_upload_write(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    (void)err;
    return target_session(request, ACTION_UPLOAD_WRITE);
}

struct result target_upload_commit(struct request *request, struct lookup *lookup, struct error *err)
{
    struct digest digest;

    (void)lookup;
    (void)err;
    return upload_digest_argument(request, &digest) ? target_session(request, ACTION_UPLOAD_COMMIT) : SUCCESS;
}

struct result target_upload_read(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    (void)err;
    return target_session(request, ACTION_UPLOAD_READ);
}

struct result target_upload_cancel(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    (void)err;
    return target_session(request, ACTION_UPLOAD_CANCEL);
}

static struct upload_request session_of(const struct request *request)
{
    struct upload_request session = {
        .action = request->pairs[0].action, .where = oci_where(request), .principal = request->principal};

    (void)upload_location_parse(bytes_of_text(request->reference), &session.location); /* the target function has checked it */
    return session;
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

static struct result ask(struct request *request, struct error *err)
{
    const struct upload_request session = session_of(request);
    struct upload_body *state = NULL;

    upload_body_release(request); /* of an earlier decision that was stale */
    TRY(upload_body_new(request, &state, err));
    state->location = session.location;
    return upload_new(request->gateway->registry, &session, &state->upload, err);
}

static struct change *search(struct request *request)
{
    struct error ignored = {0};

    if (!ask(request, &ignored).ok) return NULL; /* begin() asks again, and reports the failure */
    return upload_search(((struct upload_body *)request->handler_state)->upload);
}

static struct result find(struct request *request, struct pg *pg, struct upload_body **state_out, struct error *err)
{
    struct upload_body *state = request->handler_state;

    if (state == NULL || state->upload == NULL) {
        TRY(ask(request, err));
        state = request->handler_state;
    }
    *state_out = state;
    return upload_find(request->permit, state->upload, pg, err);
}

/* Reserves the announced length before the first byte: room where it is stored, and bytes of the project's quota. */
static struct result reserve(struct request *request, struct upload_body *state, struct error *err)
{
    const char *text = request_header(request, "Content-Length");
    uint64_t length = 0;

    if (text == NULL || !text_to_u64(bytes_of_text(text), INT64_MAX, &length))
        return SUCCESS; /* unknown length: reserved piece by piece */
    upload_expect(state->upload, length);
    return upload_reserve(state->upload, &(struct upload_announcement){.length = length}, &state->recorder.recorder, err);
}

bool upload_body_claim(struct request *request, struct pg *pg, struct result found, struct result *result_out, struct error *err)
{
    struct upload_body *state = request->handler_state;

    if (found.ok && upload_claim(state->upload, pg, err).ok && reserve(request, state, err).ok) return true;
    *result_out = upload_body_give_up(request, pg, err);
    return false;
}

static struct result begin(struct request *request, struct pg *pg, struct error *err)
{
    struct upload_body *state = NULL;
    struct result result = SUCCESS;

    const struct result found = find(request, pg, &state, err);
    if (state == NULL) return found;
    if (!upload_body_claim(request, pg, found, &result, err)) return result;
    result = check_range(request, state);
    if (request->response == NULL) return result;
    upload_body_let_go(state, pg);
    return result;
}

static struct result begin_close(struct request *request, struct pg *pg, struct error *err)
{
    struct digest digest;

    if (!upload_digest_argument(request, &digest)) return SUCCESS;
    const struct result result = begin(request, pg, err);
    if (result.ok) ((struct upload_body *)request->handler_state)->digest = digest;
    return result;
}

static struct result status(struct request *request, struct pg *pg, struct error *err)
{
    struct upload_body *state = NULL;

    if (!find(request, pg, &state, err).ok) return upload_body_refuse(request, err);
    response_empty(request, 204);
    upload_headers(request, &state->location, upload_offset(state->upload));
    return SUCCESS;
}

static struct result cancel(struct request *request, struct pg *pg, struct error *err)
{
    const struct upload_request session = session_of(request);
    struct upload_cancel change;

    upload_cancel_prepare(session.where, session.principal, &session.location, &change);
    if (!request_record(request, &change.change, err).ok) return upload_body_refuse(request, err);
    upload_cancel_finish(request->permit, request->gateway->registry, pg, &change);
    response_empty(request, 204);
    return SUCCESS;
}

const struct handler handler_upload_write = {.search = search,
                                             .begin = begin,
                                             .write = upload_body_write,
                                             .finish = upload_body_finish_write,
                                             .cut = upload_body_cut,
                                             .release = upload_body_release,
                                             .decides_at_once = true};
const struct handler handler_upload_commit = {.search = search,
                                              .begin = begin_close,
                                              .write = upload_body_write,
                                              .finish = upload_body_finish_close,
                                              .cut = upload_body_cut,
                                              .release = upload_body_release,
                                              .decides_at_once = true};
const struct handler handler_upload_read = {
    .search = search, .handle = status, .release = upload_body_release, .decides_at_once = true};
const struct handler handler_upload_cancel = {.handle = cancel};
