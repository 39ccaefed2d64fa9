/*
 * gateway/pipeline/repeat_priv.h -- the state of a request with Idempotency-Key.
 */
#pragma once

#include "audit/kept_answer.h"

#define REPEAT_TOO_SOON "a request with this Idempotency-Key was carried out at the same moment: send it again for its answer"

struct repeat {
    struct kept_request request;
    struct kept_change claim;
    bool is_claimed; /* the change is durable, and the claim with it */
    bool is_used;    /* by another request before: its event says so */
};
