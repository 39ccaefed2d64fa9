#include "detection/metrics.h"

#define X(object, metric_name, metric_labels, metric_kind, metric_help) \
    {.name = (metric_name), .labels = (metric_labels), .kind = (metric_kind), .help = (metric_help)},
struct metric detection_metrics_rows[DETECTION_METRIC_COUNT] = {
#include "detection/metrics.def"
};
#undef X

const struct metric_table detection_metrics = {detection_metrics_rows, DETECTION_METRIC_COUNT};
