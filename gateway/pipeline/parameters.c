/* Clients of /v2 send more than the specification has. */
#include "gateway/pipeline/parameters.h"

#include <string.h>

static bool is_among(const char *names, const char *name)
{
    const size_t length = strlen(name);

    while (names != NULL && *names != '\0') {
        const size_t word = strcspn(names, " ");
        if (word == length && memcmp(names, name, length) == 0) return true;
        names += word;
        names += strspn(names, " ");
    }
    return false;
}

static bool stands_before(const struct fields *arguments, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (strcmp(arguments->list[i].name, arguments->list[index].name) == 0) return true;
    return false;
}

struct result parameters_check(const struct route *route, const struct fields *arguments, struct error *err)
{
    if (route->parameters == NULL || strncmp(route->pattern, "/api/v1/", strlen("/api/v1/")) != 0) return SUCCESS;
    const char *taken = *route->parameters;
    for (size_t i = 0; i < arguments->count; i++) {
        const char *name = arguments->list[i].name;
        if (!is_among(taken, name))
            return failure(err, ERROR_INVALID, "there is no query parameter \"%.60s\" here; there %s: %s", name,
                           taken == NULL ? "is none" : "are", taken == NULL ? "leave it out" : taken);
        if (stands_before(arguments, i))
            return failure(err, ERROR_INVALID, "the query parameter \"%.60s\" is given twice; once is enough", name);
    }
    return SUCCESS;
}
