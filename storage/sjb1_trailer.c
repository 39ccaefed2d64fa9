#include <assert.h>
#include <string.h>

#include "storage/sjb1_priv.h"

/* docs/formats/sjb1.md, "Trailer" */
static const uint8_t footer_magic[4] = {'S', 'J', 'T', '1'};
static const uint8_t zero_nonce[GCM_NONCE_SIZE];
enum { ALGORITHM_SHA256 = 1, ALGORITHM_SHA512 = 2 };

void sjb1_trailer_done(struct sjb1_trailer *trailer)
{
    sjb1_extents_done(&trailer->extents);
}

static struct result format_digests(const struct sjb1_trailer *trailer, struct buffer *out, struct error *err)
{
    TRY(buffer_add_u8(out, (uint8_t)trailer->digest_count, err));
    for (size_t i = 0; i < trailer->digest_count; i++) {
        const struct digest *digest = &trailer->digests[i];
        TRY(buffer_add_u8(out, digest->algorithm == DIGEST_SHA256 ? ALGORITHM_SHA256 : ALGORITHM_SHA512, err));
        TRY(buffer_add(out, digest->bytes, digest_size(digest->algorithm), err));
    }
    return SUCCESS;
}

struct result sjb1_extents_format(const struct sjb1_extents *extents, struct buffer *out, struct error *err)
{
    TRY(buffer_add_u32(out, (uint32_t)extents->count, err));
    for (size_t i = 0; i < extents->count; i++) {
        TRY(buffer_add_u64(out, extents->list[i].first, err));
        TRY(buffer_add(out, extents->list[i].salt, SJB1_SALT_SIZE, err));
        TRY(buffer_add_u32(out, extents->list[i].part, err));
    }
    return SUCCESS;
}

struct result sjb1_trailer_format(const struct sjb1_trailer *trailer, struct buffer *out, struct error *err)
{
    TRY(buffer_add_u64(out, trailer->length, err));
    TRY(buffer_add_u64(out, trailer->records, err));
    TRY(buffer_add(out, trailer->project.bytes, sizeof trailer->project.bytes, err));
    TRY(format_digests(trailer, out, err));
    return sjb1_extents_format(&trailer->extents, out, err);
}

static struct result parse_digests(struct reader *reader, struct sjb1_trailer *trailer, struct error *err)
{
    const uint8_t count = reader_u8(reader);

    if (count < 1 || count > 2) return failure(err, ERROR_CORRUPT, "trailer: %u digests", count);
    for (uint8_t i = 0; i < count; i++) {
        struct digest digest = {.algorithm = i == 0 ? DIGEST_SHA256 : DIGEST_SHA512};
        if (reader_u8(reader) != (i == 0 ? ALGORITHM_SHA256 : ALGORITHM_SHA512))
            return failure(err, ERROR_CORRUPT, "trailer: digest %u is of an unknown algorithm", i);
        const struct bytes value = reader_take(reader, digest_size(digest.algorithm));
        if (reader->failed) return failure(err, ERROR_CORRUPT, "trailer: digest %u is cut", i);
        memcpy(digest.bytes, value.data, value.length);
        trailer->digests[i] = digest;
    }
    trailer->digest_count = count;
    return SUCCESS;
}

/* Each extent has at least one record, and later extents have later parts. */
static bool follows(const struct sjb1_extents *extents, const struct sjb1_extent *next)
{
    if (extents->count == 0) return next->first == 0;
    const struct sjb1_extent *last = &extents->list[extents->count - 1];
    return next->first > last->first && next->part > last->part;
}

struct result sjb1_extents_parse(struct reader *reader, uint64_t records, struct sjb1_extents *extents, struct error *err)
{
    const uint32_t count = reader_u32(reader);

    if (reader->failed || count > SJB1_EXTENTS_MAX || (count == 0) != (records == 0))
        return failure(err, ERROR_CORRUPT, "%u extents for %llu records", count, (unsigned long long)records);
    for (uint32_t i = 0; i < count; i++) {
        struct sjb1_extent extent = {.first = reader_u64(reader)};
        const struct bytes salt = reader_take(reader, SJB1_SALT_SIZE);
        extent.part = reader_u32(reader);
        if (reader->failed) return failure(err, ERROR_CORRUPT, "the list of extents is cut");
        memcpy(extent.salt, salt.data, SJB1_SALT_SIZE);
        if (!follows(extents, &extent) || extent.first >= records)
            return failure(err, ERROR_CORRUPT, "extent %u of the list is out of order", i);
        TRY(sjb1_extents_add(extents, &extent, err));
    }
    return SUCCESS;
}

static struct result parse_into(struct reader *reader, struct sjb1_trailer *trailer, struct error *err)
{
    trailer->length = reader_u64(reader);
    trailer->records = reader_u64(reader);
    const struct bytes project = reader_take(reader, sizeof trailer->project.bytes);
    if (reader->failed) return failure(err, ERROR_CORRUPT, "trailer: it is cut");
    memcpy(trailer->project.bytes, project.data, project.length);
    if (trailer->length > SJB1_LENGTH_MAX || trailer->records != sjb1_record_count(trailer->length))
        return failure(err, ERROR_CORRUPT, "trailer: the number of records does not fit the length");
    TRY(parse_digests(reader, trailer, err));
    TRY(sjb1_within(sjb1_extents_parse(reader, trailer->records, &trailer->extents, err), err, "trailer"));
    if (!reader_is_done(reader)) return failure(err, ERROR_CORRUPT, "trailer: something follows its last extent");
    return SUCCESS;
}

struct result sjb1_trailer_parse(struct bytes plain, struct sjb1_trailer *trailer_out, struct error *err)
{
    struct reader reader = reader_of(plain);
    struct sjb1_trailer trailer = {0};

    const struct result result = parse_into(&reader, &trailer, err);
    if (result.ok) *trailer_out = trailer;
    else sjb1_trailer_done(&trailer);
    return result;
}

size_t sjb1_trailer_size(size_t digest_count, size_t extent_count)
{
    return SJB1_TRAILER_MIN + (digest_count > 1 ? 65u : 0) + 28 * (extent_count - 1) + SJB1_FOOTER_SIZE;
}

static void make_footer(uint32_t length, uint8_t footer_out[SJB1_FOOTER_SIZE])
{
    store_u32(footer_out, length);
    memcpy(footer_out + 4, footer_magic, sizeof footer_magic);
}

struct result sjb1_footer_parse(const uint8_t footer[SJB1_FOOTER_SIZE], uint32_t *length_out, struct error *err)
{
    const uint32_t length = load_u32(footer);

    if (memcmp(footer + 4, footer_magic, sizeof footer_magic) != 0)
        return failure(err, ERROR_CORRUPT, "footer: the file does not end with a trailer; it is cut or extended");
    if (length < SJB1_TRAILER_MIN || length > SJB1_TRAILER_MAX)
        return failure(err, ERROR_CORRUPT, "footer: a trailer of %u bytes is not possible", length);
    *length_out = length;
    return SUCCESS;
}

struct result sjb1_trailer_seal(const struct sjb1_trailer *trailer, const uint8_t key[SJB1_KEY_SIZE],
                                const uint8_t salt[SJB1_SALT_SIZE], struct buffer *out, struct error *err)
{
    struct buffer OWNED_BUFFER plain = BUFFER(SJB1_TRAILER_MAX);
    OWNED(gcm) *gcm = NULL;
    uint8_t footer[SJB1_FOOTER_SIZE];
    uint8_t *destination = NULL;

    TRY(sjb1_trailer_format(trailer, &plain, err));
    const size_t sealed = plain.length + GCM_TAG_SIZE;
    make_footer((uint32_t)(SJB1_SALT_SIZE + sealed), footer);
    TRY(buffer_add(out, salt, SJB1_SALT_SIZE, err));
    TRY(buffer_reserve(out, sealed, &destination, err));
    TRY(gcm_new(key, &gcm, err));
    TRY(gcm_seal(gcm, zero_nonce, (struct bytes){footer, sizeof footer}, buffer_bytes(&plain), destination, err));
    out->length += sealed;
    return buffer_add(out, footer, sizeof footer, err);
}

struct result sjb1_trailer_open(uint8_t *sealed, size_t length, const uint8_t key[SJB1_KEY_SIZE],
                                struct sjb1_trailer *trailer_out, struct error *err)
{
    OWNED(gcm) *gcm = NULL;
    uint8_t footer[SJB1_FOOTER_SIZE];

    assert(length >= SJB1_TRAILER_MIN && length <= SJB1_TRAILER_MAX);
    uint8_t *box = sealed + SJB1_SALT_SIZE;
    length -= SJB1_SALT_SIZE;
    make_footer((uint32_t)(SJB1_SALT_SIZE + length), footer);
    TRY(gcm_new(key, &gcm, err));
    TRY(sjb1_within(gcm_open(gcm, zero_nonce, (struct bytes){footer, sizeof footer}, (struct bytes){box, length}, box, err), err,
                    "trailer"));
    return sjb1_trailer_parse((struct bytes){box, length - GCM_TAG_SIZE}, trailer_out, err);
}
