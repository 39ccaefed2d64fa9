/* tests/gateway/doubles.h -- how the stand-ins behave, and what they counted. */
#pragma once

#include <stdatomic.h>

enum double_mode { DOUBLE_GOOD, DOUBLE_LOG_DOWN };

extern _Atomic enum double_mode double_mode;
extern _Atomic int double_refused;  /* sequencer_count_refused(), and records of refusals */
extern _Atomic int double_recorded; /* events with a decision */
extern _Atomic int double_outcomes; /* events under a permit */
extern _Atomic int double_revoked;  /* whoever asks for "revocable" has no right to it any more */
extern _Atomic int double_stale;    /* so many of the next records come back stale */
