#include "registry/metrics.h"

#define X(constant, metric_name, metric_labels, metric_kind, metric_help) \
    [constant] = {.name = (metric_name), .labels = (metric_labels), .kind = (metric_kind), .help = (metric_help)},
struct metric registry_metrics_rows[REGISTRY_METRIC_COUNT] = {
#include "registry/metrics.def"
};
#undef X

const struct metric_table registry_metrics = {registry_metrics_rows, REGISTRY_METRIC_COUNT};
