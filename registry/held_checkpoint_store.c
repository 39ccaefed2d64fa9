/* The tables `run_checkpoint` and `run_checkpoint_blob`, as a registry keeps and gives checkpoints. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "crypto/aead.h"
#include "registry/held_checkpoint.h"
#include "registry/held_manifest_store.h"
#include "registry/key_cache.h"
#include "registry/registry_priv.h"
#include "registry/seal_priv.h"
#include "storage/pg_table.h"

/* clang-format off */
static const struct pg_statement held_checkpoint_insert_sql = {
    "held_checkpoint_insert",
    "WITH made AS (INSERT INTO run_checkpoint (run_id, digest, attempt, key, repository_id, content_bytes, size_bytes, key_id, sealed,"
    " label) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $11) ON CONFLICT (run_id, digest) DO UPDATE SET attempt = excluded.attempt, key = excluded.key,"
    " kept_at = clock_timestamp())"
    " INSERT INTO run_checkpoint_blob (run_id, checkpoint, digest, repository_id) SELECT $1, $2, d, $5 FROM unnest($10::text[]) AS d"
    " ON CONFLICT DO NOTHING",
    "uuid text int4 text uuid int8 int4 uuid bytea text[] text", ""};
/* Runs of the same content may keep the same checkpoint. The one that counts is that of the run which was noted with the request. */
static const struct pg_statement held_checkpoint_find_sql = {
    "held_checkpoint_find",
    "SELECT c.size_bytes, k.key_id, k.key_version, k.wrapped_key, k.commitment, c.sealed, c.run_id, k.region_id FROM run_checkpoint c JOIN run n USING (run_id)"
    " JOIN project_key k USING (key_id) JOIN run_resume u ON u.source = c.run_id AND u.digest = c.digest WHERE c.repository_id = $1 AND c.digest = $2"
    " AND u.run_id = $3 AND n.state <> 'quarantined'",
    "uuid text uuid", "int4 uuid int4 bytea bytea bytea uuid text"};
static const struct pg_statement *const statements[] = {&held_checkpoint_insert_sql, &held_checkpoint_find_sql};
/* clang-format on */
const struct pg_table held_checkpoint_statements = PG_TABLE(statements);

struct result held_checkpoint_insert(const struct permit *permit, struct pg *pg, const struct held_checkpoint *checkpoint,
                                     struct error *err)
{
    const struct manifest_push *push = checkpoint->push;
    struct pg_arguments arguments = {0};
    OWNED_HELD_BLOBS blobs = {.count = 0};

    assert(push->run != NULL && uuid_equal(push->run, &checkpoint->run));
    assert(uuid_equal(&permit_resource(permit, ACTION_RUN_CHECKPOINT)->project, &push->where.project));
    TRY(held_blobs_list(push->manifest, &blobs, err));
    TRY(held_blobs_check(pg, &push->where, "the checkpoint", &blobs, err));
    pg_add_uuid(&arguments, &checkpoint->run);
    pg_add_text(&arguments, push->digest);
    pg_add_int4(&arguments, (int32_t)checkpoint->attempt);
    pg_add_text(&arguments, checkpoint->key);
    pg_add_uuid(&arguments, &push->where.repository);
    pg_add_int8(&arguments, checkpoint->content_bytes);
    pg_add_int4(&arguments, (int32_t)push->size_bytes);
    pg_add_uuid(&arguments, &push->key);
    pg_add_bytes(&arguments, buffer_bytes(&push->sealed));
    pg_add_text_array(&arguments, blobs.digests, blobs.count);
    pg_add_text(&arguments, push->manifest->label);
    return pg_run(pg, &held_checkpoint_insert_sql, &arguments, NULL, err);
}

static struct result open_row(struct registry *registry, const struct pg_rows *rows, const struct manifest_query *query,
                              struct stored_manifest *manifest, struct error *err)
{
    const struct uuid run = pg_uuid(rows, 0, 6);
    struct key_record key = {.id = pg_uuid(rows, 0, 1)};
    struct resource sealed_at = *query->where;

    (void)snprintf(sealed_at.region, sizeof sealed_at.region, "%s",
                   pg_text(rows, 0, 7)); /* another one while a project's home moves */
    TRY(key_record_read(rows, 0, 2, &key, err));
    const struct sealing sealing = {.where = &sealed_at, .digest = query->reference, .key = &key, .run = &run};
    TRY(manifest_unseal(registry, &sealing, pg_bytes(rows, 0, 5), &manifest->body, err));
    const struct digest actual = digest_of(DIGEST_SHA256, buffer_bytes(&manifest->body));
    digest_format(&actual, manifest->digest);
    if (strcmp(manifest->digest, query->reference) != 0)
        return failure(err, ERROR_CORRUPT, "a kept checkpoint does not match its digest");
    return SUCCESS;
}

struct result held_checkpoint_find(const struct permit *permit, struct registry *registry, struct pg *pg,
                                   const struct manifest_query *query, struct stored_manifest **manifest_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;
    OWNED(stored_manifest) *manifest = memory_zeroed(1, sizeof *manifest);

    assert(query->run != NULL);
    permit_require(permit, ACTION_RUN_FETCH, query->where);
    if (manifest == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a checkpoint");
    manifest->body = BUFFER(MANIFEST_SIZE_MAX);
    pg_add_uuid(&arguments, &query->where->repository);
    pg_add_text(&arguments, query->reference);
    pg_add_uuid(&arguments, query->run);
    TRY(pg_run(pg, &held_checkpoint_find_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return failure(err, ERROR_NOT_FOUND, "this repository has no such manifest");
    (void)snprintf(manifest->media_type, sizeof manifest->media_type, "%s", MEDIA_TYPE_IMAGE);
    manifest->size_bytes = (size_t)pg_int8(rows, 0, 0);
    TRY(open_row(registry, rows, query, manifest, err));
    *manifest_out = GIVE(manifest);
    return SUCCESS;
}

struct result held_checkpoint_has(const struct permit *permit, struct registry *registry, struct pg *pg,
                                  const struct manifest_query *query, const char *blob, struct error *err)
{
    OWNED(stored_manifest) *checkpoint = NULL;
    OWNED(manifest) *manifest = NULL;

    TRY(held_checkpoint_find(permit, registry, pg, query, &checkpoint, err));
    TRY(manifest_parse(buffer_bytes(&checkpoint->body), (struct bytes){0}, &manifest, err));
    for (size_t i = 0; i < manifest->reference_count; i++)
        if (strcmp(manifest->references[i].digest, blob) == 0) return SUCCESS;
    return failure(err, ERROR_NOT_FOUND, "the checkpoint has no such blob");
}
