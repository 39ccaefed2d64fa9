/* tests/gateway/server_routes.h -- the routes of the test server, and their handlers, which a test controls. */
#pragma once

#include "gateway/pipeline/route.h"

extern const struct route_table server_routes;
