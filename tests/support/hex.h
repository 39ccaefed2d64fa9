/*
 * tests/support/hex.h -- bytes as hex text, for tables of published vectors.
 */
#pragma once

#include "tests/support/unit.h"

#include <string.h>

#include "base/text.h"

/** Hex to bytes; returns how many. */
static inline size_t unhex(const char *hex, uint8_t *out, size_t maximum)
{
    const size_t length = strlen(hex) / 2;

    assert_true(length <= maximum && text_from_hex(bytes_of_text(hex), out, length));
    return length;
}

static inline void assert_hex(const uint8_t *data, size_t length, const char *hex)
{
    char text[2048];

    assert_true(2 * length < sizeof text);
    text_hex(data, length, text);
    assert_string_equal(text, hex);
}
