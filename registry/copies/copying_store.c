#include "registry/copies/copying_store.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "registry/copies/copies.h"
#include "registry/quota_store.h"
#include "registry/registry_priv.h"
#include "storage/pg_table.h"

/* clang-format off */
#define ITEMS "b.blob_id, b.key_version, b.wrapped_key, b.commitment, b.size_bytes, b.part, b.digest, b.created_at"
#define ITEM_TYPES "uuid int4 bytea bytea int8 int8 text timestamptz bool bool bool"
#define ROW "blob_id, key_version, wrapped_key, commitment, writer_epoch, sequence, offset_bytes, checkpoint_epoch, checkpoint_digest"
/* A read that found the row before its deletion needs a moment until it has opened the files. */
#define GRACE "interval '30 seconds'"
/* The repositories that have the blob at home; of deleted ones nothing is copied. */
#define LINKS_OF(blob) \
    "(SELECT r.repository_id, r.is_pushed, r.is_held, p.full_name FROM repository_blob r JOIN repository p USING (repository_id)" \
    " WHERE r.blob_id = " blob " AND p.deleted_at IS NULL)"

/* What no manifest refers to has no label of its own yet: its push may still be refused, or bring a stricter label. It is copied only where the push will go on. */
static const struct pg_statement copy_missing_sql = {
    "copy_missing",
    "SELECT " ITEMS ", EXISTS (SELECT FROM copying w WHERE w.project_id = $1 AND w.region_id = $3 AND w.digest = b.digest), false, false"
    " FROM blob b WHERE b.project_id = $1 AND b.region_id = $2 AND b.digest > $4 AND b.damaged_at IS NULL"
    " AND NOT EXISTS (SELECT FROM blob c WHERE c.project_id = $1 AND c.region_id = $3 AND c.digest = b.digest)"
    " AND (EXISTS (SELECT FROM repository_blob r JOIN manifest_reference m ON m.repository_id = r.repository_id AND m.digest = r.digest"
    " AND NOT m.is_manifest WHERE r.blob_id = b.blob_id) OR ($6 AND EXISTS (SELECT FROM repository_blob r JOIN repository p USING (repository_id)"
    " WHERE r.blob_id = b.blob_id AND p.deleted_at IS NULL))) ORDER BY b.digest LIMIT $5",
    "uuid text text text int8 bool", ITEM_TYPES};
static const struct pg_statement copy_present_sql = {
    "copy_present",
    "SELECT " ITEMS ", false, b.damaged_at IS NOT NULL AND EXISTS (SELECT FROM blob h WHERE h.project_id = $1 AND h.region_id = $5"
    " AND h.digest = b.digest AND h.damaged_at IS NULL), b.damaged_at IS NULL AND EXISTS (SELECT FROM blob h WHERE h.project_id = $1 AND h.region_id = $5"
    " AND h.digest = b.digest AND h.damaged_at IS NOT NULL) AND NOT EXISTS (SELECT FROM blob o WHERE o.project_id = $1 AND o.digest = b.digest"
    " AND o.blob_id <> b.blob_id AND o.damaged_at IS NULL) FROM blob b WHERE b.project_id = $1 AND b.region_id = $2 AND b.digest > $3"
    " ORDER BY b.digest LIMIT $4",
    "uuid text text int8 text", ITEM_TYPES};
/* A home does not move by this way. */
static const struct pg_statement copy_lent_sql = {
    "copy_lent",
    "SELECT " ITEMS ", false, b.damaged_at IS NOT NULL, false, p.organisation_id, o.name || '/' || p.name, p.home_region FROM project p"
    " JOIN organisation o USING (organisation_id) JOIN project_copy c ON c.project_id = p.project_id AND c.region_id = $2 AND c.withdrawn_at IS NULL"
    " AND c.move IS DISTINCT FROM 'to' JOIN blob b ON b.project_id = p.project_id AND b.region_id = p.home_region AND b.digest = $3 WHERE p.project_id = $1 AND p.deleted_at IS NULL"
    " AND EXISTS (SELECT FROM repository_blob r JOIN manifest_reference m ON m.repository_id = r.repository_id AND m.digest = r.digest"
    " AND NOT m.is_manifest WHERE r.blob_id = b.blob_id)",
    "uuid text text", ITEM_TYPES " uuid text text"};
static const struct pg_statement copy_links_sql = {
    "copy_links",
    "WITH here AS (SELECT h.blob_id AS home, c.blob_id AS copy FROM (SELECT 1) one"
    " LEFT JOIN blob h ON h.project_id = $1 AND h.region_id = $2 AND h.digest = $4"
    " LEFT JOIN blob c ON c.project_id = $1 AND c.region_id = $3 AND c.digest = $4)"
    " SELECT l.repository_id, l.full_name, EXISTS (SELECT FROM repository_blob k WHERE k.repository_id = l.repository_id AND k.digest = $4"
    " AND k.blob_id = here.copy) FROM here CROSS JOIN LATERAL " LINKS_OF("coalesce(here.home, here.copy)") " l"
    " ORDER BY l.full_name LIMIT $5",
    "uuid text text text int8", "uuid text bool"};
static const struct pg_statement copying_claim_sql = {
    "copying_claim",
    "UPDATE copying SET writer_epoch = writer_epoch + 1 WHERE project_id = $1 AND region_id = $2 AND digest = $3 RETURNING " ROW,
    "uuid text text", "uuid int4 bytea bytea int8 int8 int8 int8 bytea"};
static const struct pg_statement copying_insert_sql = {
    "copying_insert",
    "INSERT INTO copying (blob_id, project_id, region_id, digest, key_version, wrapped_key, commitment) VALUES ($1, $2, $3, $4, $5, $6, $7)"
    " ON CONFLICT DO NOTHING",
    "uuid uuid text text int4 bytea bytea", ""};
/* The object stays reserved for another day. */
static const struct pg_statement copying_save_sql = {
    "copying_save",
    "WITH kept AS (UPDATE abandoned_object SET abandoned_at = now() + interval '1 day' WHERE blob_id = $1)"
    " UPDATE copying SET sequence = $3, offset_bytes = $4, checkpoint_epoch = $5, checkpoint_digest = $6 WHERE blob_id = $1 AND writer_epoch = $2",
    "uuid int8 int8 int8 int8 bytea", ""};
static const struct pg_statement copying_delete_sql = {
    "copying_delete",
    "WITH gone AS (DELETE FROM copying WHERE blob_id = $1 AND writer_epoch = $2 RETURNING blob_id)"
    " UPDATE abandoned_object a SET abandoned_at = now() FROM gone WHERE a.blob_id = gone.blob_id",
    "uuid int8", ""};
#define DELETE_ALL_THAT(condition)                                                                                   \
    "WITH gone AS (DELETE FROM copying c WHERE c.project_id = $1 AND c.region_id = $2" condition " RETURNING c.blob_id)" \
    " UPDATE abandoned_object a SET abandoned_at = now() FROM gone WHERE a.blob_id = gone.blob_id"
static const struct pg_statement copying_delete_all_sql = {"copying_delete_all", DELETE_ALL_THAT(""), "uuid text", ""};
static const struct pg_statement copying_delete_one_sql = {
    "copying_delete_one", DELETE_ALL_THAT(" AND c.digest = $3"), "uuid text text", ""};
static const struct pg_statement copying_delete_unwanted_sql = {
    "copying_delete_unwanted",
    DELETE_ALL_THAT(" AND NOT EXISTS (SELECT FROM blob b JOIN repository_blob r USING (blob_id) JOIN repository p USING (repository_id)"
                    " LEFT JOIN manifest_reference m ON m.repository_id = r.repository_id AND m.digest = r.digest AND NOT m.is_manifest"
                    " WHERE b.project_id = $1 AND b.region_id = $3 AND b.digest = c.digest AND p.deleted_at IS NULL AND ($4 OR m.digest IS NOT NULL))"),
    "uuid text text bool", ""};
static const struct pg_statement copy_commit_sql = {
    "copy_commit", /* $11: the repositories that were decided */
    "WITH source AS (SELECT blob_id, lease_until FROM blob WHERE blob_id = $10 FOR KEY SHARE), links AS " LINKS_OF("$10") ","
    " ended AS (DELETE FROM copying WHERE blob_id = $1 AND writer_epoch = $2 AND EXISTS (SELECT FROM source)"
    " AND (SELECT count(*) = cardinality($11) AND bool_and(repository_id = ANY($11)) FROM links)"
    " AND EXISTS (SELECT FROM project_copy WHERE project_id = $3 AND region_id = $4 AND withdrawn_at IS NULL) RETURNING blob_id),"
    " kept AS (INSERT INTO blob (blob_id, project_id, region_id, digest, size_bytes, part, key_version, wrapped_key, commitment, lease_until)"
    " SELECT e.blob_id, $3, $4, $5, $6, $7, $8, $9, $12, CASE WHEN $13 THEN s.lease_until ELSE now() END FROM ended e, source s ON CONFLICT DO NOTHING RETURNING blob_id),"
    " linked AS (INSERT INTO repository_blob (repository_id, digest, blob_id, is_pushed, is_held)"
    " SELECT l.repository_id, $5, k.blob_id, l.is_pushed, l.is_held FROM kept k, links l),"
    " counted AS (UPDATE project_quota q SET bytes_used = q.bytes_used + $6 FROM kept WHERE q.project_id = $3"
    " RETURNING q.bytes_max IS NULL OR q.bytes_used <= q.bytes_max AS fits),"
    " used AS (DELETE FROM abandoned_object a USING kept WHERE a.blob_id = kept.blob_id)"
    " SELECT count(*), (SELECT fits FROM counted) IS NOT FALSE FROM kept",
    "uuid int8 uuid text text int8 int8 int4 bytea uuid uuid[] bytea bool", "int8 bool"};
static const struct pg_statement copy_link_sql = {
    "copy_link",
    "INSERT INTO repository_blob (repository_id, digest, blob_id, is_pushed, is_held) SELECT r.repository_id, r.digest, c.blob_id, r.is_pushed,"
    " r.is_held FROM blob c JOIN blob h ON h.project_id = c.project_id AND h.digest = c.digest AND h.region_id = $2"
    " JOIN repository_blob r ON r.blob_id = h.blob_id AND r.repository_id = $3 AND r.digest = $4 WHERE c.blob_id = $1 ON CONFLICT DO NOTHING",
    "uuid text uuid text", ""};
static const struct pg_statement copy_withdraw_sql = {
    "copy_withdraw", /* as a collection removes a blob (registry/jobs/collect_store.c) */
    "WITH doomed AS (SELECT b.blob_id, b.region_id, b.project_id, b.size_bytes FROM blob b JOIN project p USING (project_id)"
    " WHERE b.blob_id = $1 AND b.region_id <> p.home_region FOR UPDATE OF b),"
    " unlinked AS (DELETE FROM repository_blob r USING doomed d WHERE r.blob_id = d.blob_id),"
    " gone AS (DELETE FROM blob b USING doomed d WHERE b.blob_id = d.blob_id),"
    " counted AS (UPDATE project_quota q SET bytes_used = q.bytes_used - d.size_bytes FROM doomed d WHERE q.project_id = d.project_id)"
    " INSERT INTO abandoned_object (blob_id, region_id, abandoned_at) SELECT blob_id, region_id, now() + " GRACE " FROM doomed",
    "uuid", ""};
static const struct pg_statement copy_has_room_sql = {
    "copy_has_room",
    "SELECT NOT EXISTS (SELECT FROM project_quota WHERE project_id = $1 AND bytes_used + $2 > bytes_max)", "uuid int8", "bool"};
static const struct pg_statement *const statements[] = {
    &copy_missing_sql, &copy_present_sql, &copy_lent_sql, &copy_links_sql, &copying_claim_sql, &copying_insert_sql, &copying_save_sql, &copying_delete_sql,
    &copying_delete_all_sql, &copying_delete_one_sql, &copying_delete_unwanted_sql, &copy_commit_sql, &copy_link_sql, &copy_withdraw_sql, &copy_has_room_sql,
};
/* clang-format on */
const struct pg_table copying_statements = PG_TABLE(statements);

static struct result read_items(const struct pg_rows *rows, struct copy_item *items, size_t *count_out, struct error *err)
{
    assert(pg_rows_count(rows) <= COPY_PAGE_MAX);
    for (size_t i = 0; i < pg_rows_count(rows); i++) {
        struct copy_item *item = &items[i];
        *item = (struct copy_item){.row = {.key = {.id = pg_uuid(rows, i, 0)}},
                                   .created_ms = pg_time_ms(rows, i, 7),
                                   .is_begun = pg_bool(rows, i, 8),
                                   .is_damaged = pg_bool(rows, i, 9),
                                   .is_last_sound = pg_bool(rows, i, 10)};
        TRY(key_record_read(rows, i, 1, &item->row.key, err));
        item->row.content.length = (uint64_t)pg_int8(rows, i, 4);
        item->row.content.part = (uint32_t)pg_int8(rows, i, 5);
        (void)snprintf(item->digest, sizeof item->digest, "%s", pg_text(rows, i, 6));
        TRY(digest_parse(bytes_of_text(item->digest), &item->row.content.digest, err));
    }
    *count_out = pg_rows_count(rows);
    return SUCCESS;
}

struct result copy_missing(struct pg *pg, const struct copy_way *way, const char *after,
                           struct copy_item items_out[COPY_PAGE_MAX], size_t *count_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &way->project);
    pg_add_text(&arguments, way->from);
    pg_add_text(&arguments, way->to);
    pg_add_text(&arguments, after);
    pg_add_int8(&arguments, COPY_PAGE_MAX);
    pg_add_bool(&arguments, way->is_move);
    TRY(pg_run(pg, &copy_missing_sql, &arguments, &rows, err));
    return read_items(rows, items_out, count_out, err);
}

struct result copy_present(struct pg *pg, const struct copy_way *way, const char *after,
                           struct copy_item items_out[COPY_PAGE_MAX], size_t *count_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &way->project);
    pg_add_text(&arguments, way->to);
    pg_add_text(&arguments, after);
    pg_add_int8(&arguments, COPY_PAGE_MAX);
    pg_add_text(&arguments, way->from);
    TRY(pg_run(pg, &copy_present_sql, &arguments, &rows, err));
    return read_items(rows, items_out, count_out, err);
}

struct result copy_lent_find(struct pg *pg, const struct copy_request *request, struct copy_way *way_out,
                             struct copy_item *item_out, bool *found_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;
    size_t count = 0;

    pg_add_uuid(&arguments, &request->project);
    pg_add_text(&arguments, request->to);
    pg_add_text(&arguments, request->digest);
    TRY(pg_run(pg, &copy_lent_sql, &arguments, &rows, err));
    TRY(read_items(rows, item_out, &count, err));
    *found_out = count > 0;
    if (count == 0) return SUCCESS;
    *way_out = (struct copy_way){.organisation = pg_uuid(rows, 0, 11), .project = request->project};
    (void)snprintf(way_out->name, sizeof way_out->name, "%s", pg_text(rows, 0, 12));
    (void)snprintf(way_out->from, sizeof way_out->from, "%s", pg_text(rows, 0, 13));
    (void)snprintf(way_out->to, sizeof way_out->to, "%s", request->to);
    return SUCCESS;
}

struct result copy_links_find(struct pg *pg, const struct copy_way *way, const char *digest, struct copy_links *links_out,
                              struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &way->project);
    pg_add_text(&arguments, way->from);
    pg_add_text(&arguments, way->to);
    pg_add_text(&arguments, digest);
    pg_add_int8(&arguments, COPY_LINKS_MAX + 1);
    TRY(pg_run(pg, &copy_links_sql, &arguments, &rows, err));
    links_out->count = pg_rows_count(rows);
    for (size_t i = 0; i < links_out->count; i++) {
        struct copy_link *link = &links_out->links[i];
        *link = (struct copy_link){.repository = pg_uuid(rows, i, 0), .is_copied = pg_bool(rows, i, 2)};
        (void)snprintf(link->name, sizeof link->name, "%s", pg_text(rows, i, 1));
    }
    return SUCCESS;
}

static struct result no_writer(struct error *err)
{
    return failure(err, ERROR_CONFLICT, "another gateway writes this copy now");
}

struct result copying_claim(struct pg *pg, const struct resource *where, struct copying_row *row_out, bool *there_out,
                            struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    *there_out = false;
    pg_add_uuid(&arguments, &where->project);
    pg_add_text(&arguments, where->region);
    pg_add_text(&arguments, where->detail);
    TRY(pg_run(pg, &copying_claim_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return SUCCESS;
    struct copying_row row = {.key = {.id = pg_uuid(rows, 0, 0)}, .writer_epoch = (uint64_t)pg_int8(rows, 0, 4)};
    TRY(key_record_read(rows, 0, 1, &row.key, err));
    row.checkpoint.sequence = (uint64_t)pg_int8(rows, 0, 5);
    row.checkpoint.offset = (uint64_t)pg_int8(rows, 0, 6);
    row.checkpoint.writer_epoch = (uint64_t)pg_int8(rows, 0, 7);
    if (row.checkpoint.sequence > 0) {
        const struct bytes digest = pg_bytes(rows, 0, 8);
        if (digest.length != SHA256_SIZE) return failure(err, ERROR_CORRUPT, "a checkpoint's digest of %zu bytes", digest.length);
        memcpy(row.checkpoint.digest, digest.data, SHA256_SIZE);
    }
    *row_out = row;
    *there_out = true;
    return SUCCESS;
}

struct result copying_insert(struct pg *pg, const struct resource *where, const struct copying_row *row, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &row->key.id);
    pg_add_uuid(&arguments, &where->project);
    pg_add_text(&arguments, where->region);
    pg_add_text(&arguments, where->detail);
    key_record_add(&arguments, &row->key);
    TRY(pg_run(pg, &copying_insert_sql, &arguments, &rows, err));
    return pg_rows_affected(rows) == 1 ? SUCCESS : no_writer(err);
}

struct result copying_save(struct pg *pg, const struct copying_row *row, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &row->key.id);
    pg_add_int8(&arguments, (int64_t)row->writer_epoch);
    pg_add_int8(&arguments, (int64_t)row->checkpoint.sequence);
    pg_add_int8(&arguments, (int64_t)row->checkpoint.offset);
    pg_add_int8(&arguments, (int64_t)row->checkpoint.writer_epoch);
    pg_add_bytes(&arguments, (struct bytes){row->checkpoint.digest, SHA256_SIZE});
    TRY(pg_run(pg, &copying_save_sql, &arguments, &rows, err));
    return pg_rows_affected(rows) == 1 ? SUCCESS : no_writer(err);
}

struct result copying_delete(struct pg *pg, const struct uuid *blob, uint64_t writer_epoch, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, blob);
    pg_add_int8(&arguments, (int64_t)writer_epoch);
    TRY(pg_run(pg, &copying_delete_sql, &arguments, &rows, err));
    return pg_rows_affected(rows) == 1 ? SUCCESS : no_writer(err);
}

struct result copying_delete_all(struct pg *pg, const struct copy_way *way, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, &way->project);
    pg_add_text(&arguments, way->to);
    return pg_run(pg, &copying_delete_all_sql, &arguments, NULL, err);
}

struct result copying_delete_one(struct pg *pg, const struct copy_way *way, const char *digest, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, &way->project);
    pg_add_text(&arguments, way->to);
    pg_add_text(&arguments, digest);
    return pg_run(pg, &copying_delete_one_sql, &arguments, NULL, err);
}

struct result copying_delete_unwanted(struct pg *pg, const struct copy_way *way, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, &way->project);
    pg_add_text(&arguments, way->to);
    pg_add_text(&arguments, way->from);
    pg_add_bool(&arguments, way->is_move);
    return pg_run(pg, &copying_delete_unwanted_sql, &arguments, NULL, err);
}

struct result copy_row_commit(struct pg *pg, const struct copy_commit *commit, struct error *err)
{
    const struct blob_row *fresh = &commit->fresh;
    struct bytes decided[COPY_LINKS_MAX];
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    assert(commit->links->count > 0 && commit->links->count <= COPY_LINKS_MAX);
    for (size_t i = 0; i < commit->links->count; i++) decided[i] = uuid_bytes(&commit->links->links[i].repository);
    pg_add_uuid(&arguments, &fresh->key.id);
    pg_add_int8(&arguments, (int64_t)commit->writer_epoch);
    pg_add_uuid(&arguments, &commit->where->project);
    pg_add_text(&arguments, commit->where->region);
    pg_add_text(&arguments, commit->where->detail);
    pg_add_int8(&arguments, (int64_t)fresh->content.length);
    pg_add_int8(&arguments, fresh->content.part);
    pg_add_int4(&arguments, (int32_t)fresh->key.wrapped.version);
    pg_add_bytes(&arguments, (struct bytes){fresh->key.wrapped.bytes, fresh->key.wrapped.length});
    pg_add_uuid(&arguments, &commit->source);
    pg_add_uuid_array(&arguments, decided, commit->links->count);
    pg_add_bytes(&arguments, (struct bytes){fresh->key.commitment, sizeof fresh->key.commitment});
    pg_add_bool(&arguments, commit->is_move);
    TRY(pg_run(pg, &copy_commit_sql, &arguments, &rows, err));
    if (pg_int8(rows, 0, 0) == 0)
        return failure(err, ERROR_CONFLICT,
                       "the blob is gone, or has other repositories now, or another gateway writes its copy");
    return pg_bool(rows, 0, 1) ? SUCCESS : quota_is_used_up(err);
}

struct result copy_row_link(struct pg *pg, const struct uuid *copy, const struct copy_way *way, const struct uuid *repository,
                            const char *digest, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, copy);
    pg_add_text(&arguments, way->from);
    pg_add_uuid(&arguments, repository);
    pg_add_text(&arguments, digest);
    TRY(pg_run(pg, &copy_link_sql, &arguments, &rows, err));
    return pg_rows_affected(rows) == 1 ? SUCCESS : failure(err, ERROR_CONFLICT, "the copy, or the repository's blob, is gone");
}

struct result copy_row_withdraw(struct pg *pg, const struct uuid *copy, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, copy);
    TRY(pg_run(pg, &copy_withdraw_sql, &arguments, &rows, err));
    return pg_rows_affected(rows) == 1 ? SUCCESS : failure(err, ERROR_CONFLICT, "the copy is gone");
}

struct result copy_has_room(struct pg *pg, const struct uuid *project, uint64_t bytes, bool *has_room_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, project);
    pg_add_int8(&arguments, (int64_t)bytes);
    TRY(pg_run(pg, &copy_has_room_sql, &arguments, &rows, err));
    *has_room_out = pg_bool(rows, 0, 0);
    return SUCCESS;
}
