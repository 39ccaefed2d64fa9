#include "gateway/pipeline/metrics.h"

#include "gateway/commit.h"
#include "gateway/pipeline/route.h"

struct metric metrics_gateway[METRIC_GATEWAY_COUNT] = {
#define COUNTED(constant, text, fixed, sort, meaning) \
    [constant] = {.name = (text), .help = (meaning), .labels = (fixed), .kind = (sort)},
#include "gateway/pipeline/metrics.def"
#undef COUNTED
};

#define DURATION(row) \
    {.name = "sijil_request_seconds", .help = "From the head of a request to the end of its answer", \
     .labels = "route=\"" row "\"", .kind = METRIC_HISTOGRAM},

struct metric metrics_duration[ROUTE_COUNT + 1] = {
#define ROUTE(row, ...) DURATION(#row)
#include "gateway/routes.def"
#undef ROUTE
    DURATION("none")
};

const struct metric_table metric_table_gateway = {metrics_gateway, METRIC_GATEWAY_COUNT};
const struct metric_table metric_table_duration = {metrics_duration, ROUTE_COUNT + 1};
