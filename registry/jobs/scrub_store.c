#include "registry/jobs/scrub_store.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "registry/jobs/statements.h"
#include "registry/registry_priv.h"
#include "storage/pg_table.h"

/* clang-format off */
#define BLOBS                                                                                                             \
    "SELECT b.blob_id, b.key_version, b.wrapped_key, b.commitment, b.size_bytes, b.part, b.damaged_at IS NOT NULL,"        \
    " b.digest, p.organisation_id, b.project_id, coalesce(p.deleted_name, o.name || '/' || p.name) FROM blob b JOIN project p USING (project_id)"    \
    " JOIN organisation o USING (organisation_id) WHERE b.region_id = $1 AND b.blob_id "
#define BLOB_TYPES "uuid int4 bytea bytea int8 int8 bool text uuid uuid text"

static const struct pg_statement scrub_blobs_sql = {
    "scrub_blobs", BLOBS "> $2 ORDER BY b.blob_id LIMIT $3", "text uuid int8", BLOB_TYPES};
static const struct pg_statement scrub_blob_sql = {"scrub_blob", BLOBS "= $2", "text uuid", BLOB_TYPES};
static const struct pg_statement scrub_blob_is_there_sql = {
    "scrub_blob_is_there", "SELECT EXISTS (SELECT FROM blob WHERE blob_id = $1 AND digest = $2)", "uuid text", "bool"};
static const struct pg_statement scrub_manifests_sql = {
    "scrub_manifests",
    "SELECT k.key_id, k.key_version, k.wrapped_key, k.commitment, m.size_bytes, m.sealed, m.digest, p.organisation_id,"
    " p.project_id, m.repository_id, coalesce(r.deleted_name, r.full_name) FROM manifest m JOIN project_key k USING (key_id)"
    " JOIN repository r USING (repository_id) JOIN project p ON p.project_id = r.project_id"
    " WHERE k.region_id = $1 AND (m.repository_id, m.digest) > ($2, $3) ORDER BY m.repository_id, m.digest LIMIT $4",
    "text uuid text int8", "uuid int4 bytea bytea int4 bytea text uuid uuid uuid text"};
static const struct pg_statement scrub_total_sql = {
    "scrub_total",
    "SELECT b.blobs + m.manifests, b.bytes + m.bytes FROM (SELECT count(*) AS blobs, coalesce(sum(size_bytes), 0)::int8"
    " AS bytes FROM blob WHERE region_id = $1) b, (SELECT count(*) AS manifests, coalesce(sum(size_bytes), 0)::int8 AS"
    " bytes FROM manifest JOIN project_key USING (key_id) WHERE region_id = $1) m",
    "text", "int8 int8"};
static const struct pg_statement scrub_owners_sql = {
    "scrub_owners", /* the writer of a new blob may still remove extents that it does not need */
    "SELECT b.blob_id IS NOT NULL OR EXISTS (SELECT FROM upload WHERE blob_id = e.id)"
    " OR EXISTS (SELECT FROM abandoned_object WHERE blob_id = e.id) OR EXISTS (SELECT FROM audit_archive WHERE blob_id = e.id),"
    " coalesce(b.part <> e.part AND b.created_at < now() - interval '1 hour', false)"
    " FROM unnest($1::uuid[], $2::int8[]) WITH ORDINALITY AS e (id, part, place) LEFT JOIN blob b ON b.blob_id = e.id"
    " ORDER BY e.place",
    "uuid[] int8[]", "bool bool"};
static const struct pg_statement *const statements[] = {
    &scrub_blobs_sql, &scrub_blob_sql, &scrub_blob_is_there_sql, &scrub_manifests_sql, &scrub_total_sql, &scrub_owners_sql,
};
/* clang-format on */
const struct pg_table scrub_statements = PG_TABLE(statements);

static struct result read_blob(const struct pg_rows *rows, size_t row, const char *region, struct scrub_blob *blob,
                               struct error *err)
{
    *blob = (struct scrub_blob){.where = {.kind = RESOURCE_PROJECT}};
    blob->row.key.id = pg_uuid(rows, row, 0);
    TRY(key_record_read(rows, row, 1, &blob->row.key, err));
    blob->row.content.length = (uint64_t)pg_int8(rows, row, 4);
    blob->row.content.part = (uint32_t)pg_int8(rows, row, 5);
    blob->row.is_damaged = pg_bool(rows, row, 6);
    TRY(digest_parse(bytes_of_text(pg_text(rows, row, 7)), &blob->row.content.digest, err));
    blob->where.organisation = pg_uuid(rows, row, 8);
    blob->where.project = pg_uuid(rows, row, 9);
    (void)snprintf(blob->where.name, sizeof blob->where.name, "%s", pg_text(rows, row, 10));
    (void)snprintf(blob->where.detail, sizeof blob->where.detail, "%s", pg_text(rows, row, 7));
    (void)snprintf(blob->where.region, sizeof blob->where.region, "%s", region);
    return SUCCESS;
}

struct result scrub_blobs(struct pg *pg, const struct scrub_page *page, struct scrub_blob *blobs_out, size_t *count_out,
                          struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_text(&arguments, page->region);
    pg_add_uuid(&arguments, &page->after);
    pg_add_int8(&arguments, (int64_t)page->limit);
    TRY(pg_run(pg, &scrub_blobs_sql, &arguments, &rows, err));
    assert(pg_rows_count(rows) <= page->limit);
    for (size_t i = 0; i < pg_rows_count(rows); i++) TRY(read_blob(rows, i, page->region, &blobs_out[i], err));
    *count_out = pg_rows_count(rows);
    return SUCCESS;
}

struct result scrub_blob_is_there(struct pg *pg, const struct scrub_blob *blob, bool *there_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &blob->row.key.id);
    pg_add_text(&arguments, blob->where.detail);
    TRY(pg_run(pg, &scrub_blob_is_there_sql, &arguments, &rows, err));
    *there_out = pg_bool(rows, 0, 0);
    return SUCCESS;
}

static struct result read_manifest(const struct pg_rows *rows, size_t row, const char *region, struct scrub_manifest *manifest,
                                   struct error *err)
{
    *manifest = (struct scrub_manifest){.where = {.kind = RESOURCE_REPOSITORY}};
    manifest->key.id = pg_uuid(rows, row, 0);
    TRY(key_record_read(rows, row, 1, &manifest->key, err));
    manifest->size_bytes = (size_t)pg_int8(rows, row, 4);
    manifest->sealed = pg_bytes(rows, row, 5);
    manifest->where.organisation = pg_uuid(rows, row, 7);
    manifest->where.project = pg_uuid(rows, row, 8);
    manifest->where.repository = pg_uuid(rows, row, 9);
    (void)snprintf(manifest->where.name, sizeof manifest->where.name, "%s", pg_text(rows, row, 10));
    (void)snprintf(manifest->where.detail, sizeof manifest->where.detail, "%s", pg_text(rows, row, 6));
    (void)snprintf(manifest->where.region, sizeof manifest->where.region, "%s", region);
    return SUCCESS;
}

struct result scrub_manifests_page(struct pg *pg, const struct scrub_page *page, struct scrub_manifest *manifests_out,
                                   struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_text(&arguments, page->region);
    pg_add_uuid(&arguments, &page->after);
    pg_add_text(&arguments, page->after_digest);
    pg_add_int8(&arguments, (int64_t)page->limit);
    TRY(pg_run(pg, &scrub_manifests_sql, &arguments, &rows, err));
    assert(pg_rows_count(rows) <= page->limit);
    for (size_t i = 0; i < pg_rows_count(rows); i++) TRY(read_manifest(rows, i, page->region, &manifests_out[i], err));
    *rows_out = GIVE(rows);
    return SUCCESS;
}

struct result scrub_total(struct pg *pg, const char *region, struct job *job, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_text(&arguments, region);
    TRY(pg_run(pg, &scrub_total_sql, &arguments, &rows, err));
    job->total = (uint64_t)pg_int8(rows, 0, 0);
    job->total_bytes = (uint64_t)pg_int8(rows, 0, 1);
    return SUCCESS;
}

struct result scrub_owners(struct pg *pg, const struct driver_entry *entries, size_t count, struct scrub_owner *owners_out,
                           struct error *err)
{
    struct bytes ids[SCRUB_BATCH];
    int64_t parts[SCRUB_BATCH];
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    assert(count <= SCRUB_BATCH);
    for (size_t i = 0; i < count; i++) {
        ids[i] = uuid_bytes(&entries[i].blob);
        parts[i] = entries[i].is_extent ? (int64_t)entries[i].part : -1; /* -1: no extent has this number */
    }
    pg_add_uuid_array(&arguments, ids, count);
    pg_add_int8_array(&arguments, parts, count);
    TRY(pg_run(pg, &scrub_owners_sql, &arguments, &rows, err));
    assert(pg_rows_count(rows) == count);
    for (size_t i = 0; i < count; i++)
        owners_out[i] = (struct scrub_owner){.is_known = pg_bool(rows, i, 0), .is_beside = pg_bool(rows, i, 1)};
    return SUCCESS;
}

struct result scrub_blob_find(struct pg *pg, const char *region, const struct uuid *id, struct scrub_blob *blob_out,
                              bool *found_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_text(&arguments, region);
    pg_add_uuid(&arguments, id);
    TRY(pg_run(pg, &scrub_blob_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 1) TRY(read_blob(rows, 0, region, blob_out, err));
    *found_out = pg_rows_count(rows) == 1;
    return SUCCESS;
}
