/*
 * gateway/pipeline/repeat_priv.h -- the state of a request with Idempotency-Key.
 */
#pragma once

#include "audit/kept_answer.h"

struct repeat {
    struct kept_request request;
    struct kept_change claim;
    bool is_claimed; /* the change is durable, and the claim with it */
};
