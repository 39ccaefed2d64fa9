/* The headers of answers, in the description of the API. */
#include <string.h>

#include "gateway/api/openapi_priv.h"

static void set(json_t *object, const char *name, json_t *value)
{
    (void)json_object_set_new(object, name, value);
}

static void describe(json_t *headers, const char *name, const char *type, const char *meaning)
{
    set(headers, name, json_pack("{s:s, s:{s:s}}", "description", meaning, "schema", "type", type));
}

/* docs/runs.md, "The log of a run": a client follows a log by them. */
static const struct {
    const char *name, *type, *meaning;
} of_log[] = {
    {"Sijil-Log-Attempt", "integer", "of which attempt the log is"},
    {"Sijil-Log-Offset", "integer", "of the first byte of the body"},
    {"Sijil-Log-Size", "integer", "how many bytes there are so far"},
    {"Sijil-Log-End", "boolean", "true: nothing more comes after this body"},
    {"Sijil-Run-State", "string", "the state of the run"},
};

json_t *openapi_headers(const struct route *route)
{
    json_t *headers = json_object();

    if (schema_has_word(route->about->parameters, "after") || schema_has_word(route->about->parameters, "last"))
        describe(headers, "Link", "string", /* RFC 8288 */
                 "the page after this one: <path and query>; rel=\"next\"; absent on the last page");
    for (size_t i = 0; strcmp(route->name, "run_log") == 0 && i < sizeof of_log / sizeof of_log[0]; i++)
        describe(headers, of_log[i].name, of_log[i].type, of_log[i].meaning);
    if (json_object_size(headers) > 0) return headers;
    json_decref(headers);
    return NULL;
}
