/*
 * documents/invitation_find.h -- the invitation of a runner's code, which is a credential: it is read before any decision.
 *
 * Closed to handlers (tests/lint/closed_headers.txt).
 */
#pragma once

#include "documents/invitation.h"

struct found_invitation {
    struct runner_invitation *invitation; /* as the row has it: nobody has checked its signature */
    struct uuid organisation;             /* nil: of the registry */
    uint8_t code[32];
    int64_t expires_ms;
    bool is_used;
    uint8_t digest[DOCUMENT_DIGEST_SIZE]; /* of the document that it was used for */
};
/** *found_out->invitation is NULL if there is none of this runner, or if its envelope is malformed. */
RESULT invitation_find(struct pg *pg, const struct uuid *runner, struct found_invitation *found_out, struct error *err);
