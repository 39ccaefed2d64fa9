#include "delivery/metrics.h"

#define X(object, metric_name, metric_labels, metric_kind, metric_help) \
    {.name = (metric_name), .labels = (metric_labels), .kind = (metric_kind), .help = (metric_help)},
struct metric delivery_metrics_rows[DELIVERY_METRIC_COUNT] = {
#include "delivery/metrics.def"
};
#undef X

const struct metric_table delivery_metrics = {delivery_metrics_rows, DELIVERY_METRIC_COUNT};
