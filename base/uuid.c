#include "base/uuid.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/text.h"

struct uuid uuid_random(void)
{
    struct uuid uuid;

    /* Once the kernel's pool is seeded, 16 bytes never come short. Without randomness nothing here is safe, so the program ends. */
    if (getrandom(uuid.bytes, sizeof uuid.bytes, 0) != (ssize_t)sizeof uuid.bytes) abort();
    uuid.bytes[6] = (uint8_t)((uuid.bytes[6] & 0x0f) | 0x40);
    uuid.bytes[8] = (uint8_t)((uuid.bytes[8] & 0x3f) | 0x80);
    return uuid;
}

static const uint8_t group_bytes[] = {4, 2, 2, 2, 6};

void uuid_format(const struct uuid *uuid, char text_out[UUID_TEXT_SIZE])
{
    char *destination = text_out;
    const uint8_t *from = uuid->bytes;

    for (size_t i = 0; i < sizeof group_bytes; i++) {
        if (i > 0) *destination++ = '-';
        text_hex(from, group_bytes[i], destination);
        from += group_bytes[i];
        destination += (size_t)2 * group_bytes[i];
    }
}

bool uuid_parse(struct bytes text, struct uuid *uuid_out)
{
    struct uuid uuid;
    uint8_t *into = uuid.bytes;
    size_t at = 0;

    if (text.length != UUID_TEXT_SIZE - 1) return false;
    for (size_t i = 0; i < sizeof group_bytes; i++) {
        if (i > 0 && text.data[at++] != '-') return false;
        const struct bytes group = {.data = text.data + at, .length = (size_t)2 * group_bytes[i]};
        if (!text_from_hex(group, into, group_bytes[i])) return false;
        into += group_bytes[i];
        at += group.length;
    }
    *uuid_out = uuid;
    return true;
}

bool uuid_equal(const struct uuid *a, const struct uuid *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}

bool uuid_is_nil(const struct uuid *uuid)
{
    static const struct uuid nil;
    return uuid_equal(uuid, &nil);
}

struct bytes uuid_bytes(const struct uuid *uuid)
{
    return (struct bytes){.data = uuid->bytes, .length = sizeof uuid->bytes};
}
