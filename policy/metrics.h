/* policy/metrics.h -- metrics of the decider; the table is policy/metrics.def. */
#pragma once

#include "base/metrics.h"

enum policy_metric {
#define X(constant, name, labels, kind, help) constant,
#include "policy/metrics.def"
#undef X
    POLICY_METRIC_COUNT
};

extern struct metric policy_metrics_rows[POLICY_METRIC_COUNT];
extern const struct metric_table policy_metrics;
