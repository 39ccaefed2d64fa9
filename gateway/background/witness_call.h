/*
 * gateway/background/witness_call.h -- one submission of a checkpoint to a witness (C2SP tlog-witness v1.0.0).
 *
 * Nothing that the witness says is believed but a good cosignature, and the size that it knows, which is only a hint for the next proof.
 */
#pragma once

#include <stdatomic.h>

#include "audit/format/witness_answer.h"
#include "audit/format/witness_policy.h"
#include "outgoing/call.h"

enum witness_end {
    WITNESS_COSIGNED,
    WITNESS_KNOWS_OTHER, /* 409: prove from another size */
    WITNESS_REFUSED,     /* it does not know the log, or does not take the proof */
    WITNESS_AWAY,        /* no answer, or one that means "later" */
    WITNESS_LIED,        /* 200 without a good cosignature of this checkpoint */
};

struct witness_reply {
    enum witness_end end;
    uint64_t size;      /* of WITNESS_KNOWS_OTHER */
    uint64_t time_s;    /* of WITNESS_COSIGNED */
    struct buffer line; /* of WITNESS_COSIGNED: COSIGNATURE_LINE_MAX */
    char why[400];      /* else, for people */
};

struct witness_submission {
    struct outgoing *outgoing;
    const struct policy_witness *witness;
    struct bytes body, note; /* of add-checkpoint; the signed checkpoint in it */
    const atomic_bool *gives_up;
};
/** Fails only for local reasons: ERROR_NO_MEMORY, ERROR_INVALID. */
RESULT witness_call(const struct witness_submission *submission, struct witness_reply *reply, struct error *err);
