/*
 * gateway/api/openapi_priv.h -- makes the parts of the API's description. If memory runs out, a function leaves a part
 * out; openapi_write() notices that at the end (json_lacks()).
 */
#pragma once

#include "base/json.h"
#include "gateway/pipeline/route.h"
#include "gateway/pipeline/schema.h"

/** The JSON Schema of a member's value. */
json_t *openapi_value(const struct schema_member *member);
/** The same in a query or a header, where free text is printable ASCII (gateway/http/query.h). */
json_t *openapi_ascii_value(const struct schema_member *member);
/**
 * {"$ref": "#/components/schemas/..."}. Adds the schema, and the schemas that it names, to `schemas`, unless they are there
 * already.
 */
json_t *openapi_schema(json_t *schemas, const struct schema *schema, bool is_of_body);
/** The headers of an answer with the status 200; NULL: it has none of its own. Lists page by the parameter `after`; those of OCI by `last`. */
json_t *openapi_headers(const struct route *route);
/** Adds the headers that requests of the route may have; each is a component of `parameters`. */
void openapi_add_headers(json_t *parameters, const struct route *route, json_t *list);
/** Whether If-Match and If-None-Match have a meaning for the route. */
bool openapi_has_condition(const struct route *route);
/** The content of an answer or a request: {"application/json": {"schema": ...}}. NULL: it has no body. */
json_t *openapi_content(json_t *schemas, const struct schema *schema, bool is_of_body);
