/*
 * gateway/oci/upload_priv.h -- request bodies that go into an upload session: PATCH, PUT, and a POST with the whole blob.
 */
#pragma once

#include "gateway/oci/oci_priv.h"
#include "registry/upload/upload.h"

/** Kept in request->handler_state from begin to release. */
struct upload_body {
    struct upload *upload;
    struct upload_location location;
    struct request_recorder recorder;
    bool is_whole; /* no client knows the session's Location, so any failure ends the session */
    bool has_range;
    uint64_t expected_end; /* with a Content-Range: the offset where the body must end */
    struct digest digest;  /* of PUT and POST: the digest that the blob must have */
    uint64_t room;         /* of a run: the most bytes that the whole upload may have */
    uint64_t reserved;     /* of a run: so many are counted already */
    uint64_t length;       /* of a run's blob that is committed */
};

/** In the arena, zeroed, as the request's handler_state. ERROR_NO_MEMORY. */
RESULT upload_body_new(struct request *request, struct upload_body **state_out, struct error *err);
/** Releases the session. Call it before the answer goes out, because the client's next request may come at once. */
void upload_body_end(struct upload_body *state);
/**
 * Does upload_body_end(), and gives back the unused part of the project's quota; ends the session if no client knows it. Work
 * that fails here is done when the session expires.
 */
void upload_body_let_go(struct upload_body *state, struct pg *pg);
/** The session that the path names. The target function has checked the path. */
struct upload_request upload_session_of(const struct request *request);
/** Makes the object of the session of the path, as the request's handler_state. Reads nothing. */
RESULT upload_body_ask(struct request *request, struct error *err);
/** Finds the session of the path; *state_out is NULL if there was no memory for it. */
RESULT upload_body_find(struct request *request, struct pg *pg, struct upload_body **state_out, struct error *err);
/** Claims the session if `found` is a success. True: go on; false: the handler returns *result_out. */
bool upload_body_claim(struct request *request, struct pg *pg, struct result found, struct result *result_out, struct error *err);
/** Makes the answer to a failure of a session. */
RESULT upload_body_refuse(struct request *request, struct error *err);
/** The same after the session was claimed: releases the session, or ends it if its stored bytes are lost. */
RESULT upload_body_give_up(struct request *request, struct pg *pg, struct error *err);
/** Commits and answers 201. */
RESULT upload_body_commit(struct request *request, struct pg *pg, struct error *err);

/* gateway/oci/upload_run.c: nothing of this concerns other principals than runs. */
/** After the claim: how many bytes the order leaves for this upload. ERROR_NOT_FOUND: the lease has ended. */
RESULT upload_run_open(const struct request *request, struct pg *pg, struct upload_body *state, struct error *err);
/** Before so many bytes come: counts them. ERROR_DENIED: the order does not allow them. */
RESULT upload_run_check(struct upload_body *state, struct pg *pg, uint64_t more, struct error *err);
/** Before the commit: counts the blob. ERROR_DENIED, ERROR_NOT_FOUND. */
RESULT upload_run_keep(const struct request *request, struct pg *pg, struct upload_body *state, struct error *err);
/** After the commit: the runner has uploaded a blob that has this digest. */
RESULT upload_run_confirm(const struct request *request, struct pg *pg, const struct upload_body *state, struct error *err);

/* Functions of handlers (gateway/pipeline/handler.h). */
RESULT upload_body_begin(struct request *request, struct pg *pg, struct error *err);
RESULT upload_body_begin_close(struct request *request, struct pg *pg, struct error *err); /* the blob will be whole */
RESULT upload_body_write(struct request *request, struct pg *pg, struct bytes bytes, struct error *err);
RESULT upload_body_finish_write(struct request *request, struct pg *pg, struct error *err); /* the session goes on */
RESULT upload_body_finish_close(struct request *request, struct pg *pg, struct error *err); /* the blob is whole */
void upload_body_cut(struct request *request, struct pg *pg);
void upload_body_release(struct request *request);

/** Adds Location, Range and Docker-Upload-UUID of a session to an answer (docs/decisions/0015-range-of-nothing.md). */
void upload_headers(struct request *request, const struct upload_location *location, uint64_t offset);
/** `?digest=`. False: it is missing or malformed, and an answer was made. */
bool upload_digest_argument(struct request *request, struct digest *digest_out);
/** Makes the 201 of a blob that is stored. */
void upload_created(struct request *request, const char *digest);
