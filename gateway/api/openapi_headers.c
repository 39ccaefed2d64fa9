/* The headers of requests and answers, in the description of the API. */
#include <stdio.h>
#include <string.h>

#include "authz/act.h"
#include "gateway/api/openapi_priv.h"
#include "gateway/pipeline/repeat.h"

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

/* Documents that are read, replaced and withdrawn under their name: docs/api.md, "Versions of documents". */
bool openapi_has_condition(const struct route *route)
{
    static const struct handler *const served[] = {
        &handler_log_document_show, &handler_log_document_draft, &handler_log_document_approve, &handler_log_document_revoke,
        &handler_rule_show,         &handler_rule_draft,         &handler_rule_approve,         &handler_rule_revoke,
        &handler_project_rules,     &handler_project_rules_read, &handler_runner_show,          &handler_runner_approve,
        &handler_runner_revoke};

    for (size_t i = 0; i < sizeof served / sizeof served[0]; i++)
        if (route->handler == served[i]) return true;
    return false;
}

json_t *openapi_headers(const struct route *route)
{
    json_t *headers = json_object();

    if (schema_has_word(route->about->parameters, "after") || schema_has_word(route->about->parameters, "last"))
        describe(headers, "Link", "string", /* RFC 8288 */
                 "the page after this one: <path and query>; rel=\"next\"; absent on the last page");
    if (openapi_has_condition(route)) describe(headers, "ETag", "string", "the entity tag of the document");
    for (size_t i = 0; strcmp(route->name, "run_log") == 0 && i < sizeof of_log / sizeof of_log[0]; i++)
        describe(headers, of_log[i].name, of_log[i].type, of_log[i].meaning);
    if (json_object_size(headers) > 0) return headers;
    json_decref(headers);
    return NULL;
}

static bool is_act(const struct route *route)
{
    for (size_t i = 0; i < route->action_count; i++)
        if (act_is_signed(route->actions[i])) return true;
    return false;
}

/* Headers of requests that are no part of authentication. */
static const struct header_parameter {
    const char *name, *meaning;
    bool (*is_of)(const struct route *route);
    struct schema_member value;
} header_parameters[] = {
    {"Idempotency-Key",
     "a text that the client draws for this request, such as a UUID: a repeat with it does nothing again, and gets the same answer",
     route_takes_repeats, HAS_TEXT("key", OPTIONAL, FORM_FREE, 1, 2 + REPEAT_KEY_MAX, "")},
    {"Sijil-Act",
     "a signature over this request with the enrolled key of its principal, where a document of persons demands it (docs/identity.md)",
     is_act, HAS_TEXT("act", OPTIONAL, FORM_FREE, 1, DPOP_SIZE_MAX, "")},
    {"If-Match", "the entity tag that the document must have now, or *", openapi_has_condition,
     HAS_TEXT("tags", OPTIONAL, FORM_FREE, 1, 0, "")},
    {"If-None-Match", "an entity tag that the document must not have now, or *: there must be none", openapi_has_condition,
     HAS_TEXT("tags", OPTIONAL, FORM_FREE, 1, 0, "")},
};

void openapi_add_headers(json_t *parameters, const struct route *route, json_t *list)
{
    for (size_t i = 0; i < sizeof header_parameters / sizeof header_parameters[0]; i++) {
        const struct header_parameter *header = &header_parameters[i];
        char name[64];
        if (!header->is_of(route)) continue;
        (void)snprintf(name, sizeof name, "header-%s", header->name);
        if (json_object_get(parameters, name) == NULL)
            set(parameters, name,
                json_pack("{s:s, s:s, s:s, s:o}", "name", header->name, "in", "header", "description", header->meaning, "schema",
                          openapi_ascii_value(&header->value)));
        (void)json_array_append_new(list, json_pack("{s:o}", "$ref", json_sprintf("#/components/parameters/%s", name)));
    }
}
