#include "registry/jobs/rewrap_store.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "registry/jobs/statements.h"
#include "registry/registry_priv.h"
#include "storage/pg_table.h"

/* clang-format off */
#define KEYS(columns) \
    "SELECT " columns ", k.key_version, k.wrapped_key, k.commitment, p.organisation_id, p.project_id, k.region_id FROM "
/* Keys under the main sijil-keyd, or under that of one region. */
#define OF_RING(ring) "CASE " ring " WHEN '' THEN r.keyd IS NULL ELSE r.region_id = " ring " END"
#define OF_PROJECT(id)                                                                                                      \
    " k JOIN project p USING (project_id) JOIN region r ON r.region_id = k.region_id WHERE k.key_version < $1 AND k." id    \
    " > $2 AND " OF_RING("$4") " ORDER BY k." id " LIMIT $3"
#define KEY_TYPES "uuid uuid int4 bytea bytea uuid uuid text"
/* SKIP LOCKED: waiting for the holder of a row could deadlock, because the holder may wait for another row of this statement. */
#define REPLACE(table, id)                                                                                             \
    "WITH free AS (SELECT " id " AS id FROM " table " WHERE " id " = ANY($1) ORDER BY " id " FOR NO KEY UPDATE SKIP LOCKED)" \
    " UPDATE " table " t SET key_version = $4, wrapped_key = n.fresh FROM free,"                                       \
    " unnest($1::uuid[], $2::bytea[], $3::bytea[]) AS n (id, old, fresh)"                                              \
    " WHERE t." id " = free.id AND n.id = free.id AND t.wrapped_key = n.old"
#define REPLACE_TYPES "uuid[] bytea[] bytea[] int4"

static const struct pg_statement rewrap_blobs_sql = {
    "rewrap_blobs", KEYS("k.blob_id, k.blob_id") "blob" OF_PROJECT("blob_id"), "int4 uuid int8 text", KEY_TYPES};
static const struct pg_statement rewrap_projects_sql = {
    "rewrap_projects", KEYS("k.key_id, k.key_id") "project_key" OF_PROJECT("key_id"), "int4 uuid int8 text", KEY_TYPES};
/* With those of the pieces of logs of runs (registry/upload/piece.h). */
static const struct pg_statement rewrap_uploads_sql = {
    "rewrap_uploads",
    KEYS("k.upload_id, k.blob_id") "(SELECT upload_id, blob_id, project_id, region_id, key_version, wrapped_key, commitment FROM upload"
    " UNION ALL SELECT blob_id, blob_id, project_id, region_id, key_version, wrapped_key, commitment FROM run_log_piece)" OF_PROJECT("upload_id"),
    "int4 uuid int8 text", KEY_TYPES};
static const struct pg_statement rewrap_replace_blobs_sql = {
    "rewrap_replace_blobs", REPLACE("blob", "blob_id"), REPLACE_TYPES, ""};
static const struct pg_statement rewrap_replace_projects_sql = {
    "rewrap_replace_projects", REPLACE("project_key", "key_id"), REPLACE_TYPES, ""};
static const struct pg_statement rewrap_replace_uploads_sql = {
    "rewrap_replace_uploads",
    "WITH uploads AS (" REPLACE("upload", "upload_id") " RETURNING 1), pieces AS (" REPLACE("run_log_piece", "blob_id") " RETURNING 1)"
    " SELECT 1 FROM uploads UNION ALL SELECT 1 FROM pieces",
    REPLACE_TYPES, "int4"};
static const struct pg_statement rewrap_count_sql = {
    "rewrap_count",
    "SELECT key_version, sum(b)::int8, sum(p)::int8, sum(u)::int8 FROM"
    " (SELECT region_id, key_version, 1 AS b, 0 AS p, 0 AS u FROM blob UNION ALL SELECT region_id, key_version, 0, 1, 0 FROM project_key"
    " UNION ALL SELECT region_id, key_version, 0, 0, 1 FROM upload UNION ALL SELECT region_id, key_version, 0, 0, 1 FROM run_log_piece) AS keys"
    " JOIN region r USING (region_id) WHERE " OF_RING("$1") " GROUP BY key_version ORDER BY key_version",
    "text", "int4 int8 int8 int8"};
static const struct pg_statement *const statements[] = {
    &rewrap_blobs_sql, &rewrap_projects_sql, &rewrap_uploads_sql, &rewrap_replace_blobs_sql, &rewrap_replace_projects_sql,
    &rewrap_replace_uploads_sql, &rewrap_count_sql,
};
const struct pg_table rewrap_statements = PG_TABLE(statements);

static const struct pg_statement *const listing[] = {&rewrap_blobs_sql, &rewrap_projects_sql, &rewrap_uploads_sql};
static const struct pg_statement *const replacing[] = {&rewrap_replace_blobs_sql, &rewrap_replace_projects_sql, &rewrap_replace_uploads_sql};
/* clang-format on */

static struct result read_key(const struct pg_rows *rows, size_t row, struct rewrap_key *key, struct error *err)
{
    *key = (struct rewrap_key){.row = pg_uuid(rows, row, 0), .record = {.id = pg_uuid(rows, row, 1)}};
    TRY(key_record_read(rows, row, 2, &key->record, err));
    key->scope.organisation = pg_uuid(rows, row, 5);
    key->scope.project = pg_uuid(rows, row, 6);
    (void)snprintf(key->scope.region, sizeof key->scope.region, "%s", pg_text(rows, row, 7));
    return SUCCESS;
}

struct result rewrap_keys(struct pg *pg, const struct rewrap_page *page, struct rewrap_key *keys_out, size_t *count_out,
                          struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_int4(&arguments, (int32_t)page->version);
    pg_add_uuid(&arguments, &page->after);
    pg_add_int8(&arguments, (int64_t)page->limit);
    pg_add_text(&arguments, page->ring);
    TRY(pg_run(pg, listing[page->table], &arguments, &rows, err));
    assert(pg_rows_count(rows) <= page->limit);
    for (size_t i = 0; i < pg_rows_count(rows); i++) TRY(read_key(rows, i, &keys_out[i], err));
    *count_out = pg_rows_count(rows);
    return SUCCESS;
}

struct result rewrap_replace(struct pg *pg, enum key_table table, const struct rewrap_key *keys, size_t count,
                             uint64_t *changed_out, struct error *err)
{
    struct bytes ids[REWRAP_BATCH], old[REWRAP_BATCH], fresh[REWRAP_BATCH];
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    assert(count > 0 && count <= REWRAP_BATCH);
    for (size_t i = 0; i < count; i++) {
        ids[i] = uuid_bytes(&keys[i].row);
        old[i] = (struct bytes){keys[i].record.wrapped.bytes, keys[i].record.wrapped.length};
        fresh[i] = (struct bytes){keys[i].fresh.bytes, keys[i].fresh.length};
    }
    pg_add_uuid_array(&arguments, ids, count);
    pg_add_bytes_array(&arguments, old, count);
    pg_add_bytes_array(&arguments, fresh, count);
    pg_add_int4(&arguments, (int32_t)keys[0].fresh.version);
    TRY(pg_run(pg, replacing[table], &arguments, &rows, err));
    *changed_out = (uint64_t)pg_rows_affected(rows);
    return SUCCESS;
}

struct result job_count_keys(const struct permit *permit, struct pg *pg, struct key_count counts_out[KEY_COUNTS_MAX],
                             size_t *count_out, struct error *err)
{
    (void)permit_resource(permit, ACTION_JOB_READ);
    return rewrap_count(pg, "", counts_out, count_out, err);
}

struct result rewrap_count(struct pg *pg, const char *ring, struct key_count counts_out[KEY_COUNTS_MAX], size_t *count_out,
                           struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_text(&arguments, ring);
    TRY(pg_run(pg, &rewrap_count_sql, &arguments, &rows, err));
    const size_t count = pg_rows_count(rows);
    if (count > KEY_COUNTS_MAX) return failure(err, ERROR_LIMIT, "keys stand under %zu versions", count);
    for (size_t i = 0; i < count; i++) {
        counts_out[i].version = (uint32_t)pg_int8(rows, i, 0);
        for (size_t t = 0; t < KEY_TABLE_COUNT; t++) counts_out[i].keys[t] = (uint64_t)pg_int8(rows, i, 1 + t);
    }
    *count_out = count;
    return SUCCESS;
}
