#include "base/result.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void failure_write(struct error *err, enum error_kind kind, const char *format, ...)
{
    assert(kind != ERROR_NONE);

    va_list args;
    va_start(args, format);
    (void)vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    err->kind = kind;
}

void failure_name(const char *name, struct error *err)
{
    const struct error told = *err;

    if (strstr(told.message, name) != NULL) return;
    (void)snprintf(err->message, sizeof err->message, "%.100s: %.150s", name, told.message);
}

const char *error_kind_name(enum error_kind kind)
{
    switch (kind) {
    case ERROR_NONE: return "none";
#define X(name, text, meaning) \
    case name: return text;
        ERROR_KINDS(X)
#undef X
    }
    return "unknown";
}
