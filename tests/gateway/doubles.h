/* tests/gateway/doubles.h -- the behaviour of the stand-ins, and their counters. */
#pragma once

#include <stdatomic.h>

enum double_mode { DOUBLE_GOOD, DOUBLE_LOG_DOWN };

extern _Atomic enum double_mode double_mode;
extern _Atomic int double_refused;  /* sequencer_count_refused(), and records of refusals */
extern _Atomic int double_recorded; /* events with a decision */
extern _Atomic int double_outcomes; /* events under a permit */
extern _Atomic int double_revoked;  /* no client has a right to "revocable" any more */
extern _Atomic int double_stale;    /* the number of the next records that come back stale */
