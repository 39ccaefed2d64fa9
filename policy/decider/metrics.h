/* policy/decider/metrics.h -- metrics of the decider; the table is policy/decider/metrics.def. */
#pragma once

#include "base/metrics.h"

enum policy_metric {
#define X(constant, name, labels, kind, help) constant,
#include "policy/decider/metrics.def"
#undef X
    POLICY_METRIC_COUNT
};

extern struct metric policy_metrics_rows[POLICY_METRIC_COUNT];
extern const struct metric_table policy_metrics;
