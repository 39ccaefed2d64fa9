/*
 * crypto/metrics.h -- how long calls to sijil-keyd took, and how many failed: for the gateway to render.
 *
 * One histogram a type of call (KEYD_TYPES), one counter a kind of failure (ERROR_KINDS).
 */
#pragma once

#include "base/metrics.h"
#include "crypto/keyd_protocol.h"

extern const struct metric_table keyd_call_metrics, keyd_failure_metrics;

/** A call that was answered or given up. `failed` is the kind of its failure, or ERROR_NONE. */
void keyd_metrics_count(enum keyd_type type, int64_t took_us, enum error_kind failed);
