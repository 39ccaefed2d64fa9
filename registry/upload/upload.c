#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "registry/upload/abandoned_store.h"
#include "registry/upload/upload_priv.h"

static struct result make(struct registry *registry, enum action action, const struct resource *where, struct upload **upload_out,
                          struct error *err)
{
    OWNED(upload) *upload = memory_zeroed(1, sizeof *upload);

    if (upload == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an upload");
    upload->registry = registry;
    upload->action = action;
    upload->where = *where;
    TRY(registry_blobs(registry, upload->where.region, &upload->blobs, err));
    *upload_out = GIVE(upload);
    return SUCCESS;
}

struct result upload_new(struct registry *registry, const struct upload_request *request, struct upload **upload_out,
                         struct error *err)
{
    struct upload *upload = NULL;

    assert(upload_permits(request->action, UPLOAD_LOOK));
    TRY(make(registry, request->action, request->where, &upload, err));
    upload_search_init(upload);
    upload->is_of_run = request->principal->kind == PRINCIPAL_RUN;
    upload->row.upload = request->location.upload;
    upload_owner_hash(request->principal, upload->bound_to);
    upload_secret_hash(&request->location, upload->secret_hash);
    *upload_out = upload;
    return SUCCESS;
}

struct change *upload_search(struct upload *upload)
{
    return &upload->search;
}

struct result upload_find(const struct permit *permit, struct upload *upload, struct pg *pg, struct error *err)
{
    permit_require(permit, upload->action, &upload->where);
    if (upload->found == SEARCH_OPEN) TRY(upload->search.run(permit, &upload->search, pg, err));
    return upload->found == SEARCH_FOUND ? SUCCESS : no_such_upload(err);
}

struct result upload_of_begin(const struct permit *permit, struct registry *registry, const struct upload_begin *begun,
                              struct upload **upload_out, struct error *err)
{
    OWNED(upload) *upload = NULL;
    struct resource where = begun->where;

    permit_require(permit, ACTION_UPLOAD_BEGIN, &begun->where);
    where.repository = begun->repository;
    TRY(make(registry, ACTION_UPLOAD_BEGIN, &where, &upload, err));
    upload->found = SEARCH_FOUND;
    upload->is_of_run = begun->is_of_run;
    upload->row = (struct upload_row){.upload = begun->location.upload,
                                      .blob = begun->blob,
                                      .algorithm = begun->algorithm,
                                      .key = begun->key,
                                      .writer_epoch = UPLOAD_FIRST_EPOCH,
                                      .is_counted = begun->is_counted};
    *upload_out = GIVE(upload);
    return SUCCESS;
}

uint64_t upload_offset(const struct upload *upload)
{
    return upload->is_claimed && upload->live.writer != NULL ? blob_writer_offset(upload->live.writer)
                                                             : upload->row.checkpoint.offset;
}

/* May the kept writer continue? Only if no other writer has claimed, saved or written since. */
static bool kept_writer_fits(const struct upload *upload)
{
    const struct live_upload *live = &upload->live;

    return live->writer != NULL && live->writer_epoch == upload->row.writer_epoch &&
           live->sequence == upload->row.checkpoint.sequence && blob_writer_offset(live->writer) == upload->row.checkpoint.offset;
}

/* Is the claim from the session's begin still unused? A writer that could not be opened has written nothing under it. */
static bool is_claimed_already(const struct upload *upload)
{
    return upload->live.is_begun && upload->row.writer_epoch == UPLOAD_FIRST_EPOCH && upload->row.checkpoint.sequence == 0;
}

static struct result open_at_checkpoint(struct upload *upload, const struct secret *key, struct error *err)
{
    struct blob_upload session = {
        .upload = upload->row.upload,
        .identity = {.blob = upload->row.blob, .project = upload->where.project},
        .writer_epoch = upload->row.writer_epoch,
        .with_sha512 = upload->row.algorithm == DIGEST_SHA512,
    };
    (void)snprintf(session.identity.region, sizeof session.identity.region, "%s", upload->where.region);
    return blob_writer_open(upload->blobs, &session, key, &upload->row.checkpoint, &upload->live.writer, err);
}

struct result upload_note_loss(struct upload *upload, const struct error *err)
{
    upload->is_lost = err->kind == ERROR_CORRUPT;
    return (struct result){.ok = false};
}

bool upload_is_lost(const struct upload *upload)
{
    return upload->is_lost;
}

/*
 * Another gateway may claim the session between our claim and our opening, save under its own claim, and remove the
 * checkpoint that we have read. Then the upload is not lost: the row has a newer checkpoint.
 */
static struct result open_newest(struct upload *upload, struct pg *pg, const struct secret *key, struct error *err)
{
    for (;;) {
        const uint64_t sequence = upload->row.checkpoint.sequence;
        struct error gone;
        if (open_at_checkpoint(upload, key, err).ok) return SUCCESS;
        if (err->kind != ERROR_NOT_FOUND) return upload_note_loss(upload, err);
        gone = *err;
        TRY(upload_row_claim(pg, &upload->row, err));
        if (upload->row.checkpoint.sequence != sequence) continue;
        (void)failure(err, ERROR_CORRUPT, "%s", gone.message).ok;
        return upload_note_loss(upload, err);
    }
}

static struct result open_writer(struct upload *upload, struct pg *pg, struct error *err)
{
    OWNED(secret) *key = NULL;

    blob_writer_free(GIVE(upload->live.writer));
    TRY(registry_unwrap(upload->registry, &upload->where, &upload->row.key, &key, err));
    if (!is_claimed_already(upload)) TRY(upload_row_claim(pg, &upload->row, err));
    TRY(open_newest(upload, pg, key, err));
    upload->live.writer_epoch = upload->row.writer_epoch;
    upload->live.sequence = upload->row.checkpoint.sequence;
    return SUCCESS;
}

struct result upload_claim(struct upload *upload, struct pg *pg, struct error *err)
{
    upload_check(upload, UPLOAD_FILL);
    assert(!upload->is_claimed);
    TRY(upload_table_take(upload->registry->uploads, &upload->row.upload, &upload->live, err));
    upload->is_claimed = true;
    upload->safe_ms = upload->heartbeat_ms = clock_monotonic_ms();
    if (kept_writer_fits(upload)) return SUCCESS;
    upload->is_dead = true; /* until it is open */
    TRY(open_writer(upload, pg, err));
    upload->is_dead = false;
    return SUCCESS;
}

void upload_expect(struct upload *upload, uint64_t length)
{
    assert(upload->is_claimed && !upload->is_dead);
    blob_writer_expect(upload->live.writer, length);
}

/* The bytes of a session were removed when it ended. This removes the bytes that the request has written since. */
static void remove_again(const struct upload *upload)
{
    struct error err = {0};

    if (!blob_remove(upload->blobs, &upload->row.blob, &err).ok)
        log_error("bytes of an upload that ended can't be removed", &err);
}

struct result upload_write(struct upload *upload, struct bytes content, struct error *err)
{
    assert(upload->is_claimed && !upload->is_dead);
    if (!upload_table_touch(upload->registry->uploads, &upload->live)) {
        upload->is_dead = true;
        remove_again(upload);
        return no_such_upload(err);
    }
    const struct result written = blob_writer_write(upload->live.writer, content, err);
    upload->is_dead = !written.ok;
    return written.ok ? SUCCESS : upload_note_loss(upload, err);
}

bool upload_can_save(const struct upload *upload)
{
    return upload->is_claimed && !upload->is_dead;
}

bool upload_must_save(const struct upload *upload)
{
    if (upload->is_dead) return false;
    return blob_writer_is_checkpoint_due(upload->live.writer) || clock_monotonic_ms() - upload->safe_ms >= UPLOAD_SAVE_EVERY_MS;
}

/* Runs after the refusal is recorded, because the session's end could still be rolled back in the transaction that refused. */
void upload_note_end(const struct upload *upload, struct pg *pg, struct error *refusal)
{
    struct error err = {0};
    bool is_gone = false;

    if (refusal->kind != ERROR_CONFLICT) return;
    upload_check(upload, UPLOAD_FILL);
    if (!upload_row_is_gone(pg, &upload->row, &is_gone, &err).ok || !is_gone) return;
    remove_again(upload);
    (void)no_such_upload(refusal).ok;
}

struct result upload_heartbeat(struct upload *upload, struct pg *pg, struct error *err)
{
    const int64_t now_ms = clock_monotonic_ms();

    assert(upload->is_claimed);
    if (now_ms - upload->heartbeat_ms < UPLOAD_HEARTBEAT_MS) return SUCCESS;
    upload->heartbeat_ms = now_ms;
    const struct result shown = upload_row_touch(pg, &upload->row, err);
    if (!shown.ok) upload_note_end(upload, pg, err);
    upload->is_dead |= !shown.ok && err->kind != ERROR_UNAVAILABLE;
    return shown.ok || err->kind == ERROR_UNAVAILABLE ? SUCCESS : shown; /* without a database it is checked next time */
}

struct result upload_record(struct upload *upload, struct recorder *recorder, enum outcome outcome, const char *note,
                            struct change *change, struct error *err)
{
    upload->ran = NULL;
    TRY(recorder->record(recorder, outcome, note, change, err));
    assert(upload->ran == change); /* else it has recorded nothing, so no bytes may be removed or counted */
    return SUCCESS;
}

static struct result save(struct upload *upload, struct pg *pg, struct recorder *recorder, struct error *err)
{
    struct upload_save change;
    char note[64];

    upload_save_init(&change, upload);
    TRY(blob_writer_checkpoint(upload->live.writer, &change.checkpoint, err));
    (void)snprintf(note, sizeof note, "%" PRIu64 " bytes are safe", change.checkpoint.offset);
    const struct result recorded = upload_record(upload, recorder, OUTCOME_COMPLETED, note, &change.change, err);
    if (!recorded.ok) upload_note_end(upload, pg, err);
    TRY(recorded);
    blob_writer_committed(upload->live.writer);
    upload->row.checkpoint = change.checkpoint;
    upload->live.sequence = change.checkpoint.sequence;
    upload->safe_ms = clock_monotonic_ms();
    return SUCCESS;
}

struct result upload_save(struct upload *upload, struct pg *pg, struct recorder *recorder, struct error *err)
{
    assert(upload->is_claimed && !upload->is_dead);
    if (blob_writer_offset(upload->live.writer) == upload->row.checkpoint.offset) return SUCCESS;
    const struct result saved = save(upload, pg, recorder, err);
    upload->is_dead = !saved.ok;
    return saved;
}

static void sweep_dropped(struct upload *upload, struct pg *pg, const struct dropped_blobs *dropped)
{
    struct abandoned_object object = {0};

    (void)snprintf(object.region, sizeof object.region, "%s", upload->where.region);
    for (size_t i = 0; i < dropped->count; i++) {
        object.blob = dropped->blobs[i];
        (void)upload_sweep(upload->registry, pg, &object);
    }
}

static struct result close_blob(struct upload *upload, struct pg *pg, const struct digest *expected, struct closed_blob *closed,
                                struct error *err)
{
    if (expected->algorithm == DIGEST_SHA512 && upload->row.algorithm != DIGEST_SHA512)
        return upload_close_as_copy(upload, pg, expected, closed, err);
    closed->key = upload->row.key;
    return blob_writer_close(upload->live.writer, expected, &closed->content, err).ok ? SUCCESS : upload_note_loss(upload, err);
}

struct result upload_commit(struct upload *upload, struct pg *pg, const struct digest *expected, struct recorder *recorder,
                            struct error *err)
{
    struct closed_blob closed;
    struct upload_closing closing;
    char note[64];

    upload_check(upload, UPLOAD_CLOSE);
    assert(upload->is_claimed && !upload->is_dead);
    TRY(close_blob(upload, pg, expected, &closed, err));
    upload->is_dead = true; /* closed: the writer can't be used again */
    upload_closing_init(&closing, upload, &closed);
    (void)snprintf(note, sizeof note, "%" PRIu64 " bytes stored", closed.content.length);
    const struct result recorded = upload_record(upload, recorder, OUTCOME_COMPLETED, note, &closing.change, err);
    if (!recorded.ok) upload_note_end(upload, pg, err);
    TRY(recorded);
    blob_writer_committed(upload->live.writer);
    blob_writer_free(GIVE(upload->live.writer));
    sweep_dropped(upload, pg, &closing.dropped);
    return SUCCESS;
}

struct result upload_drop(struct upload *upload, struct pg *pg, const char *note, struct recorder *recorder, struct error *err)
{
    struct abandoned_object object = {.blob = upload->row.blob};
    struct upload_save drop;

    upload_check(upload, UPLOAD_FILL);
    assert(upload->is_claimed || upload->action == ACTION_UPLOAD_BEGIN);
    upload->is_dead = true;
    upload_drop_init(&drop, upload);
    TRY(upload_record(upload, recorder, OUTCOME_FAILED, note, &drop.change, err));
    (void)snprintf(object.region, sizeof object.region, "%s", upload->where.region);
    blob_writer_free(GIVE(upload->live.writer));
    (void)upload_sweep(upload->registry, pg, &object);
    return SUCCESS;
}

void upload_free(struct upload *upload)
{
    if (upload == NULL) return;
    if (upload->is_claimed) {
        /* A writer with unsaved bytes does not match the row, so it is not kept. */
        const bool is_saved = !upload->is_dead && upload->live.writer != NULL &&
                              blob_writer_offset(upload->live.writer) == upload->row.checkpoint.offset;
        if (!is_saved) blob_writer_free(GIVE(upload->live.writer));
        upload_table_give(upload->registry->uploads, &upload->live);
    }
    free(upload);
}
