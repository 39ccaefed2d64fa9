#include "base/problems.h"

#include <stdarg.h>
#include <stdio.h>

void problems_add(struct problems *problems, const struct error *why)
{
    problems->count++;
    problems->report(problems->context, why);
}

void problems_say(struct problems *problems, enum error_kind kind, const char *format, ...)
{
    struct error why = {.kind = kind};
    va_list values;

    va_start(values, format);
    (void)vsnprintf(why.message, sizeof why.message, format, values);
    va_end(values);
    problems_add(problems, &why);
}

static void keep_first(void *context, const struct error *why)
{
    struct error *first = context;

    if (first->kind == ERROR_NONE) *first = *why;
}

struct problems problems_first(struct error *err)
{
    *err = (struct error){0};
    return (struct problems){.report = keep_first, .context = err};
}
