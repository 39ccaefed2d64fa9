#include "gateway/pipeline/metrics.h"

#include "gateway/pipeline/commit.h"

struct metric metrics_gateway[METRIC_GATEWAY_COUNT] = {
#define COUNTED(constant, text, fixed, sort, meaning) \
    [constant] = {.name = (text), .help = (meaning), .labels = (fixed), .kind = (sort)},
#include "gateway/pipeline/metrics.def"
#undef COUNTED
};

const struct metric_table metric_table_gateway = {metrics_gateway, METRIC_GATEWAY_COUNT};
