/*
 * delivery/metrics.h -- the metrics of deliveries (delivery/metrics.def).
 */
#pragma once

#include "base/metrics.h"

#define X(object, name, labels, kind, help) DELIVERY_METRIC_##object,
enum {
#include "delivery/metrics.def"
    DELIVERY_METRIC_COUNT
};
#undef X
extern struct metric delivery_metrics_rows[DELIVERY_METRIC_COUNT];
#define DELIVERY_METRIC(object) (&delivery_metrics_rows[DELIVERY_METRIC_##object])

/** Rendered at /metrics. */
extern const struct metric_table delivery_metrics;
