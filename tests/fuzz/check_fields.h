/*
 * tests/fuzz/check_fields.h -- checks all fields that were read: they are printable, and their number is bounded.
 */
#pragma once

#include <assert.h>

#include "gateway/http/query.h"

static inline void check_text(const char *text)
{
    for (const char *at = text; *at != '\0'; at++) assert(*at >= ' ' && *at <= '~');
}

static inline void check_fields(const struct fields *fields)
{
    assert(fields->count <= REQUEST_ARGUMENTS_MAX);
    for (size_t i = 0; i < fields->count; i++) {
        check_text(fields->list[i].name);
        check_text(fields->list[i].value);
    }
}
