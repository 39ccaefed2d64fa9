#include "registry/held_manifest_store.h"

#include "base/memory.h"
#include "registry/registry_priv.h"
#include "storage/pg_table.h"

/* clang-format off */
/* Not a copy in a further region: that gets the links of repositories for which it was decided (registry/copies/). */
#define AT_HOME "region_id = (SELECT home_region FROM project JOIN repository USING (project_id) WHERE repository_id = $1)"
/* OFFSET 0: each digest is looked up by its index, also in a plan from the time when the tables were empty. */
static const struct pg_statement held_missing_sql = {
    "held_missing",
    "SELECT n.d, coalesce(b.size_bytes, -1) FROM unnest($2::text[], $3::int8[]) AS n (d, size) LEFT JOIN LATERAL"
    " (SELECT s.size_bytes FROM repository_blob r JOIN LATERAL (SELECT size_bytes, damaged_at FROM blob WHERE blob_id = r.blob_id AND " AT_HOME " OFFSET 0) s"
    " ON s.damaged_at IS NULL WHERE r.repository_id = $1 AND r.digest = n.d LIMIT 1) b ON true"
    " WHERE b.size_bytes IS DISTINCT FROM n.size LIMIT 1",
    "uuid text[] int8[]", "text int8"};
static const struct pg_statement held_insert_sql = {
    "held_insert",
    "WITH made AS (INSERT INTO held_manifest (run_id, attempt, node, name, repository_id, digest, media_type, size_bytes, key_id, sealed)"
    " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING RETURNING run_id, repository_id)"
    " INSERT INTO held_blob (repository_id, digest, run_id) SELECT m.repository_id, d, m.run_id FROM made m, unnest($11::text[]) AS d"
    " ON CONFLICT DO NOTHING",
    "uuid int4 int4 text uuid text text int4 uuid bytea text[]", ""};
static const struct pg_statement held_find_sql = {
    "held_find",
    "SELECT h.name, h.digest, coalesce(r.deleted_name, r.full_name), p.home_region, h.repository_id, k.key_id, k.key_version, k.wrapped_key,"
    " k.commitment, h.sealed, r.deleted_at IS NOT NULL OR p.deleted_at IS NOT NULL, k.region_id FROM held_manifest h JOIN repository r USING (repository_id)"
    " JOIN project p USING (project_id) JOIN project_key k ON k.key_id = h.key_id"
    " WHERE h.run_id = $1 AND h.attempt = CASE WHEN $2 = 0 THEN (SELECT attempt FROM run WHERE run_id = $1) ELSE $2 END AND h.node = $3 AND r.project_id = $4 ORDER BY h.name",
    "uuid int4 int4 uuid", "text text text text uuid uuid int4 bytea bytea bytea bool text"};
static const struct pg_statement held_link_sql = {
    "held_link",
    "INSERT INTO repository_blob AS l (repository_id, digest, blob_id) SELECT DISTINCT $2::uuid, s.digest, s.blob_id FROM unnest($3::text[]) AS d"
    " CROSS JOIN LATERAL (SELECT digest, blob_id FROM repository_blob r WHERE repository_id = $1 AND digest = d"
    " AND EXISTS (SELECT FROM blob WHERE blob_id = r.blob_id AND " AT_HOME ") OFFSET 0) s"
    " ON CONFLICT (repository_id, digest, blob_id) DO UPDATE SET is_pushed = true WHERE NOT l.is_pushed",
    "uuid uuid text[]", ""};
static const struct pg_statement *const statements[] = {&held_missing_sql, &held_insert_sql, &held_find_sql, &held_link_sql};
/* clang-format on */
const struct pg_table held_manifest_statements = PG_TABLE(statements);

void held_blobs_done(struct held_blobs *blobs)
{
    free(blobs->digests);
    free(blobs->sizes);
}

struct result held_blobs_list(const struct manifest *manifest, struct held_blobs *blobs, struct error *err)
{
    blobs->digests = memory_zeroed(manifest->reference_count + 1, sizeof *blobs->digests);
    blobs->sizes = memory_zeroed(manifest->reference_count + 1, sizeof *blobs->sizes);
    if (blobs->digests == NULL || blobs->sizes == NULL)
        return failure(err, ERROR_NO_MEMORY, "no memory for the blobs of a manifest");
    for (size_t i = 0; i < manifest->reference_count; i++) {
        blobs->digests[i] = bytes_of_text(manifest->references[i].digest);
        blobs->sizes[i] = manifest->references[i].size_bytes;
    }
    blobs->count = manifest->reference_count;
    return SUCCESS;
}

struct result held_blobs_check(struct pg *pg, const struct resource *where, const char *what, const struct held_blobs *blobs,
                               struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &where->repository);
    pg_add_text_array(&arguments, blobs->digests, blobs->count);
    pg_add_int8_array(&arguments, blobs->sizes, blobs->count);
    TRY(pg_run(pg, &held_missing_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return SUCCESS;
    if (pg_int8(rows, 0, 1) < 0)
        return failure(err, ERROR_INVALID, "the manifest of %.63s needs the blob %.80s: upload it to %.120s first", what,
                       pg_text(rows, 0, 0), where->name);
    return failure(err, ERROR_INVALID, "the manifest of %.63s states another size of %.80s than its %lld bytes", what,
                   pg_text(rows, 0, 0), (long long)pg_int8(rows, 0, 1));
}

struct result held_row_insert(struct pg *pg, const struct held_key *key, const struct held_manifest *held, struct error *err)
{
    OWNED_HELD_BLOBS blobs = {.count = 0};
    struct pg_arguments arguments = {0};

    TRY(held_blobs_list(held->manifest, &blobs, err));
    TRY(held_blobs_check(pg, &held->where, held->name, &blobs, err));
    pg_add_uuid(&arguments, &key->run);
    pg_add_int4(&arguments, (int32_t)key->attempt);
    pg_add_int4(&arguments, (int32_t)key->node);
    pg_add_text(&arguments, held->name);
    pg_add_uuid(&arguments, &held->where.repository);
    pg_add_text(&arguments, held->digest);
    pg_add_text(&arguments, held->manifest->media_type);
    pg_add_int4(&arguments, (int32_t)held->size_bytes);
    pg_add_uuid(&arguments, &held->key);
    pg_add_bytes(&arguments, buffer_bytes(&held->sealed));
    pg_add_text_array(&arguments, blobs.digests, blobs.count);
    return pg_run(pg, &held_insert_sql, &arguments, NULL, err);
}

struct result held_rows_find(struct pg *pg, const struct held_key *key, const struct uuid *project, struct pg_rows **rows_out,
                             struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, &key->run);
    pg_add_int4(&arguments, (int32_t)key->attempt);
    pg_add_int4(&arguments, (int32_t)key->node);
    pg_add_uuid(&arguments, project);
    return pg_run(pg, &held_find_sql, &arguments, rows_out, err);
}

struct result held_row_read(const struct pg_rows *rows, size_t row, struct held_row *row_out, struct error *err)
{
    struct held_row read = {.name = pg_text(rows, row, 0),
                            .digest = pg_text(rows, row, 1),
                            .full_name = pg_text(rows, row, 2),
                            .region = pg_text(rows, row, 3),
                            .repository = pg_uuid(rows, row, 4),
                            .key = {.id = pg_uuid(rows, row, 5)},
                            .sealed = pg_bytes(rows, row, 9),
                            .is_deleted = pg_bool(rows, row, 10),
                            .key_region = pg_text(rows, row, 11)};

    TRY(key_record_read(rows, row, 6, &read.key, err));
    *row_out = read;
    return SUCCESS;
}

struct result held_links_insert(struct pg *pg, const struct held_links *links, struct error *err)
{
    OWNED_HELD_BLOBS blobs = {.count = 0};
    struct pg_arguments arguments = {0};

    TRY(held_blobs_list(links->manifest, &blobs, err));
    pg_add_uuid(&arguments, &links->from->repository);
    pg_add_uuid(&arguments, &links->to->repository);
    pg_add_text_array(&arguments, blobs.digests, blobs.count);
    return pg_run(pg, &held_link_sql, &arguments, NULL, err);
}
