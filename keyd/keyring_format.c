#include "keyd/keyring_format.h"

#include <string.h>

static const uint8_t magic[8] = {'S', 'J', 'K', 'R', KEYRING_FORMAT, 1, 0, 0}; /* format and kdf included */
enum { FORMAT_AT = 4 };

void keyring_header_write(const struct keyring_header *header, uint8_t out[KEYRING_HEADER_SIZE])
{
    memcpy(out, magic, sizeof magic);
    out[FORMAT_AT] = header->format;
    store_u32(out + 8, header->cost.passes);
    store_u32(out + 12, header->cost.memory_kib);
    memcpy(out + 16, header->salt, sizeof header->salt);
}

struct result keyring_header_read(struct bytes file, struct keyring_header *header_out, struct error *err)
{
    uint8_t wanted[sizeof magic];

    memcpy(wanted, magic, sizeof magic);
    if (file.length > FORMAT_AT && (file.data[FORMAT_AT] == 1 || file.data[FORMAT_AT] == KEYRING_FORMAT_FURTHER))
        wanted[FORMAT_AT] = file.data[FORMAT_AT];
    if (file.length < KEYRING_HEADER_SIZE + BOX_OVERHEAD || file.length > KEYRING_FILE_MAX ||
        memcmp(file.data, wanted, sizeof wanted) != 0)
        return failure(err, ERROR_CORRUPT, "the key ring is damaged, or of a format that is not known here");
    header_out->format = wanted[FORMAT_AT];
    header_out->cost = (struct password_cost){.passes = load_u32(file.data + 8), .memory_kib = load_u32(file.data + 12)};
    memcpy(header_out->salt, file.data + 16, sizeof header_out->salt);
    return SUCCESS;
}

static struct result write_roots(const struct keyring_roots *roots, bool with_kinds, struct buffer *out, struct error *err)
{
    TRY(buffer_add_u32(out, roots->count, err));
    for (uint32_t i = 0; i < roots->count; i++) {
        TRY(buffer_add_u32(out, roots->each[i].number, err));
        if (with_kinds) TRY(buffer_add_u8(out, (uint8_t)roots->each[i].kind, err));
        TRY(buffer_add(out, roots->each[i].bytes, sizeof roots->each[i].bytes, err));
    }
    return SUCCESS;
}

struct result keyring_body_write(const struct keyring_body *body, struct buffer *out, struct error *err)
{
    TRY(buffer_add_prefixed(out, bytes_of_text(body->origin), err));
    TRY(buffer_add(out, body->token_scalar, sizeof body->token_scalar, err));
    TRY(buffer_add(out, body->log_seed, sizeof body->log_seed, err));
    TRY(buffer_add(out, body->index_key, sizeof body->index_key, err));
    TRY(buffer_add(out, body->ledger_key, sizeof body->ledger_key, err));
    TRY(write_roots(&body->versions, true, out, err));
    TRY(write_roots(&body->epochs, false, out, err));
    if (body->further_count == 0) return SUCCESS;
    TRY(buffer_add_u32(out, body->further_count, err));
    return buffer_add(out, body->further_seeds, body->further_count * sizeof body->further_seeds[0], err);
}

uint8_t keyring_body_format(const struct keyring_body *body)
{
    return body->further_count == 0 ? KEYRING_FORMAT : KEYRING_FORMAT_FURTHER;
}

static void read_key(struct reader *reader, uint8_t out[32])
{
    const struct bytes key = reader_take(reader, 32);

    if (!reader->failed) memcpy(out, key.data, 32);
}

static enum keyring_kind read_kind(struct reader *reader)
{
    const uint8_t kind = reader_u8(reader);

    if (kind < KEYRING_ROOT || kind > KEYRING_DESTROYED) reader->failed = true;
    return (enum keyring_kind)kind;
}

static void read_roots(struct reader *reader, bool with_kinds, struct keyring_roots *roots)
{
    uint32_t last = 0;

    roots->count = reader_u32(reader);
    if (roots->count == 0 || roots->count > KEYRING_ROOTS_MAX) reader->failed = true;
    for (uint32_t i = 0; i < roots->count && !reader->failed; i++) {
        roots->each[i].number = reader_u32(reader);
        roots->each[i].kind = with_kinds ? read_kind(reader) : KEYRING_ROOT;
        read_key(reader, roots->each[i].bytes);
        if (roots->each[i].number <= last) reader->failed = true;
        last = roots->each[i].number;
    }
    if (!reader->failed && roots->each[roots->count - 1].kind == KEYRING_DESTROYED) reader->failed = true;
    if (reader->failed) roots->count = 0;
}

static void read_further(struct reader *reader, struct keyring_body *body)
{
    body->further_count = reader_u32(reader);
    if (body->further_count == 0 || body->further_count > KEYRING_FURTHER_MAX) reader->failed = true;
    if (reader->failed) body->further_count = 0;
    for (uint32_t i = 0; i < body->further_count; i++) read_key(reader, body->further_seeds[i]);
}

int64_t keyring_root_destroyed_s(const struct keyring_root *root)
{
    return (int64_t)load_u64(root->bytes);
}

struct result keyring_body_read(struct bytes raw, uint8_t format, struct keyring_body *body, struct error *err)
{
    struct reader reader = reader_of(raw);

    const struct bytes origin = reader_prefixed(&reader, sizeof body->origin - 1);
    read_key(&reader, body->token_scalar);
    read_key(&reader, body->log_seed);
    read_key(&reader, body->index_key);
    read_key(&reader, body->ledger_key);
    read_roots(&reader, format > 1, &body->versions);
    read_roots(&reader, false, &body->epochs);
    body->further_count = 0;
    if (format == KEYRING_FORMAT_FURTHER) read_further(&reader, body);
    if (!reader_is_done(&reader) || origin.length == 0 || memchr(origin.data, '\0', origin.length) != NULL)
        return failure(err, ERROR_CORRUPT, "the content of the key ring is malformed");
    memcpy(body->origin, origin.data, origin.length);
    body->origin[origin.length] = '\0';
    return SUCCESS;
}
