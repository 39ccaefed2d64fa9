/* The bytes of one copy. */
#include <assert.h>
#include <string.h>

#include "base/text.h"
#include "crypto/hmac.h"
#include "journal/journal.h"

enum { MAGIC_SIZE = 4, GENERATION_AT = MAGIC_SIZE + 1 };

static void seal(const uint8_t key[JOURNAL_KEY_SIZE], const uint8_t *copy, size_t size, uint8_t seal_out[JOURNAL_SEAL_SIZE])
{
    hmac_sha256((struct bytes){key, JOURNAL_KEY_SIZE}, (struct bytes){copy, size}, seal_out);
}

void journal_copy_write(const struct journal_format *format, const uint8_t key[JOURNAL_KEY_SIZE], const void *state,
                        uint64_t generation, uint8_t *copy_out)
{
    const size_t size = JOURNAL_HEADER_SIZE + format->body_size(format->version);

    assert(size + JOURNAL_SEAL_SIZE <= format->copy_size);
    memset(copy_out, 0, format->copy_size);
    memcpy(copy_out, format->magic, MAGIC_SIZE);
    copy_out[MAGIC_SIZE] = format->version;
    store_u64(copy_out + GENERATION_AT, generation);
    format->write(state, copy_out + JOURNAL_HEADER_SIZE);
    seal(key, copy_out, size, copy_out + size);
}

bool journal_copy_read(const struct journal_format *format, const uint8_t key[JOURNAL_KEY_SIZE], const uint8_t *copy,
                       void *state_out, uint64_t *generation_out)
{
    const uint8_t version = copy[MAGIC_SIZE];
    const size_t body = memcmp(copy, format->magic, MAGIC_SIZE) == 0 ? format->body_size(version) : 0;
    const size_t size = JOURNAL_HEADER_SIZE + body;
    uint8_t expected[JOURNAL_SEAL_SIZE];

    if (body == 0) return false;
    assert(size + JOURNAL_SEAL_SIZE <= format->copy_size);
    seal(key, copy, size, expected);
    if (!bytes_equal_secret((struct bytes){expected, sizeof expected}, (struct bytes){copy + size, sizeof expected}))
        return false;
    format->read(version, (struct bytes){copy + JOURNAL_HEADER_SIZE, body}, state_out);
    *generation_out = load_u64(copy + GENERATION_AT);
    return true;
}
