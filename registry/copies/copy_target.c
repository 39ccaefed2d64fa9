#include "registry/copies/copy_target.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "registry/copies/copies.h"
#include "registry/registry_priv.h"
#include "registry/upload/abandoned_store.h"

struct copy_target {
    struct registry *registry;
    struct resource where;
    struct digest digest;
    struct copying_row row;
    struct secret *key;
    struct blob_writer *writer;
    struct blob_content content; /* once it is closed */
};

static struct result new_key(struct copy_target *target, struct blob_store *blobs, struct error *err)
{
    const struct key_scope scope = registry_key_scope(&target->where);
    const struct blob_identity identity = blob_identity_new(blobs, &target->where.project);
    struct key_record *record = &target->row.key;

    TRY(secret_random(DATA_KEY_SIZE, &target->key, err));
    *record = (struct key_record){.id = identity.blob};
    TRY(blob_commitment(&identity, target->key, record->commitment, err));
    const struct key_binding binding = key_binding_of(&scope, &record->id, record->commitment);
    return keyd_wrap(target->registry->keyd, &binding, target->key, &record->wrapped, err);
}

static struct result unwrap(struct copy_target *target, struct error *err)
{
    const struct key_scope scope = registry_key_scope(&target->where);
    const struct key_binding binding = key_binding_of(&scope, &target->row.key.id, target->row.key.commitment);

    return keyd_unwrap(target->registry->keyd, &binding, &target->row.key.wrapped, &target->key, err);
}

static struct result open_writer(struct copy_target *target, struct blob_store *blobs, struct error *err)
{
    const struct blob_checkpoint *from = &target->row.checkpoint;
    struct blob_upload session = {.upload = target->row.key.id,
                                  .identity = {.blob = target->row.key.id, .project = target->where.project},
                                  .writer_epoch = target->row.writer_epoch,
                                  .with_sha512 = target->digest.algorithm == DIGEST_SHA512};

    (void)snprintf(session.identity.region, sizeof session.identity.region, "%s", target->where.region);
    return blob_writer_open(blobs, &session, target->key, from->sequence == 0 ? NULL : from, &target->writer, err);
}

static struct result begin_anew(struct copy_target *target, struct pg *pg, struct blob_store *blobs, struct error *err)
{
    TRY(new_key(target, blobs, err));
    TRY(abandoned_reserve(pg, &target->row.key.id, target->where.region, err));
    TRY(copying_insert(pg, &target->where, &target->row, err));
    return open_writer(target, blobs, err);
}

/* A checkpoint that does not verify, or a key that was rotated away: what an earlier writer left is of no use. */
static bool is_useless(const struct error *why)
{
    return why->kind == ERROR_CORRUPT || why->kind == ERROR_NOT_FOUND || why->kind == ERROR_INVALID;
}

static struct result go_on(struct copy_target *target, struct pg *pg, struct blob_store *blobs, struct error *err)
{
    struct error why = {0};
    struct result result = unwrap(target, &why);

    if (result.ok) result = open_writer(target, blobs, &why);
    if (result.ok) return SUCCESS;
    if (!is_useless(&why)) return failure(err, why.kind, "%s", why.message);
    copy_target_drop(target, target->registry, pg);
    secret_free(GIVE(target->key));
    target->row = (struct copying_row){.writer_epoch = 1};
    return begin_anew(target, pg, blobs, err);
}

struct result copy_target_begin(const struct permit *permit, struct registry *registry, struct pg *pg,
                                const struct copy_destination *destination, struct copy_target **target_out, struct error *err)
{
    const struct resource *where = &destination->where;
    struct blob_store *blobs = NULL;
    bool is_there = false;

    permit_require(permit, destination->action, where);
    permit_require_detail(permit, destination->action, where->detail);
    OWNED(copy_target) *target = memory_zeroed(1, sizeof *target);
    if (target == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a copy");
    target->registry = registry;
    target->where = *where;
    target->row.writer_epoch = 1;
    TRY(digest_parse(bytes_of_text(where->detail), &target->digest, err));
    TRY(registry_blobs(registry, where->region, &blobs, err));
    TRY(copying_claim(pg, where, &target->row, &is_there, err));
    TRY(is_there ? go_on(target, pg, blobs, err) : begin_anew(target, pg, blobs, err));
    *target_out = GIVE(target);
    return SUCCESS;
}

uint64_t copy_target_offset(const struct copy_target *target)
{
    return blob_writer_offset(target->writer);
}

struct result copy_target_save(struct copy_target *target, struct pg *pg, struct error *err)
{
    TRY(blob_writer_checkpoint(target->writer, &target->row.checkpoint, err));
    TRY(copying_save(pg, &target->row, err));
    blob_writer_committed(target->writer);
    return SUCCESS;
}

struct result copy_target_write(struct copy_target *target, struct pg *pg, struct bytes content, struct error *err)
{
    if (blob_writer_is_checkpoint_due(target->writer)) TRY(copy_target_save(target, pg, err));
    return blob_writer_write(target->writer, content, err);
}

struct result copy_target_close(struct copy_target *target, struct error *err)
{
    return blob_writer_close(target->writer, &target->digest, &target->content, err);
}

/* Wraps the key again: a re-wrap that ran meanwhile did not find a row of it among the blobs. */
struct result copy_target_commit(struct copy_target *target, struct copy_commit *commit, struct error *err)
{
    const struct key_scope scope = registry_key_scope(&target->where);
    struct key_record *record = &target->row.key;
    const struct key_binding binding = key_binding_of(&scope, &record->id, record->commitment);

    TRY(keyd_wrap(target->registry->keyd, &binding, target->key, &record->wrapped, err));
    commit->where = &target->where;
    commit->fresh = (struct blob_row){.key = *record, .content = target->content};
    commit->writer_epoch = target->row.writer_epoch;
    return SUCCESS;
}

void copy_target_committed(struct copy_target *target)
{
    blob_writer_committed(target->writer);
}

void copy_target_drop(struct copy_target *target, struct registry *registry, struct pg *pg)
{
    struct abandoned_object object = {.blob = target->row.key.id};
    struct error ignored = {0}; /* the sweep tries again */

    (void)snprintf(object.region, sizeof object.region, "%s", target->where.region);
    blob_writer_free(GIVE(target->writer));
    if (copying_delete(pg, &object.blob, target->row.writer_epoch, &ignored).ok) (void)upload_sweep(registry, pg, &object);
}

void copy_target_free(struct copy_target *target)
{
    if (target == NULL) return;
    blob_writer_free(target->writer);
    secret_free(target->key);
    free(target);
}
