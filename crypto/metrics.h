/*
 * crypto/metrics.h -- the duration of calls to sijil-keyd, and the number of failures; the gateway renders them.
 *
 * One histogram for each type of call (KEYD_TYPES), one counter for each kind of failure (ERROR_KINDS).
 */
#pragma once

#include "base/metrics.h"
#include "crypto/keyd_protocol.h"

extern const struct metric_table keyd_call_metrics, keyd_failure_metrics;

/** Counts a call that was answered or given up. `failed` is the kind of its failure, or ERROR_NONE. */
void keyd_metrics_count(enum keyd_type type, int64_t took_us, enum error_kind failed);
