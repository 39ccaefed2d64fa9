/*
 * audit/permit_priv.h -- how the sequencer makes a permit. Nobody else may: the lint keeps *_priv.h in its folder.
 */
#pragma once

#include "audit/decision_priv.h"
#include "audit/permit.h"

struct permit {
    struct decision *decision; /* held */
    uint64_t sequence, epoch;
    char actor[65], request[37]; /* as in the event: later events of the same operation have the same */
};

/** For an allowing decision (asserted); holds it. ERROR_NO_MEMORY. */
RESULT permit_make(struct decision *decision, struct permit **permit_out, struct error *err);
