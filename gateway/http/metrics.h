/* gateway/http/metrics.h -- the server's metrics, by constant (gateway/http/metrics.def). */
#pragma once

#include "base/metrics.h"

enum http_metric {
#define COUNTED(constant, name, labels, kind, help) constant,
#include "gateway/http/metrics.def"
#undef COUNTED
    METRIC_HTTP_COUNT
};

extern struct metric metrics_http[METRIC_HTTP_COUNT];
extern const struct metric_table metric_table_http;
