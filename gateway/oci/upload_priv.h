/*
 * gateway/oci/upload_priv.h -- a body on its way into an upload session: PATCH, PUT, and a POST that brings all.
 */
#pragma once

#include "gateway/oci/oci_priv.h"
#include "registry/upload/upload.h"

/** Kept in request->handler_state from begin to release. */
struct upload_body {
    struct upload *upload;
    struct upload_location location;
    struct request_recorder recorder;
    bool is_whole; /* nobody is told the session's Location: whatever fails ends it */
    bool has_range;
    uint64_t expected_end; /* with a Content-Range: where the body must end */
    struct digest digest;  /* PUT and POST: what it must be */
};

/** In the arena, zeroed, as the request's handler_state. ERROR_NO_MEMORY. */
RESULT upload_body_new(struct request *request, struct upload_body **state_out, struct error *err);
/** Lets go of the session. Before the answer goes out, because the client's next request may come at once. */
void upload_body_end(struct upload_body *state);
/**
 * upload_body_end(), and what was reserved of the project's quota and did not come is given back; a session that nobody was told of ends.
 * What can't be done now is, when the session expires.
 */
void upload_body_let_go(struct upload_body *state, struct pg *pg);
/** Claims the session that was found, if it was. True: go on; false: *result_out is what the handler returns. */
bool upload_body_claim(struct request *request, struct pg *pg, struct result found, struct result *result_out,
                  struct error *err);
/** What a session's failure means to a client. */
RESULT upload_body_refuse(struct request *request, struct error *err);
RESULT upload_body_write(struct request *request, struct pg *pg, struct bytes bytes, struct error *err);
/** Commits and answers 201. */
RESULT upload_body_commit(struct request *request, struct pg *pg, struct error *err);
void upload_body_release(struct request *request);

/** Location, Range and Docker-Upload-UUID of a session, added to an answer (docs/decisions/0015-range-of-nothing.md). */
void upload_headers(struct request *request, const struct upload_location *location, uint64_t offset);
/** `?digest=`: false and an answer if it is none. */
bool upload_digest_argument(struct request *request, struct digest *digest_out);
/** 201 for a blob that is there now. */
void upload_created(struct request *request, const char *digest);
