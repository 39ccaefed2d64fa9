/* PATCH, PUT, GET and DELETE of upload sessions (OCI Distribution Specification, "Pushing a blob in chunks"). */
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

static struct change *search(struct request *request)
{
    struct error ignored = {0};

    if (!upload_body_ask(request, &ignored).ok) return NULL; /* upload_body_find() asks again, and reports the failure */
    return upload_search(((struct upload_body *)request->handler_state)->upload);
}

static struct result status(struct request *request, struct pg *pg, struct error *err)
{
    struct upload_body *state = NULL;

    if (!upload_body_find(request, pg, &state, err).ok) return upload_body_refuse(request, err);
    response_empty(request, 204);
    upload_headers(request, &state->location, upload_offset(state->upload));
    return SUCCESS;
}

static struct result cancel(struct request *request, struct pg *pg, struct error *err)
{
    const struct upload_request session = upload_session_of(request);
    struct upload_cancel change;

    upload_cancel_prepare(session.where, session.principal, &session.location, &change);
    if (!request_record(request, &change.change, err).ok) return upload_body_refuse(request, err);
    upload_cancel_finish(request->permit, request->gateway->registry, pg, &change);
    response_empty(request, 204);
    return SUCCESS;
}

const struct handler handler_upload_write = {.search = search,
                                             .begin = upload_body_begin,
                                             .write = upload_body_write,
                                             .finish = upload_body_finish_write,
                                             .cut = upload_body_cut,
                                             .release = upload_body_release,
                                             .decides_on_event_thread = true,
                                             .takes_passed = true,
                                             .passes_on = true};
const struct handler handler_upload_commit = {.search = search,
                                              .begin = upload_body_begin_close,
                                              .write = upload_body_write,
                                              .finish = upload_body_finish_close,
                                              .cut = upload_body_cut,
                                              .release = upload_body_release,
                                              .decides_on_event_thread = true,
                                              .takes_passed = true,
                                              .passes_on = true};
const struct handler handler_upload_read = {.search = search,
                                            .handle = status,
                                            .release = upload_body_release,
                                            .decides_on_event_thread = true,
                                            .takes_passed = true,
                                            .passes_on = true};
const struct handler handler_upload_cancel = {.handle = cancel, .takes_passed = true, .passes_on = true};
