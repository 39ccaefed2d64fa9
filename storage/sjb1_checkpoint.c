#include <string.h>

#include "base/memory.h"
#include "storage/sjb1_priv.h"

/* docs/formats/sjb1.md, "Checkpoint" */
static const uint8_t magic[4] = {'S', 'J', 'C', '1'};
#define BINDING_SIZE (3 * (4 + 16) + 3 * (4 + 8))
#define BOX_AT       (sizeof magic + BINDING_SIZE) /* nonce, ciphertext, tag */

void sjb1_state_free(struct sjb1_state *state)
{
    if (state == NULL) return;
    for (size_t i = 0; i < state->hasher_count; i++) hasher_free(state->hashers[i]);
    sjb1_extents_done(&state->extents);
    secret_wipe(state->tail, sizeof state->tail);
    free(state);
}

static uint8_t *put(uint8_t *destination, const void *bytes, uint32_t length)
{
    store_u32(destination, length);
    memcpy(destination + 4, bytes, length);
    return destination + 4 + length;
}

static uint8_t *put_u64(uint8_t *destination, uint64_t value)
{
    uint8_t bytes[8];

    store_u64(bytes, value);
    return put(destination, bytes, sizeof bytes);
}

/* Each bound field after its length: these are the first bytes of the checkpoint, and its associated data. */
static void format_binding(const struct sjb1_binding *binding, uint8_t out[BINDING_SIZE])
{
    out = put(out, binding->upload.bytes, sizeof binding->upload.bytes);
    out = put(out, binding->blob.bytes, sizeof binding->blob.bytes);
    out = put(out, binding->project.bytes, sizeof binding->project.bytes);
    out = put_u64(out, binding->writer_epoch);
    out = put_u64(out, binding->sequence);
    (void)put_u64(out, binding->offset);
}

struct result sjb1_state_format(const struct sjb1_view *view, struct buffer *out, struct error *err)
{
    uint8_t state[HASHER_STATE_MAX];

    TRY(buffer_add_u8(out, (uint8_t)view->hasher_count, err));
    for (size_t i = 0; i < view->hasher_count; i++) {
        const size_t length = hasher_export(view->hashers[i], state);
        const struct result result = buffer_add_prefixed(out, (struct bytes){state, length}, err);
        secret_wipe(state, sizeof state);
        TRY(result);
    }
    TRY(sjb1_extents_format(view->extents, out, err));
    return buffer_add_prefixed(out, view->tail, err);
}

static struct result parse_hashers(struct reader *reader, struct sjb1_state *state, struct error *err)
{
    const uint8_t count = reader_u8(reader);

    if (count < 1 || count > 2) return failure(err, ERROR_CORRUPT, "%u hashers", count);
    for (uint8_t i = 0; i < count; i++) {
        TRY(hasher_import(reader_prefixed(reader, HASHER_STATE_MAX), &state->hashers[i], err));
        state->hasher_count++;
        if (hasher_algorithm(state->hashers[i]) != (i == 0 ? DIGEST_SHA256 : DIGEST_SHA512))
            return failure(err, ERROR_CORRUPT, "hasher %u is of another algorithm", i);
        if (hasher_length(state->hashers[i]) != state->offset)
            return failure(err, ERROR_CORRUPT, "hasher %u stands at another offset", i);
    }
    return SUCCESS;
}

static struct result parse_into(struct reader *reader, struct sjb1_state *state, struct error *err)
{
    TRY(parse_hashers(reader, state, err));
    const uint64_t records = state->offset == 0 ? 0 : (state->offset - 1) / BLOB_RECORD_PLAIN;
    TRY(sjb1_extents_parse(reader, records, &state->extents, err));
    const struct bytes tail = reader_prefixed(reader, BLOB_RECORD_PLAIN);
    if (!reader_is_done(reader) || tail.length != state->offset - records * BLOB_RECORD_PLAIN)
        return failure(err, ERROR_CORRUPT, "the bytes after the last record do not fit the offset");
    state->tail_length = tail.length;
    if (tail.length > 0) memcpy(state->tail, tail.data, tail.length);
    return SUCCESS;
}

struct result sjb1_state_parse(struct bytes plain, uint64_t offset, struct sjb1_state **state_out, struct error *err)
{
    OWNED(sjb1_state) *state = memory_zeroed(1, sizeof *state);
    struct reader reader = reader_of(plain);

    if (state == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a checkpoint");
    if (offset > SJB1_LENGTH_MAX) return failure(err, ERROR_CORRUPT, "checkpoint: the offset is not possible");
    state->offset = offset;
    TRY(sjb1_within(parse_into(&reader, state, err), err, "checkpoint"));
    *state_out = GIVE(state);
    return SUCCESS;
}

struct result sjb1_checkpoint_seal(const struct sjb1_binding *binding, const struct sjb1_view *view,
                                   const uint8_t key[SJB1_KEY_SIZE], const uint8_t nonce[XCHACHA_NONCE_SIZE], struct buffer *out,
                                   struct error *err)
{
    struct buffer OWNED_BUFFER plain = BUFFER(SJB1_CHECKPOINT_MAX);
    uint8_t bound[BINDING_SIZE];
    uint8_t *destination = NULL;

    format_binding(binding, bound);
    TRY(buffer_add(out, magic, sizeof magic, err));
    TRY(buffer_add(out, bound, sizeof bound, err));
    TRY(buffer_add(out, nonce, XCHACHA_NONCE_SIZE, err));
    /* All at once, because a buffer that grows leaves copies of content behind. */
    TRY(buffer_reserve(&plain, 64 + 2 * HASHER_STATE_MAX + view->extents->count * 28 + view->tail.length, &destination, err));
    struct result result = sjb1_state_format(view, &plain, err);
    if (result.ok) result = buffer_reserve(out, plain.length + XCHACHA_TAG_SIZE, &destination, err);
    if (result.ok) {
        xchacha_seal(key, nonce, (struct bytes){bound, sizeof bound}, buffer_bytes(&plain), destination);
        out->length += plain.length + XCHACHA_TAG_SIZE;
    }
    if (plain.length > 0) secret_wipe(plain.data, plain.length);
    return result;
}

/* The row has every bound value, so a field that differs is named before the cipher is used. */
static struct result check_binding(const struct sjb1_binding *expected, const uint8_t *stored, struct error *err)
{
    static const struct {
        size_t end;
        const char *problem;
    } fields[] = {
        {20, "checkpoint: it is of another upload"},       {40, "checkpoint: it is of another blob"},
        {60, "checkpoint: it is of another project"},      {72, "checkpoint: it is of another writer"},
        {84, "checkpoint: it is an older or a newer one"}, {BINDING_SIZE, "checkpoint: its offset is another one"},
    };
    uint8_t bound[BINDING_SIZE];
    size_t from = 0;

    format_binding(expected, bound);
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; from = fields[i++].end)
        if (memcmp(bound + from, stored + from, fields[i].end - from) != 0)
            return failure(err, ERROR_CORRUPT, "%s", fields[i].problem);
    return SUCCESS;
}

struct result sjb1_checkpoint_open(const struct sjb1_binding *binding, const uint8_t key[SJB1_KEY_SIZE], struct bytes stored,
                                   struct sjb1_state **state_out, struct error *err)
{
    struct buffer OWNED_BUFFER plain = BUFFER(SJB1_CHECKPOINT_MAX);
    uint8_t *destination = NULL;

    if (stored.length < BOX_AT + BOX_OVERHEAD || stored.length > SJB1_CHECKPOINT_MAX ||
        memcmp(stored.data, magic, sizeof magic) != 0)
        return failure(err, ERROR_CORRUPT, "checkpoint: the file is none, or it is cut");
    TRY(check_binding(binding, stored.data + sizeof magic, err));
    TRY(buffer_reserve(&plain, stored.length, &destination, err));
    const struct bytes bound = {stored.data + sizeof magic, BINDING_SIZE};
    const uint8_t *nonce = stored.data + BOX_AT;
    const struct bytes sealed = {nonce + XCHACHA_NONCE_SIZE, stored.length - BOX_AT - XCHACHA_NONCE_SIZE};
    TRY(sjb1_within(xchacha_open(key, nonce, bound, sealed, destination, err), err, "checkpoint"));
    plain.length = sealed.length - XCHACHA_TAG_SIZE;
    const struct result result = sjb1_state_parse(buffer_bytes(&plain), binding->offset, state_out, err);
    secret_wipe(plain.data, plain.length);
    return result;
}
