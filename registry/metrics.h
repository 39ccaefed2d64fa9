/* registry/metrics.h -- metrics of the registry. */
#pragma once

#include "base/metrics.h"

enum registry_metric {
#define X(constant, name, labels, kind, help) constant,
#include "registry/metrics.def"
#undef X
    REGISTRY_METRIC_COUNT
};

extern struct metric registry_metrics_rows[REGISTRY_METRIC_COUNT];
extern const struct metric_table registry_metrics;
