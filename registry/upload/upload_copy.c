#include <stdio.h>

#include "base/clock.h"
#include "base/memory.h"
#include "registry/upload/abandoned_store.h"
#include "registry/upload/upload_priv.h"

/*
 * Only SHA-256 is computed unless the POST asked for SHA-512, which costs as much again. If a client asks for SHA-512
 * only at the end, the blob is closed, read back with verification, and written again under a new key. That occupies
 * a worker for the whole copy, so only a few may run at a time.
 */

static struct result open_copy(const struct upload *upload, const struct key_record *record, const struct secret *key,
                               struct blob_writer **writer_out, struct error *err)
{
    struct blob_upload session = {
        .upload = upload->row.upload,
        .identity = {.blob = record->id, .project = upload->where.project},
        .writer_epoch = upload->row.writer_epoch,
        .with_sha512 = true,
    };

    (void)snprintf(session.identity.region, sizeof session.identity.region, "%s", upload->where.region);
    return blob_writer_open(upload->blobs, &session, key, NULL, writer_out, err);
}

static struct result open_original(const struct upload *upload, const struct blob_content *content,
                                   struct blob_reader **reader_out, struct error *err)
{
    struct blob_identity identity = {.blob = upload->row.blob, .project = upload->where.project};
    OWNED(secret) *key = NULL;

    (void)snprintf(identity.region, sizeof identity.region, "%s", upload->where.region);
    TRY(registry_unwrap(upload->registry, &upload->where, &upload->row.key, &key, err));
    return blob_reader_open(upload->blobs, &identity, content, key, reader_out, err);
}

/* A copy may take hours without a save; this keeps the session from being idle. */
static struct result go_on(struct upload *upload, struct pg *pg, int64_t *heartbeat_ms, struct error *err)
{
    const int64_t now_ms = clock_monotonic_ms();

    if (!upload_table_touch(upload->registry->uploads, &upload->live)) return no_such_upload(err);
    if (now_ms - *heartbeat_ms < UPLOAD_SAVE_EVERY_MS) return SUCCESS;
    *heartbeat_ms = now_ms;
    return upload_row_touch(pg, &upload->row, err);
}

/* The copy notes progress, so a repeated request finds the session in use. */
static struct result copy(struct upload *upload, struct pg *pg, struct blob_reader *reader, struct blob_writer *writer,
                          struct error *err)
{
    const uint64_t length = blob_reader_length(reader);
    int64_t heartbeat_ms = upload->safe_ms;
    uint8_t *piece = memory_resize(NULL, BLOB_READ_SIZE);
    struct result result = SUCCESS;

    if (piece == NULL) return failure(err, ERROR_NO_MEMORY, "no memory to copy a blob");
    for (uint64_t at = 0; at < length && result.ok;) {
        const size_t size = length - at < BLOB_READ_SIZE ? (size_t)(length - at) : BLOB_READ_SIZE;
        result = go_on(upload, pg, &heartbeat_ms, err);
        if (!result.ok) break;
        result = blob_reader_read(reader, at, piece, size, err).ok ? SUCCESS : upload_note_loss(upload, err);
        if (result.ok) result = blob_writer_write(writer, (struct bytes){piece, size}, err);
        at += size;
    }
    secret_wipe(piece, BLOB_READ_SIZE);
    free(piece);
    return result;
}

/* Wraps the key again under the present version: a re-wrap that ran during the copy did not find a row of this key. */
static struct result wrap_again(const struct upload *upload, const struct secret *key, struct key_record *record,
                                struct error *err)
{
    const struct key_scope scope = registry_key_scope(&upload->where);
    const struct key_binding binding = key_binding_of(&scope, &record->id, record->commitment);

    return keyd_wrap(upload->registry->keyd, &binding, key, &record->wrapped, err);
}

/* On entry `closed` has the content of the original, on return that of the copy. */
static struct result write_again(struct upload *upload, struct pg *pg, const struct digest *expected, const struct secret *key,
                                 struct closed_blob *closed, struct error *err)
{
    OWNED(blob_reader) *reader = NULL;
    OWNED(blob_writer) *writer = NULL;

    TRY(open_original(upload, &closed->content, &reader, err));
    TRY(open_copy(upload, &closed->key, key, &writer, err));
    TRY(copy(upload, pg, reader, writer, err));
    TRY(blob_writer_close(writer, expected, &closed->content, err));
    return wrap_again(upload, key, &closed->key, err);
}

static struct result close_again(struct upload *upload, struct pg *pg, const struct digest *expected,
                                 struct closed_blob *closed_out, struct error *err)
{
    struct abandoned_object copied = {0};
    struct closed_blob closed = {0};
    struct digest digests[2];
    OWNED(secret) *key = NULL;

    (void)blob_writer_digests(upload->live.writer, digests);
    upload->is_dead = true;
    if (!blob_writer_close(upload->live.writer, &digests[0], &closed.content, err).ok) return upload_note_loss(upload, err);
    TRY(upload_key_new(upload->registry, &upload->where, &closed.key, &key, err));
    TRY(abandoned_reserve(pg, &closed.key.id, upload->where.region, err));
    const struct result written = write_again(upload, pg, expected, key, &closed, err);
    if (!written.ok) {
        copied.blob = closed.key.id;
        (void)snprintf(copied.region, sizeof copied.region, "%s", upload->where.region);
        (void)upload_sweep(upload->registry, pg, &copied);
        return written;
    }
    *closed_out = closed;
    return SUCCESS;
}

struct result upload_close_as_copy(struct upload *upload, struct pg *pg, const struct digest *expected,
                                   struct closed_blob *closed_out, struct error *err)
{
    _Atomic int *copies = &upload->registry->copies;
    const bool may = atomic_fetch_add(copies, 1) < UPLOAD_COPIES_MAX;
    const struct result result =
        may ? close_again(upload, pg, expected, closed_out, err)
            : failure(
                  err, ERROR_LIMIT,
                  "%d uploads are being read again for their SHA-512: try again later, or begin with ?digest-algorithm=sha512",
                  UPLOAD_COPIES_MAX);

    atomic_fetch_sub(copies, 1);
    return result;
}
