#include "policy/decider/metrics.h"

struct metric policy_metrics_rows[POLICY_METRIC_COUNT] = {
#define X(constant, text, fixed, sort, meaning) \
    [constant] = {.name = (text), .help = (meaning), .labels = (fixed), .kind = (sort)},
#include "policy/decider/metrics.def"
#undef X
};

const struct metric_table policy_metrics = {policy_metrics_rows, POLICY_METRIC_COUNT};
