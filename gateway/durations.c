/* How long requests took. Separate from the table of routes, so that tests with routes of their own need not link all handlers. */
#include "gateway/routes.h"

#define DURATION(row)                                               \
    {.name = "sijil_request_seconds",                               \
     .help = "From the head of a request to the end of its answer", \
     .labels = "route=\"" row "\"",                                 \
     .kind = METRIC_HISTOGRAM},

struct metric route_durations[ROUTE_COUNT + 1] = {
#define ROUTE(row, ...) DURATION(#row)
#include "gateway/routes.def"
    DURATION("none")};

const struct metric_table metric_table_duration = {route_durations, ROUTE_COUNT + 1};
