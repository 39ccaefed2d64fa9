/*
 * audit/metrics.h -- the metrics of the log (audit/metrics.def).
 */
#pragma once

#include "base/metrics.h"

#define X(object, name, labels, kind, help) AUDIT_METRIC_##object,
enum {
#include "audit/metrics.def"
    AUDIT_METRIC_COUNT
};
#undef X
extern struct metric audit_metrics_rows[AUDIT_METRIC_COUNT];
#define AUDIT_METRIC(object) (&audit_metrics_rows[AUDIT_METRIC_##object])

/** Rendered at /metrics. */
extern const struct metric_table audit_metrics;
