#include "client/local.h"

struct result local(struct result result, const char *name, struct error *err)
{
    if (result.ok) return result;
    if (err->kind == ERROR_UNAVAILABLE) err->kind = ERROR_INVALID;
    failure_name(name, err);
    return result;
}

struct result local_output(struct result result, const char *name, struct error *err)
{
    if (!result.ok && err->kind == ERROR_NOT_FOUND) err->kind = ERROR_INVALID;
    return local(result, name, err);
}
