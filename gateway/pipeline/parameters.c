/* Only /api/v1 is checked, because clients of /v2 send parameters that the specification does not have. */
#include "gateway/pipeline/parameters.h"

#include <string.h>

const struct schema_member route_parameters[] = {
#define PARAMETER(...) __VA_ARGS__,
#include "gateway/parameters.def"
#undef PARAMETER
    {.name = NULL}};

static bool stands_before(const struct fields *arguments, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (strcmp(arguments->list[i].name, arguments->list[index].name) == 0) return true;
    return false;
}

const struct schema_member *parameter_find(const char *name, size_t length)
{
    for (const struct schema_member *row = route_parameters; row->name != NULL; row++)
        if (strlen(row->name) == length && memcmp(row->name, name, length) == 0) return row;
    return NULL;
}

struct result parameters_check(const struct route *route, const struct fields *arguments, struct error *err)
{
    if (route->about == NULL || strncmp(route->pattern, "/api/v1/", strlen("/api/v1/")) != 0) return SUCCESS;
    const char *taken = route->about->parameters;
    const bool is_none = taken[0] == '\0';
    for (size_t i = 0; i < arguments->count; i++) {
        const char *name = arguments->list[i].name;
        if (!schema_has_word(taken, name))
            return failure(err, ERROR_INVALID, "there is no query parameter \"%.60s\" here; there %s: %s", name,
                           is_none ? "is none" : "are", is_none ? "leave it out" : taken);
        if (stands_before(arguments, i))
            return failure(err, ERROR_INVALID, "the query parameter \"%.60s\" is given twice; once is enough", name);
    }
    return SUCCESS;
}
