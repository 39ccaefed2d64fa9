#include "witness/metrics.h"

#define X(object, metric_name, metric_labels, metric_kind, metric_help) \
    {.name = (metric_name), .labels = (metric_labels), .kind = (metric_kind), .help = (metric_help)},
struct metric witness_metrics_rows[WITNESS_METRIC_COUNT] = {
#include "witness/metrics.def"
};
#undef X

const struct metric_table witness_metrics = {witness_metrics_rows, WITNESS_METRIC_COUNT};
