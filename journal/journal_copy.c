/* The bytes of one copy. */
#include <assert.h>
#include <string.h>

#include "base/text.h"
#include "crypto/hmac.h"
#include "journal/journal.h"

enum { MAGIC_SIZE = 4, GENERATION_AT = MAGIC_SIZE + 1, BLOCK = 4096 };

static void seal(const uint8_t key[JOURNAL_KEY_SIZE], const uint8_t *copy, size_t size, uint8_t seal_out[JOURNAL_SEAL_SIZE])
{
    hmac_sha256((struct bytes){key, JOURNAL_KEY_SIZE}, (struct bytes){copy, size}, seal_out);
}

static size_t body_of(const struct journal_format *format, uint8_t version, const uint8_t *body)
{
    const size_t most = format->body_size(version);
    const size_t length = format->body_length == NULL || most == 0 ? most : format->body_length(body);

    return length <= most ? length : 0;
}

/* The bytes of a copy that are written: whole blocks; without body_length the whole copy. */
static size_t blocks_of(const struct journal_format *format, size_t size)
{
    const size_t blocks = (size + BLOCK - 1) / BLOCK * BLOCK;

    return format->body_length == NULL || blocks > format->copy_size ? format->copy_size : blocks;
}

size_t journal_copy_write(const struct journal_format *format, const uint8_t key[JOURNAL_KEY_SIZE], const void *state,
                          uint64_t generation, uint8_t *copy_out)
{
    assert(JOURNAL_HEADER_SIZE + format->body_size(format->version) + JOURNAL_SEAL_SIZE <= format->copy_size);
    memcpy(copy_out, format->magic, MAGIC_SIZE);
    copy_out[MAGIC_SIZE] = format->version;
    store_u64(copy_out + GENERATION_AT, generation);
    format->write(state, copy_out + JOURNAL_HEADER_SIZE);
    const size_t body = body_of(format, format->version, copy_out + JOURNAL_HEADER_SIZE), size = JOURNAL_HEADER_SIZE + body;
    const size_t whole = blocks_of(format, size + JOURNAL_SEAL_SIZE);
    assert(body > 0);
    seal(key, copy_out, size, copy_out + size);
    memset(copy_out + size + JOURNAL_SEAL_SIZE, 0, whole - size - JOURNAL_SEAL_SIZE);
    return whole;
}

bool journal_copy_read(const struct journal_format *format, const uint8_t key[JOURNAL_KEY_SIZE], const uint8_t *copy,
                       void *state_out, uint64_t *generation_out)
{
    const uint8_t version = copy[MAGIC_SIZE];
    const bool is_ours = memcmp(copy, format->magic, MAGIC_SIZE) == 0;
    const size_t body = is_ours ? body_of(format, version, copy + JOURNAL_HEADER_SIZE) : 0, size = JOURNAL_HEADER_SIZE + body;
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
