/* The table of routes. Separate from the matching, so that tests can match tables of their own. */
#include "gateway/routes.h"

#define COUNT_ACTIONS(...) (sizeof((const enum action[]){0, ##__VA_ARGS__}) / sizeof(enum action) - 1)

static const struct route_about about[ROUTE_COUNT] = {
#define ABOUT(row, names, taken, given, does, ...) [ROUTE_##row] = {(names), &(taken), &(given), (does), {__VA_ARGS__}},
#include "gateway/routes.def"
};

static const struct route rows[ROUTE_COUNT] = {
#define ROUTE(row, bits, shape, credentials, recording, kind, limit, function, served, ...) \
    [ROUTE_##row] = {.name = #row,                                                          \
                     .methods = (bits),                                                     \
                     .pattern = (shape),                                                    \
                     .credential = (credentials),                                           \
                     .record = (recording),                                                 \
                     .body = (kind),                                                        \
                     .body_limit = (limit),                                                 \
                     .target = (function),                                                  \
                     .handler = &(served),                                                  \
                     .duration = &route_durations[ROUTE_##row],                             \
                     .about = &about[ROUTE_##row],                                          \
                     .action_count = COUNT_ACTIONS(__VA_ARGS__),                            \
                     .actions = {ACTION_COUNT, ##__VA_ARGS__}},
#include "gateway/routes.def"
};

const struct route_table route_table = {ROUTE_COUNT, rows, &route_durations[ROUTE_COUNT]};
