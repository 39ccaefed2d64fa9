#include "gateway/http/message.h"

#include <string.h>
#include <strings.h>

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

const char *header_next(const struct fields *headers, const char *name, size_t *at)
{
    while (*at < headers->count) {
        const struct field *field = &headers->list[(*at)++];
        if (strcasecmp(field->name, name) == 0) return field->value;
    }
    return NULL;
}

const char *header_find(const struct fields *headers, const char *name)
{
    size_t at = 0;

    return header_next(headers, name, &at);
}
