/* gateway/routes.h -- every route of the server (gateway/routes.def), and how long its requests took. */
#pragma once

#include "base/metrics.h"
#include "gateway/pipeline/route.h"

enum route_number {
#define ROUTE(name, ...) ROUTE_##name,
#include "gateway/routes.def"
    ROUTE_COUNT
};

extern const struct route_table route_table;
/** One histogram for each route; the last one is for requests without a route. */
extern struct metric route_durations[ROUTE_COUNT + 1];
extern const struct metric_table metric_table_duration;
