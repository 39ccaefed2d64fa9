/*
 * base/uuid.h -- unique ids that are never reused.
 *
 * Random UUIDs (RFC 9562 version 4) from the kernel's generator.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

struct uuid {
    uint8_t bytes[16];
};

#define UUID_TEXT_SIZE 37 /* 36 characters and '\0' */

struct uuid uuid_random(void);
void uuid_format(const struct uuid *uuid, char text_out[UUID_TEXT_SIZE]);
/** Lower-case hex in the 8-4-4-4-12 form, nothing else. */
bool uuid_parse(struct bytes text, struct uuid *uuid_out);
bool uuid_equal(const struct uuid *a, const struct uuid *b);
/** All bits zero: "not set". */
bool uuid_is_nil(const struct uuid *uuid);
struct bytes uuid_bytes(const struct uuid *uuid);
