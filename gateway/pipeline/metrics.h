/* gateway/pipeline/metrics.h -- the gateway's metrics, by constant (gateway/pipeline/metrics.def). */
#pragma once

#include "base/metrics.h"

enum gateway_metric {
#define COUNTED(constant, name, labels, kind, help) constant,
#include "gateway/pipeline/metrics.def"
#undef COUNTED
    METRIC_GATEWAY_COUNT
};

extern struct metric metrics_gateway[METRIC_GATEWAY_COUNT];
extern const struct metric_table metric_table_gateway;
