#include "audit/format/posting.h"

#include <assert.h>

void posting_set(struct posting *posting, unsigned place)
{
    assert(place < POSTING_BLOCK);
    posting->words[place / 64] |= UINT64_C(1) << (place % 64);
}

bool posting_has(const struct posting *posting, unsigned place)
{
    assert(place < POSTING_BLOCK);
    return (posting->words[place / 64] >> (place % 64) & 1) != 0;
}

static struct result add_places(struct posting *posting, struct bytes list, struct error *err)
{
    unsigned next = 0; /* the smallest place that may come */

    for (size_t i = 0; i < list.length; i += 2) {
        const unsigned place = load_u16(list.data + i);
        if (place < next || place >= POSTING_BLOCK)
            return failure(err, ERROR_CORRUPT, "a row of the index of searches is no list of places");
        posting_set(posting, place);
        next = place + 1;
    }
    return SUCCESS;
}

struct result posting_add(struct posting *posting, struct bytes list, struct error *err)
{
    if (list.length == 0 || list.length > POSTING_BYTES || list.length % 2 != 0)
        return failure(err, ERROR_CORRUPT, "a row of the index of searches has a wrong length");
    if (list.length < POSTING_BYTES) return add_places(posting, list, err);
    for (size_t i = 0; i < POSTING_WORDS; i++) posting->words[i] |= load_u64(list.data + 8 * i);
    return SUCCESS;
}

void posting_intersect(struct posting *posting, const struct posting *other)
{
    for (size_t i = 0; i < POSTING_WORDS; i++) posting->words[i] &= other->words[i];
}

bool posting_is_empty(const struct posting *posting)
{
    for (size_t i = 0; i < POSTING_WORDS; i++)
        if (posting->words[i] != 0) return false;
    return true;
}

static size_t write_places(const struct posting *posting, uint8_t *list)
{
    size_t length = 0;

    for (unsigned i = 0; i < POSTING_WORDS; i++)
        for (uint64_t left = posting->words[i]; left != 0; left &= left - 1, length += 2)
            store_u16(list + length, (uint16_t)(i * 64 + (unsigned)__builtin_ctzll(left)));
    return length;
}

size_t posting_write(const struct posting *posting, uint8_t list_out[POSTING_BYTES])
{
    size_t count = 0;

    for (size_t i = 0; i < POSTING_WORDS; i++) count += (size_t)__builtin_popcountll(posting->words[i]);
    if (2 * count < POSTING_BYTES) return write_places(posting, list_out);
    for (size_t i = 0; i < POSTING_WORDS; i++) store_u64(list_out + 8 * i, posting->words[i]);
    return POSTING_BYTES;
}
