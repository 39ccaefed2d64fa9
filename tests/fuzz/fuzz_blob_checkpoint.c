/* Stored checkpoints, and their states after decryption (8 bytes of offset first): accepted means the same
 * bytes. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "storage/sjb1_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void open_as_stored(const uint8_t *data, size_t size)
{
    static const uint8_t key[SJB1_KEY_SIZE];
    struct sjb1_binding binding = {.sequence = 1};
    struct sjb1_state *state = NULL;
    struct error err;

    if (size >= 4 + 3 * 20) { /* the stored ids, so that the input reaches more than the first comparison */
        memcpy(binding.upload.bytes, data + 4 + 4, 16);
        memcpy(binding.blob.bytes, data + 4 + 24, 16);
        memcpy(binding.project.bytes, data + 4 + 44, 16);
    }
    if (size >= 4 + 3 * 20 + 3 * 12) {
        binding.writer_epoch = load_u64(data + 4 + 64);
        binding.sequence = load_u64(data + 4 + 76);
        binding.offset = load_u64(data + 4 + 88);
    }
    if (sjb1_checkpoint_open(&binding, key, (struct bytes){data, size}, &state, &err).ok) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buffer OWNED_BUFFER again = BUFFER(SJB1_CHECKPOINT_MAX);
    OWNED(sjb1_state) *state = NULL;
    struct error err;

    open_as_stored(data, size);
    if (size < 8 || !sjb1_state_parse((struct bytes){data + 8, size - 8}, load_u64(data), &state, &err).ok) return 0;
    assert(state->tail_length <= BLOB_RECORD_PLAIN && state->offset >= state->tail_length);
    assert(hasher_length(state->hashers[0]) == state->offset);
    const struct sjb1_view view = {
        (const struct hasher *const *)state->hashers, state->hasher_count, &state->extents, {state->tail, state->tail_length}};
    if (!sjb1_state_format(&view, &again, &err).ok) abort();
    assert(again.length == size - 8 && memcmp(again.data, data + 8, again.length) == 0);
    return 0;
}
