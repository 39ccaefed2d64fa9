/*
 * tests/fuzz/default_set.h -- the policy set that the seeds need, made as the first one of docs/formats/audit-log-vectors.json.
 */
#pragma once

#include <assert.h>

#include "policy/set.h"

static inline struct policy_set *default_set(void)
{
    static const struct policy_default_options options = {
        .epoch = 1, .region = "local/main", .now_ms = 1795171186000, .network = "10.0.0.0/8"};
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX);
    struct policy_set *set = NULL;
    struct error err;

    assert(policy_default_set(&options, &payload, &err).ok);
    assert(policy_set_compile(buffer_bytes(&payload), &set, &err).ok);
    return set;
}
