/*
 * audit/permit_priv.h -- how the sequencer makes a permit. No other folder can include this (tests/lint: *_priv.h).
 */
#pragma once

#include "audit/decision_priv.h"
#include "audit/permit.h"

struct permit {
    const char *mark;          /* set by permit_make(): something else that was cast to a permit does not have it */
    struct decision *decision; /* a reference */
    uint64_t sequence, epoch;
    char actor[65], request[37]; /* as in the event: later events of the same operation repeat them */
};

/** The decision must allow (asserted); the permit holds it. ERROR_NO_MEMORY. */
RESULT permit_make(struct decision *decision, struct permit **permit_out, struct error *err);
