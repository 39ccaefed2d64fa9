/*
 * gateway/pipeline/repeat.h -- the header Idempotency-Key (draft-ietf-httpapi-idempotency-key-header-07; docs/api.md, "Repeats").
 */
#pragma once

#include "base/bytes.h"

#define REPEAT_KEY_MAX 255 /* bytes */

/** The header's value: a String of RFC 9651 without escapes, or the same without quotes, as most clients send it. A view. ERROR_INVALID. */
RESULT repeat_key_read(const char *value, struct bytes *key_out, struct error *err) __attribute__((nonnull));

struct route;
/** Whether requests of the route may have a key: POST below /api/v1 that makes something, or a new secret. Elsewhere the header has no meaning. */
bool route_takes_repeats(const struct route *route) __attribute__((nonnull));
