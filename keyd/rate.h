/*
 * keyd/rate.h -- how fast one project's keys may be unwrapped: what a gateway that was taken over can carry away.
 *
 * A token bucket for each project. A table of fixed size holds those that are not full; when a project's part of the
 * table is full of busy others it is refused, never let through.
 */
#pragma once

#include "base/bytes.h"
#include "base/owned.h"
#include "base/uuid.h"

#define UNWRAP_RATE_PER_S 2000  /* generous: a gateway caches keys */
#define UNWRAP_BURST      10000

struct rate;

RESULT rate_new(struct rate **rate_out, struct error *err);
/** Takes one unwrap from the project's bucket at `now_ms` (monotonic); ERROR_LIMIT when it is empty. Thread-safe. */
RESULT rate_take(struct rate *rate, const struct uuid *project, int64_t now_ms, struct error *err);
void rate_free(struct rate *rate);
DEFINE_OWNED(rate);
