/*
 * training/format/compose_priv.h -- functions that the writers of payloads share.
 */
#pragma once

#include "base/clock.h"
#include "training/format/compose.h"

/** For json_pack(), which takes no pointer to const; "O" does not change it. */
static inline json_t *compose_share(const json_t *value)
{
    return (json_t *)(uintptr_t)value;
}

/** The text of a time; a view of `text`. */
static inline const char *compose_time(int64_t wall_ms, char text[CLOCK_TEXT_SIZE])
{
    clock_format(wall_ms, text);
    return text;
}

/**
 * Appends the canonical text of `json`, which must have the shape of its type. `json` is NULL if memory was lacking or a text was
 * not UTF-8. `lacks`, the value of json_lacks() before the object was made, tells which.
 */
RESULT compose_finish(enum run_type type, const json_t *json, unsigned lacks, struct buffer *payload, struct error *err);
