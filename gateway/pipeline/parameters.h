/* gateway/pipeline/parameters.h -- checks the query parameters of a route (gateway/routes.def, gateway/parameters.def). */
#pragma once

#include "gateway/pipeline/route.h"

/**
 * Checks that a request of /api/v1 has only parameters of its route, each at most once; other routes allow any. ERROR_INVALID
 * names the wrong parameter and the allowed ones.
 */
RESULT parameters_check(const struct route *route, const struct fields *arguments, struct error *err);

/** All parameters; the last element has the name NULL. */
extern const struct schema_member route_parameters[];
/** The row of a parameter; `name` need not be NUL-terminated. NULL: there is none. */
const struct schema_member *parameter_find(const char *name, size_t length);
