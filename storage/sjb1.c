#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "crypto/hkdf.h"
#include "storage/sjb1_priv.h"

/* docs/formats/sjb1.md, "Header" */
enum {
    AT_MAGIC = 0,
    AT_SUITE = 4,
    AT_RECORD_SIZE = 5,
    AT_RESERVED = 6,
    AT_BLOB = 8,
    AT_PROJECT = 24,
    AT_REGION = 40,
    AT_COMMITMENT = 56,
    AT_ZEROS = 88,
    SUITE = 1,
    RECORD_SIZE_LOG2 = 16,
};
static const uint8_t magic[4] = {'S', 'J', 'B', '1'};

uint64_t sjb1_record_count(uint64_t length)
{
    return length == 0 ? 1 : (length - 1) / BLOB_RECORD_PLAIN + 1;
}

size_t sjb1_record_plain(uint64_t length, uint64_t index)
{
    const uint64_t start = index * BLOB_RECORD_PLAIN;

    assert(start < length || index == 0);
    return length - start < BLOB_RECORD_PLAIN ? (size_t)(length - start) : BLOB_RECORD_PLAIN;
}

uint64_t sjb1_record_offset(uint64_t index)
{
    return SJB1_HEADER_SIZE + index * SJB1_RECORD_SIZE;
}

struct result sjb1_extents_add(struct sjb1_extents *extents, const struct sjb1_extent *extent, struct error *err)
{
    if (extents->count == SJB1_EXTENTS_MAX)
        return failure(err, ERROR_LIMIT, "an upload may be interrupted %d times at most; start it again", SJB1_EXTENTS_MAX);
    if (extents->count == extents->capacity) {
        const size_t capacity = extents->capacity == 0 ? 4 : extents->capacity * 2;
        struct sjb1_extent *list = memory_resize(extents->list, capacity * sizeof *list);
        if (list == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for %zu extents", capacity);
        extents->list = list;
        extents->capacity = capacity;
    }
    extents->list[extents->count++] = *extent;
    return SUCCESS;
}

void sjb1_extents_done(struct sjb1_extents *extents)
{
    free(extents->list);
    *extents = (struct sjb1_extents){0};
}

struct result sjb1_key(const struct sjb1_context *context, struct bytes data_key, const char *info, const uint8_t *salt,
                       uint8_t key_out[SJB1_KEY_SIZE], struct error *err)
{
    uint8_t full[32 + SJB1_SALT_SIZE]; /* the longest info has 15 characters */
    const struct bytes text = bytes_of_text(info);
    const size_t length = text.length;

    assert(length <= 32);
    memcpy(full, text.data, length);
    if (salt != NULL) memcpy(full + length, salt, SJB1_SALT_SIZE);
    return hkdf_sha256(data_key, (struct bytes){context->salt, sizeof context->salt},
                       (struct bytes){full, length + (salt == NULL ? 0 : SJB1_SALT_SIZE)}, key_out, SJB1_KEY_SIZE, err);
}

struct result sjb1_context_make(const struct blob_identity *identity, struct bytes data_key, struct sjb1_context *context_out,
                                struct error *err)
{
    uint8_t region[SHA256_SIZE];
    struct sjb1_context context = {0};
    uint8_t *header = context.header;

    if (data_key.length != SJB1_KEY_SIZE)
        return failure(err, ERROR_INVALID, "a data key has %d bytes, not %zu", SJB1_KEY_SIZE, data_key.length);
    memcpy(header + AT_MAGIC, magic, sizeof magic);
    header[AT_SUITE] = SUITE;
    header[AT_RECORD_SIZE] = RECORD_SIZE_LOG2;
    memcpy(header + AT_BLOB, identity->blob.bytes, sizeof identity->blob.bytes);
    memcpy(header + AT_PROJECT, identity->project.bytes, sizeof identity->project.bytes);
    sha256_of(bytes_of_text(identity->region), region);
    memcpy(header + AT_REGION, region, AT_COMMITMENT - AT_REGION);
    sha256_of((struct bytes){header, AT_COMMITMENT}, context.salt);
    TRY(sjb1_key(&context, data_key, SJB1_INFO_COMMIT, NULL, header + AT_COMMITMENT, err));
    *context_out = context;
    return SUCCESS;
}

const uint8_t *sjb1_commitment(const struct sjb1_context *context)
{
    return context->header + AT_COMMITMENT;
}

struct result sjb1_header_check(const struct sjb1_context *expected, const uint8_t header[SJB1_HEADER_SIZE], struct error *err)
{
    static const struct {
        size_t from, to;
        const char *problem;
    } fields[] = {
        {AT_MAGIC, AT_SUITE, "header: the magic number is not that of a sealed blob"},
        {AT_SUITE, AT_RECORD_SIZE, "header: the cipher suite is not one that is known"},
        {AT_RECORD_SIZE, AT_RESERVED, "header: the record size is not the one that is known"},
        {AT_RESERVED, AT_BLOB, "header: reserved bytes are set"},
        {AT_BLOB, AT_PROJECT, "header: the blob id is that of another blob"},
        {AT_PROJECT, AT_REGION, "header: the project is another one"},
        {AT_REGION, AT_COMMITMENT, "header: the region is another one"},
        {AT_COMMITMENT, AT_ZEROS, "header: the commitment does not fit the data key"},
        {AT_ZEROS, SJB1_HEADER_SIZE, "header: the zeros at its end are not zero"},
    };

    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (memcmp(expected->header + fields[i].from, header + fields[i].from, fields[i].to - fields[i].from) != 0)
            return failure(err, ERROR_CORRUPT, "%s", fields[i].problem);
    return SUCCESS;
}

void sjb1_nonce(uint64_t index, bool is_last, uint8_t nonce_out[GCM_NONCE_SIZE])
{
    memset(nonce_out, 0, GCM_NONCE_SIZE);
    store_u64(nonce_out, index);
    nonce_out[GCM_NONCE_SIZE - 1] = is_last ? 1 : 0;
}

struct result sjb1_within(struct result result, struct error *err, const char *format, ...)
{
    char what[64], below[sizeof err->message]; /* such as "extent 65535" */
    va_list arguments;

    if (result.ok) return result;
    va_start(arguments, format);
    (void)vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    memcpy(below, err->message, sizeof below);
    return failure(err, err->kind, "%s: %.180s", what, below);
}
