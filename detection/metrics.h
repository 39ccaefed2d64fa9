/*
 * detection/metrics.h -- the metrics of detection (detection/metrics.def).
 */
#pragma once

#include "base/metrics.h"

#define X(object, name, labels, kind, help) DETECTION_METRIC_##object,
enum {
#include "detection/metrics.def"
    DETECTION_METRIC_COUNT
};
#undef X
extern struct metric detection_metrics_rows[DETECTION_METRIC_COUNT];
#define DETECTION_METRIC(object) (&detection_metrics_rows[DETECTION_METRIC_##object])

/** Rendered at /metrics. */
extern const struct metric_table detection_metrics;
