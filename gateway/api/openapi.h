/*
 * gateway/api/openapi.h -- the description of all routes in OpenAPI 3.1, made of the table of routes and its schemas.
 */
#pragma once

#include "gateway/pipeline/gateway.h"
#include "gateway/pipeline/route.h"

#define OPENAPI_MAX       ((size_t)1 << 20)
#define OPENAPI_PATH_SIZE 256 /* the longest has 80 letters */

/** The path of a route in the document's form: "/api/v1/projects/{organisation}/{project}". */
void openapi_path(const struct route *route, char path_out[OPENAPI_PATH_SIZE]);

/** Appends the document of every route of the table, one line of JSON. ERROR_NO_MEMORY; ERROR_LIMIT past OPENAPI_MAX. */
RESULT openapi_write(const struct route_table *table, struct buffer *text, struct error *err);
