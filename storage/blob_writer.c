#include <assert.h>
#include <string.h>

#include "base/memory.h"
#include "storage/blob_blocks_priv.h"
#include "storage/blob_priv.h"

enum {
    KEY_CHECKPOINT = 0, /* both keys are in one secret */
    KEY_TRAILER = SJB1_KEY_SIZE,
};

enum writer_state { WRITER_OPEN, WRITER_DEAD, WRITER_CLOSED };

struct blob_writer {
    struct blob_store *store;
    struct blob_upload upload;
    enum writer_state state;

    struct sjb1_context format; /* header and H */
    struct secret *keys;        /* for checkpoints, for the trailer */
    struct gcm *gcm;            /* of this writer's extent */
    uint8_t salt[SJB1_SALT_SIZE], trailer_salt[SJB1_SALT_SIZE];

    struct hasher *hashers[2]; /* SHA-256, then SHA-512 if asked for */
    size_t hasher_count;

    struct sjb1_extents extents; /* including this writer's own, once it is stored */
    struct driver_extent *extent;
    bool is_named;  /* a durable checkpoint or trailer may name the extent */
    bool is_headed; /* the header was written, or is not needed */

    struct blob_blocks blocks;
    uint64_t records; /* sealed records, including those of earlier extents */
    uint64_t offset;
    uint64_t expected; /* the offset at the end of the announced bytes */

    struct blob_checkpoint committed, latest; /* sequence 0: none */
};

/* ---- Opening ---- */

static struct result derive_keys(struct blob_writer *writer, struct bytes data_key, struct error *err)
{
    uint8_t key[SJB1_KEY_SIZE];

    TRY(sjb1_context_make(&writer->upload.identity, data_key, &writer->format, err));
    blob_store_random(writer->store, writer->salt, sizeof writer->salt);
    blob_store_random(writer->store, writer->trailer_salt, sizeof writer->trailer_salt);
    TRY(secret_new((size_t)2 * SJB1_KEY_SIZE, &writer->keys, err));
    TRY(sjb1_key(&writer->format, data_key, SJB1_INFO_CHECKPOINT, NULL, writer->keys->bytes + KEY_CHECKPOINT, err));
    TRY(sjb1_key(&writer->format, data_key, SJB1_INFO_TRAILER, writer->trailer_salt, writer->keys->bytes + KEY_TRAILER, err));
    TRY(sjb1_key(&writer->format, data_key, SJB1_INFO_DATA, writer->salt, key, err));
    const struct result result = gcm_new(key, &writer->gcm, err);
    secret_wipe(key, sizeof key);
    return result;
}

static struct result start_hashers(struct blob_writer *writer, struct error *err)
{
    TRY(hasher_new(DIGEST_SHA256, &writer->hashers[0], err));
    writer->hasher_count = 1;
    if (!writer->upload.with_sha512) return SUCCESS;
    TRY(hasher_new(DIGEST_SHA512, &writer->hashers[1], err));
    writer->hasher_count = 2;
    return SUCCESS;
}

/* The digest of the stored bytes must be the row's; only then they are decrypted. */
static struct result read_checkpoint(struct blob_writer *writer, const struct blob_checkpoint *from,
                                     struct sjb1_state **state_out, struct error *err)
{
    struct buffer OWNED_BUFFER stored = BUFFER(SJB1_CHECKPOINT_MAX);
    char name[CHECKPOINT_NAME_SIZE];
    uint8_t digest[SHA256_SIZE];
    const struct sjb1_binding binding = {.upload = writer->upload.upload,
                                         .blob = writer->upload.identity.blob,
                                         .project = writer->upload.identity.project,
                                         .writer_epoch = from->writer_epoch,
                                         .sequence = from->sequence,
                                         .offset = from->offset};

    blob_checkpoint_name(from->digest, name);
    TRY(sjb1_within(
        writer->store->operations->small_get(writer->store->driver, &writer->upload.identity.blob, name, &stored, err), err,
        "checkpoint"));
    sha256_of(buffer_bytes(&stored), digest);
    if (memcmp(digest, from->digest, sizeof digest) != 0)
        return failure(err, ERROR_CORRUPT, "checkpoint: its digest is not the one that was committed");
    return sjb1_checkpoint_open(&binding, writer->keys->bytes + KEY_CHECKPOINT, buffer_bytes(&stored), state_out, err);
}

static struct result resume(struct blob_writer *writer, const struct blob_checkpoint *from, struct error *err)
{
    OWNED(sjb1_state) *state = NULL;

    TRY(read_checkpoint(writer, from, &state, err));
    if (state->hasher_count != (writer->upload.with_sha512 ? 2U : 1U))
        return failure(err, ERROR_INVALID, "this upload was started %s sha512", state->hasher_count == 2 ? "with" : "without");
    for (size_t i = 0; i < state->hasher_count; i++) writer->hashers[i] = GIVE(state->hashers[i]);
    writer->hasher_count = state->hasher_count;
    writer->extents = state->extents;
    state->extents = (struct sjb1_extents){0};
    writer->offset = from->offset;
    writer->records = (from->offset - state->tail_length) / BLOB_RECORD_PLAIN;
    blob_blocks_add(&writer->blocks, (struct bytes){state->tail, state->tail_length});
    writer->committed = writer->latest = *from;
    return SUCCESS;
}

struct result blob_writer_open(struct blob_store *store, const struct blob_upload *upload, const struct secret *data_key,
                               const struct blob_checkpoint *from, struct blob_writer **writer_out, struct error *err)
{
    OWNED(blob_writer) *writer = NULL;

    TRY(blob_store_owns(store, &upload->identity, err));
    writer = memory_zeroed(1, sizeof *writer);
    if (writer == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an upload");
    writer->store = store;
    writer->upload = *upload;
    TRY(derive_keys(writer, secret_bytes(data_key), err));
    TRY(blob_blocks_begin(&writer->blocks, store->blocks, writer->format.header, err));
    if (from == NULL || from->sequence == 0) TRY(start_hashers(writer, err));
    else TRY(resume(writer, from, err));
    *writer_out = GIVE(writer);
    return SUCCESS;
}

void blob_writer_free(struct blob_writer *writer)
{
    if (writer == NULL) return;
    if (writer->is_named) writer->store->operations->extent_close(writer->extent);
    else writer->store->operations->extent_discard(writer->extent);
    for (size_t i = 0; i < 2; i++) hasher_free(writer->hashers[i]);
    sjb1_extents_done(&writer->extents);
    gcm_free(writer->gcm);
    secret_free(writer->keys);
    blob_blocks_done(&writer->blocks);
    free(writer);
}

/* ---- Records ---- */

/* The expected length of the extent as a separate object, if all announced bytes come and then the blob is closed. */
static uint64_t expected_size(const struct blob_writer *writer, uint64_t first)
{
    const uint64_t last = sjb1_record_count(writer->expected) - 1;

    if (writer->expected < writer->offset) return 0;
    return sjb1_record_offset(last - first) + sjb1_record_plain(writer->expected, last) + GCM_TAG_SIZE +
           sjb1_trailer_size(writer->hasher_count, writer->extents.count + 1);
}

/* The extents before the new one, as the driver needs them. */
static struct result create_extent(struct blob_writer *writer, uint64_t first, struct error *err)
{
    struct driver_history history = {
        .count = writer->extents.count, .offset = sjb1_record_offset(first), .expected = expected_size(writer, first)};
    struct driver_piece *pieces = NULL;

    if (history.count == 0) history.offset = 0; /* the header belongs to the first extent */
    else if ((pieces = memory_zeroed(history.count, sizeof *pieces)) == NULL)
        return failure(err, ERROR_NO_MEMORY, "no memory for %zu extents", history.count);
    for (size_t i = 0; i < history.count; i++)
        pieces[i] = (struct driver_piece){.offset = i == 0 ? 0 : sjb1_record_offset(writer->extents.list[i].first),
                                          .part = writer->extents.list[i].part};
    history.pieces = pieces;
    const struct result result = writer->store->operations->extent_create(writer->store->driver, &writer->upload.identity.blob,
                                                                          &history, &writer->extent, err);
    free(pieces);
    return result;
}

/* Made when the first record is ready, so an upload of a few bytes in many pieces leaves no files behind. */
static struct result begin_extent(struct blob_writer *writer, struct error *err)
{
    const struct driver_operations *operations = writer->store->operations;
    struct sjb1_extent extent = {.first = writer->records - writer->blocks.sealed_length / SJB1_RECORD_SIZE};

    if (writer->extent != NULL) return SUCCESS;
    TRY(create_extent(writer, extent.first, err));
    extent.part = operations->extent_part(writer->extent);
    memcpy(extent.salt, writer->salt, sizeof extent.salt);
    writer->is_headed = operations->is_flat && extent.first > 0;
    return sjb1_extents_add(&writer->extents, &extent, err);
}

/* Appends the first `length` bytes of the block, with the header before them if it is not written yet: one write for a small
 * blob. */
static struct result append_block(struct blob_writer *writer, size_t length, struct error *err)
{
    const size_t before = writer->is_headed ? 0 : SJB1_HEADER_SIZE;

    writer->is_headed = true;
    return writer->store->operations->extent_append(writer->extent,
                                                    (struct bytes){writer->blocks.start - before, before + length}, err);
}

/* Hands the whole records to the driver. */
static struct result flush(struct blob_writer *writer, struct error *err)
{
    if (writer->blocks.sealed_length == 0) return SUCCESS;
    TRY(begin_extent(writer, err));
    TRY(append_block(writer, writer->blocks.sealed_length, err));
    return blob_blocks_next(&writer->blocks, err);
}

/* Seals `plain`, which may be the tail itself, into the next record of the block. */
static struct result seal(struct blob_writer *writer, struct bytes plain, struct error *err)
{
    uint8_t nonce[GCM_NONCE_SIZE];

    sjb1_nonce(writer->records, false, nonce);
    TRY(gcm_seal(writer->gcm, nonce, (struct bytes){0}, plain, writer->blocks.start + writer->blocks.sealed_length, err));
    writer->records++;
    writer->blocks.tail_length = 0;
    writer->blocks.sealed_length += SJB1_RECORD_SIZE;
    return writer->blocks.sealed_length == BLOCK_SIZE ? flush(writer, err) : SUCCESS;
}

static void hash(struct blob_writer *writer, struct bytes content)
{
    for (size_t i = 0; i < writer->hasher_count; i++) hasher_add(writer->hashers[i], content);
    writer->offset += content.length;
}

/* Takes the next bytes of `content`, at most a record: seals them directly, or adds them to the tail. */
static struct result take_piece(struct blob_writer *writer, struct bytes content, size_t *taken_out, struct error *err)
{
    const bool is_direct = writer->blocks.tail_length == 0 && content.length > BLOB_RECORD_PLAIN;
    const size_t room = BLOB_RECORD_PLAIN - writer->blocks.tail_length;
    const struct bytes piece = {content.data, content.length < room ? content.length : room};

    hash(writer, piece); /* just before it is sealed, while the bytes are in the processor's cache */
    *taken_out = piece.length;
    if (is_direct) return seal(writer, piece, err);
    blob_blocks_add(&writer->blocks, piece);
    return SUCCESS;
}

/* A full tail is kept until another byte comes, because the last record is sealed differently. */
static struct result take(struct blob_writer *writer, struct bytes content, struct error *err)
{
    for (size_t taken = 0; content.length > 0; content.data += taken, content.length -= taken) {
        const struct bytes tail = {writer->blocks.start + writer->blocks.sealed_length, writer->blocks.tail_length};
        if (tail.length == BLOB_RECORD_PLAIN) TRY(seal(writer, tail, err));
        TRY(take_piece(writer, content, &taken, err));
    }
    return SUCCESS;
}

/* After any failure the content of the disk is unknown: only a new extent from the last checkpoint is safe. */
static struct result check_alive(struct blob_writer *writer, struct result result)
{
    if (!result.ok) writer->state = WRITER_DEAD;
    return result;
}

static struct result require_open(const struct blob_writer *writer, struct error *err)
{
    if (writer->state == WRITER_OPEN) return blob_store_require_open(writer->store, err);
    return failure(err, ERROR_CONFLICT, "this writer has %s; open another from the last checkpoint",
                   writer->state == WRITER_DEAD ? "failed" : "closed its blob");
}

struct result blob_writer_write(struct blob_writer *writer, struct bytes content, struct error *err)
{
    TRY(require_open(writer, err));
    if (content.length > SJB1_LENGTH_MAX - writer->offset)
        return check_alive(writer, failure(err, ERROR_LIMIT, "a blob may not be larger than 2^60 bytes"));
    return check_alive(writer, take(writer, content, err));
}

void blob_writer_expect(struct blob_writer *writer, uint64_t length)
{
    writer->expected = writer->offset + (length < SJB1_LENGTH_MAX ? length : SJB1_LENGTH_MAX);
}

uint64_t blob_writer_offset(const struct blob_writer *writer)
{
    return writer->offset;
}

bool blob_writer_is_checkpoint_due(const struct blob_writer *writer)
{
    return writer->offset - writer->latest.offset >= BLOB_CHECKPOINT_EVERY;
}

/* ---- Checkpoints ---- */

static struct result store_checkpoint(struct blob_writer *writer, struct blob_checkpoint *checkpoint, struct error *err)
{
    struct buffer OWNED_BUFFER stored = BUFFER(SJB1_CHECKPOINT_MAX);
    const struct uuid *blob = &writer->upload.identity.blob;
    const struct sjb1_binding binding = {
        writer->upload.upload, *blob, writer->upload.identity.project, checkpoint->writer_epoch, checkpoint->sequence,
        checkpoint->offset};
    const struct sjb1_view view = {(const struct hasher *const *)writer->hashers,
                                   writer->hasher_count,
                                   &writer->extents,
                                   {writer->blocks.start, writer->blocks.tail_length}};
    uint8_t nonce[XCHACHA_NONCE_SIZE];
    char name[CHECKPOINT_NAME_SIZE];

    blob_store_random(writer->store, nonce, sizeof nonce);
    TRY(sjb1_checkpoint_seal(&binding, &view, writer->keys->bytes + KEY_CHECKPOINT, nonce, &stored, err));
    sha256_of(buffer_bytes(&stored), checkpoint->digest);
    blob_checkpoint_name(checkpoint->digest, name);
    writer->is_named = writer->extent != NULL;
    return writer->store->operations->small_put(writer->store->driver, blob, name, buffer_bytes(&stored), err);
}

static struct result make_checkpoint(struct blob_writer *writer, struct error *err)
{
    struct blob_checkpoint checkpoint = {
        .offset = writer->offset, .sequence = writer->latest.sequence + 1, .writer_epoch = writer->upload.writer_epoch};

    TRY(flush(writer, err));
    if (writer->extent != NULL) TRY(writer->store->operations->extent_sync(writer->extent, err));
    TRY(store_checkpoint(writer, &checkpoint, err));
    writer->latest = checkpoint;
    return SUCCESS;
}

struct result blob_writer_checkpoint(struct blob_writer *writer, struct blob_checkpoint *checkpoint_out, struct error *err)
{
    TRY(require_open(writer, err));
    if (writer->latest.sequence == 0 || writer->latest.offset != writer->offset)
        TRY(check_alive(writer, make_checkpoint(writer, err)));
    *checkpoint_out = writer->latest;
    return SUCCESS;
}

static void remove_checkpoint(struct blob_writer *writer, const struct blob_checkpoint *checkpoint)
{
    char name[CHECKPOINT_NAME_SIZE];
    struct error ignored; /* the rest is removed with the blob */

    if (checkpoint->sequence == 0) return;
    blob_checkpoint_name(checkpoint->digest, name);
    (void)writer->store->operations->small_remove(writer->store->driver, &writer->upload.identity.blob, name, &ignored).ok;
}

/* Removes objects of earlier writers that nothing names; these writers can't commit any more. The rest is
 * removed with the blob. */
static void remove_strays(struct blob_writer *writer)
{
    const struct sjb1_extents *extents = &writer->extents;
    uint32_t *kept = writer->upload.writer_epoch < 2 ? NULL : memory_zeroed(extents->count, sizeof *kept);
    struct error ignored;

    if (kept == NULL) return;
    for (size_t i = 0; i < extents->count; i++) kept[i] = extents->list[i].part;
    (void)writer->store->operations->remove(writer->store->driver, &writer->upload.identity.blob, kept, extents->count, &ignored)
        .ok;
    free(kept);
}

void blob_writer_committed(struct blob_writer *writer)
{
    if (writer->committed.sequence != writer->latest.sequence) remove_checkpoint(writer, &writer->committed);
    writer->committed = writer->latest;
    if (writer->state != WRITER_CLOSED) return;
    remove_checkpoint(writer, &writer->committed);
    remove_strays(writer);
    writer->committed = writer->latest = (struct blob_checkpoint){0};
}

/* ---- Closing ---- */

static struct result compare_digest(const struct blob_writer *writer, const struct digest *expected, struct error *err)
{
    for (size_t i = 0; i < writer->hasher_count; i++) {
        if (hasher_algorithm(writer->hashers[i]) != expected->algorithm) continue;
        const struct digest digest = hasher_digest(writer->hashers[i]);
        if (digest_equal(&digest, expected)) return SUCCESS;
        return failure(err, ERROR_INVALID, "the %llu bytes that arrived have another digest than the one given",
                       (unsigned long long)writer->offset);
    }
    return failure(err, ERROR_INVALID, "this upload was not started with sha512; close it with a sha256 digest");
}

/* Seals the last record in the block: its bytes are appended together with the trailer. */
static struct result seal_last(struct blob_writer *writer, struct error *err)
{
    uint8_t nonce[GCM_NONCE_SIZE];
    uint8_t *destination = writer->blocks.start + writer->blocks.sealed_length;

    sjb1_nonce(writer->records, true, nonce);
    TRY(gcm_seal(writer->gcm, nonce, (struct bytes){0}, (struct bytes){destination, writer->blocks.tail_length}, destination,
                 err));
    TRY(begin_extent(writer, err));
    writer->records++;
    writer->blocks.sealed_length += writer->blocks.tail_length + GCM_TAG_SIZE;
    writer->blocks.tail_length = 0;
    return SUCCESS;
}

static struct result seal_trailer(const struct blob_writer *writer, struct buffer *sealed, struct error *err)
{
    struct sjb1_trailer trailer = {.length = writer->offset,
                                   .records = writer->records,
                                   .project = writer->upload.identity.project,
                                   .extents = writer->extents /* a view: not released here */};

    trailer.digest_count = blob_writer_digests(writer, trailer.digests);
    return sjb1_trailer_seal(&trailer, writer->keys->bytes + KEY_TRAILER, writer->trailer_salt, sealed, err);
}

/* One write is enough if the trailer fits after the records in the block. With dozens of extents the trailer does not fit. */
static struct result append_end(struct blob_writer *writer, struct bytes trailer, struct error *err)
{
    const size_t length = writer->blocks.sealed_length;

    if (trailer.length <= BLOCK_MARGIN) {
        memcpy(writer->blocks.start + length, trailer.data, trailer.length);
        return append_block(writer, length + trailer.length, err);
    }
    TRY(append_block(writer, length, err));
    return writer->store->operations->extent_append(writer->extent, trailer, err);
}

static struct result finish(struct blob_writer *writer, struct error *err)
{
    struct buffer OWNED_BUFFER trailer = BUFFER(SJB1_TRAILER_MAX + SJB1_FOOTER_SIZE);

    TRY(seal_last(writer, err));
    TRY(seal_trailer(writer, &trailer, err));
    writer->is_named = true;
    TRY(append_end(writer, buffer_bytes(&trailer), err));
    return writer->store->operations->extent_finish(writer->extent, err);
}

struct result blob_writer_close(struct blob_writer *writer, const struct digest *expected, struct blob_content *content_out,
                                struct error *err)
{
    TRY(require_open(writer, err));
    TRY(compare_digest(writer, expected, err));
    TRY(check_alive(writer, finish(writer, err)));
    writer->state = WRITER_CLOSED;
    *content_out = (struct blob_content){
        .length = writer->offset, .part = writer->store->operations->extent_part(writer->extent), .digest = *expected};
    return SUCCESS;
}

size_t blob_writer_digests(const struct blob_writer *writer, struct digest digests_out[2])
{
    for (size_t i = 0; i < writer->hasher_count; i++) digests_out[i] = hasher_digest(writer->hashers[i]);
    return writer->hasher_count;
}
