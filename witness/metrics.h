/*
 * witness/metrics.h -- the metrics of a witness (witness/metrics.def).
 */
#pragma once

#include "base/metrics.h"

#define X(object, name, labels, kind, help) WITNESS_METRIC_##object,
enum {
#include "witness/metrics.def"
    WITNESS_METRIC_COUNT
};
#undef X
extern struct metric witness_metrics_rows[WITNESS_METRIC_COUNT];
#define WITNESS_METRIC(object) (&witness_metrics_rows[WITNESS_METRIC_##object])

extern const struct metric_table witness_metrics;
