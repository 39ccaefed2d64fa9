/*
 * tests/unit/default_set_fixture.h -- the default set of an operator.
 * For one source file of a program only: it defines what it declares.
 */
#pragma once

#include "tests/support/unit.h"

#include "policy/set.h"

static const struct policy_default_options defaults = {
    .epoch = 1, .region = "local/main", .now_ms = 1795171186000, .network = "10.1.0.0/16"};

static inline void payload_of(const struct policy_default_options *options, struct buffer *payload)
{
    struct error err = {0};

    if (!policy_default_set(options, payload, &err).ok) fail_msg("%s", err.message);
}
