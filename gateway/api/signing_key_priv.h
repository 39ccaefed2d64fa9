/*
 * gateway/api/signing_key_priv.h -- another key of a person whose keys give power (docs/documents.md, "Replaced keys").
 */
#pragma once

#include "gateway/api/document_priv.h"

/** What sijil-keyd asks of this enrolment. */
struct key_wait {
    bool is_asked;     /* no key of the person has signed it, and one should have, or it waits */
    bool is_begun;     /* the wait of this very document */
    int64_t counts_ms; /* when it is over */
};
RESULT key_wait_find(const struct request *request, const struct document *document, const struct document_trust *trust,
                     struct key_wait *wait_out, struct error *err);
/** Whether the key that the document names in `replaces` is a live one of its principal: sijil-keyd's refusal would be final. ERROR_DENIED. */
RESULT key_check_old(const struct request *request, const struct document *document, struct error *err);
/** Records key.replace, has sijil-keyd begin the wait, and answers. */
RESULT key_wait_begin(struct request *request, struct pg *pg, const struct signed_body *body, struct error *err);
/** Adds `waits_until` to the drafts that wait. */
RESULT key_wait_add(const struct request *request, json_t *drafts, struct error *err);
/** Whether this key waits, and is this principal's. */
RESULT key_is_waiting(const struct request *request, const struct document *document, bool *is_waiting_out, struct error *err);
