#include "gateway/pipeline/request.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static const char *const method_names[METHOD_COUNT] = {
    [METHOD_GET] = "GET", [METHOD_HEAD] = "HEAD",   [METHOD_POST] = "POST",
    [METHOD_PUT] = "PUT", [METHOD_PATCH] = "PATCH", [METHOD_DELETE] = "DELETE",
};

const char *method_name(enum method method)
{
    return method_names[method];
}

bool method_find(const char *name, enum method *method_out)
{
    for (int method = 0; method < METHOD_COUNT; method++) {
        if (strcmp(name, method_names[method]) != 0) continue;
        *method_out = (enum method)method;
        return true;
    }
    return false;
}

const char *request_next_argument(const struct request *request, const char *key, size_t *at)
{
    while (*at < request->arguments.count) {
        const struct field *field = &request->arguments.list[(*at)++];
        if (strcmp(field->name, key) == 0) return field->value;
    }
    return NULL;
}

const char *request_argument(const struct request *request, const char *key)
{
    size_t at = 0;
    return request_next_argument(request, key, &at);
}

const char *request_next_header(const struct request *request, const char *name, size_t *at)
{
    while (*at < request->headers.count) {
        const struct field *field = &request->headers.list[(*at)++];
        if (strcasecmp(field->name, name) == 0) return field->value;
    }
    return NULL;
}

const char *request_header(const struct request *request, const char *name)
{
    size_t at = 0;
    return request_next_header(request, name, &at);
}

struct resource *request_add_pair(struct request *request, enum action action, const char *name)
{
    assert(request->pair_count < ACTION_PAIRS_MAX);
    struct action_pair *pair = &request->pairs[request->pair_count++];

    *pair = (struct action_pair){.action = action};
    (void)snprintf(pair->resource.name, sizeof pair->resource.name, "%s", name);
    return &pair->resource;
}
