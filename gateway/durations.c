/* How long requests took. Apart from the table of routes, so that a test with routes of its own need not have all handlers. */
#include "gateway/routes.h"

#define DURATION(row) \
    {.name = "sijil_request_seconds", .help = "From the head of a request to the end of its answer", \
     .labels = "route=\"" row "\"", .kind = METRIC_HISTOGRAM},

struct metric route_durations[ROUTE_COUNT + 1] = {
#define ROUTE(row, ...) DURATION(#row)
#include "gateway/routes.def"
#undef ROUTE
    DURATION("none")
};

const struct metric_table metric_table_duration = {route_durations, ROUTE_COUNT + 1};
