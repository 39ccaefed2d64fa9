#include "gateway/pipeline/request.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

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

const char *request_header(const struct request *request, const char *name)
{
    return header_find(&request->headers, name);
}

struct resource *request_add_pair(struct request *request, enum action action, const char *name)
{
    assert(request->pair_count < ACTION_PAIRS_MAX);
    struct action_pair *pair = &request->pairs[request->pair_count++];

    *pair = (struct action_pair){.action = action};
    (void)snprintf(pair->resource.name, sizeof pair->resource.name, "%s", name);
    return &pair->resource;
}
