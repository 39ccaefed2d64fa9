#include "audit/metrics.h"

#define X(object, metric_name, metric_labels, metric_kind, metric_help) \
    {.name = (metric_name), .labels = (metric_labels), .kind = (metric_kind), .help = (metric_help)},
struct metric audit_metrics_rows[AUDIT_METRIC_COUNT] = {
#include "audit/metrics.def"
};
#undef X

const struct metric_table audit_metrics = {audit_metrics_rows, AUDIT_METRIC_COUNT};
