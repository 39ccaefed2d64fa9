/*
 * witness/answer.h -- what a witness answers to a checkpoint (C2SP tlog-witness v1.0.0; docs/formats/audit-log.md section 9).
 *
 * Rule: for each log there is one root for each size under our key. The checks come in the order of the specification; the new position
 * is durable before the cosignature is returned.
 */
#pragma once

#include "witness/identity.h"
#include "witness/state.h"

struct witness {
    const struct witness_identity *identity;
    struct witness_state *state;
};

#define WITNESS_ANSWER_MAX 1024 /* bytes of a line with a cosignature, or of a reason */

struct witness_answer {
    unsigned status; /* 200, 400, 403, 404, 409, 422, 503 */
    const char *content_type;
    struct buffer text; /* of WITNESS_ANSWER_MAX: a cosignature; the size that we know; or a reason for people */
    bool is_fork;       /* the log has signed two roots of this size */
};

/** Checks the body of add-checkpoint at the time `now_s`, and cosigns. ERROR_NO_MEMORY; every other outcome is an answer. */
RESULT witness_add(const struct witness *witness, struct bytes body, uint64_t now_s, struct witness_answer *answer,
                   struct error *err);
