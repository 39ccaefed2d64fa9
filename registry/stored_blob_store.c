#include "registry/stored_blob_store.h"

#include <stdio.h>

#include "registry/held_manifest_store.h"
#include "registry/quota_store.h"
#include "registry/registry_priv.h"
#include "registry/repository_store.h"
#include "registry/stored_blob.h"
#include "storage/pg_table.h"

/* clang-format off */
#define LEASE(seconds) "now() + " seconds "::int8 * interval '1 second'"

/* What a run uploads is linked too, so that it stays and counts; but no request finds it until somebody pushes the same bytes, or the run is
 * admitted (docs/runs.md). */
#define LINK(values, by_run) \
    "INSERT INTO repository_blob AS l (repository_id, digest, blob_id, is_pushed, is_held) SELECT " values ", NOT " by_run ", " by_run
#define OR_TELL_MORE                                                                                                          \
    " ON CONFLICT (repository_id, digest, blob_id) DO UPDATE SET is_pushed = l.is_pushed OR excluded.is_pushed,"              \
    " is_held = l.is_held OR excluded.is_held WHERE (l.is_pushed, l.is_held) IS DISTINCT FROM"                                \
    " (l.is_pushed OR excluded.is_pushed, l.is_held OR excluded.is_held)"

/* One statement, because each statement is a round trip under the log's lock. The key of the session's own blob comes from its
 * row; a copy of the content has another key, which the caller passes. The reservation is released and the new blob is
 * counted; the blob is larger than the reservation only if the quota was set during the upload. */
#define COMMIT_BLOB                                                                                                           \
    "WITH ended AS (DELETE FROM upload WHERE upload_id = $1 AND writer_epoch = $2"                                            \
    " RETURNING CASE WHEN blob_id = $3 THEN key_version ELSE $9 END AS key_version,"                                          \
    " CASE WHEN blob_id = $3 THEN wrapped_key ELSE $10 END AS wrapped_key, reserved_bytes),"                                  \
    " kept AS (INSERT INTO blob AS b (blob_id, project_id, region_id, digest, size_bytes, part, key_version, wrapped_key,"    \
    " commitment, lease_until) SELECT $3, $4, $5, $6, $7, $8, key_version, wrapped_key, $11, " LEASE("$13") " FROM ended"     \
    " ON CONFLICT (project_id, region_id, digest) DO UPDATE SET lease_until = greatest(b.lease_until, excluded.lease_until)"  \
    " RETURNING b.blob_id, b.damaged_at IS NOT NULL AS is_damaged),"                                                          \
    " linked AS (" LINK("$12, $6, blob_id", "$14") " FROM kept WHERE NOT is_damaged" OR_TELL_MORE "),"                         \
    " counted AS (UPDATE project_quota q SET bytes_used = q.bytes_used - e.reserved_bytes"                                    \
    " + CASE WHEN k.blob_id = $3 THEN $7 ELSE 0 END FROM kept k, ended e WHERE q.project_id = $4"                             \
    " RETURNING q.bytes_used <= q.bytes_max OR k.blob_id <> $3 OR $7 <= e.reserved_bytes AS fits)"
#define COMMIT_BLOB_TYPES "uuid int8 uuid uuid text text int8 int8 int4 bytea bytea uuid int8 bool"
#define FITS "(SELECT fits FROM counted) IS NOT FALSE"

/* ORDER BY makes the planner use the index, whatever it estimates about the distribution of the regions. */
#define HAS_BLOBS(region)                                                                                              \
    "EXISTS (SELECT FROM project p WHERE (SELECT b.digest FROM blob b WHERE b.project_id = p.project_id AND b.region_id = " region \
    " ORDER BY b.digest LIMIT 1) IS NOT NULL)"

static const struct pg_statement blob_commit_sql = {
    "blob_commit",
    COMMIT_BLOB " SELECT k.blob_id, k.is_damaged, e.key_version, e.wrapped_key, $11, " FITS " FROM kept k, ended e",
    COMMIT_BLOB_TYPES, "uuid bool int4 bytea bytea bool"};
static const struct pg_statement blob_commit_in_one_trip_sql = {
    "blob_commit_in_one_trip",
    COMMIT_BLOB ", dropped AS (INSERT INTO abandoned_object (blob_id, region_id) SELECT $3, $5 FROM kept WHERE blob_id <> $3)"
                " SELECT (array_agg(blob_id))[1], 1 / count(*) FROM kept WHERE NOT is_damaged AND " FITS,
    COMMIT_BLOB_TYPES, "uuid int8"};
static const struct pg_statement blob_replace_sql = {
    "blob_replace",
    "UPDATE blob SET blob_id = $1, size_bytes = $3, part = $4, key_version = $5, wrapped_key = $6, commitment = $7,"
    " damaged_at = NULL WHERE blob_id = $2",
    "uuid uuid int8 int8 int4 bytea bytea", ""};
static const struct pg_statement blob_link_sql = {
    "blob_link", LINK("$1, $2, $3", "$4") OR_TELL_MORE, "uuid text uuid bool", ""};
static const struct pg_statement blob_find_sql = {
    "blob_find",
    "SELECT b.blob_id, b.key_version, b.wrapped_key, b.commitment, b.size_bytes, b.part, b.damaged_at IS NOT NULL,"
    " b.lease_until < now() + $5::int8 * interval '0.5 second'"
    " FROM repository_blob r JOIN LATERAL (SELECT * FROM blob WHERE blob_id = r.blob_id OFFSET 0) b"
    " ON b.project_id = $3 AND b.region_id = $4 WHERE r.repository_id = $1 AND r.digest = $2 AND (r.is_pushed OR $6)",
    "uuid text uuid text int8 bool", "uuid int4 bytea bytea int8 int8 bool bool"};
static const struct pg_statement blob_renew_sql = {
    "blob_renew",
    "UPDATE blob SET lease_until = greatest(lease_until, " LEASE("$2") ") WHERE blob_id = $1", "uuid int8", ""};
static const struct pg_statement blob_mark_damaged_sql = {
    "blob_mark_damaged", "UPDATE blob SET damaged_at = now() WHERE blob_id = $1 AND damaged_at IS NULL", "uuid", ""};
static const struct pg_statement blob_unmark_sql = {
    "blob_unmark", "UPDATE blob SET damaged_at = NULL WHERE blob_id = $1 AND damaged_at IS NOT NULL", "uuid", ""};
static const struct pg_statement blob_mount_sql = {
    "blob_mount",
    "WITH found AS (UPDATE blob b SET lease_until = greatest(b.lease_until, " LEASE("$6") ") FROM repository_blob s"
    " WHERE s.repository_id = $2 AND s.digest = $3 AND s.is_pushed AND b.blob_id = s.blob_id AND b.project_id = $4"
    " AND b.region_id = $5 AND b.damaged_at IS NULL RETURNING b.blob_id),"
    " linked AS (" LINK("$1, $3, blob_id", "false") " FROM found" OR_TELL_MORE ") SELECT blob_id FROM found",
    "uuid uuid text uuid text int8", "uuid"};
/* By project, because the index of blobs begins with the project: one look-up for each project, however many blobs it has. */
static const struct pg_statement blob_region_elsewhere_sql = {
    "blob_region_elsewhere",
    "SELECT region_id FROM region r WHERE region_id <> ALL($1) AND " HAS_BLOBS("r.region_id") " ORDER BY region_id LIMIT 1",
    "text[]", "text"};
static const struct pg_statement blob_region_is_used_sql = {"blob_region_is_used", "SELECT " HAS_BLOBS("$1"), "text", "bool"};
static const struct pg_statement blob_unlink_sql = {
    "blob_unlink", /* what a run has uploaded as well stays for the run, and is told to nobody, not to this client either */
    "WITH wanted AS (SELECT blob_id, is_held FROM repository_blob WHERE repository_id = $1 AND digest = $2 AND is_pushed AND NOT EXISTS"
    " (SELECT FROM manifest_reference m WHERE m.repository_id = $1 AND m.digest = $2 AND NOT m.is_manifest) FOR UPDATE),"
    " hidden AS (UPDATE repository_blob r SET is_pushed = false FROM wanted w WHERE r.repository_id = $1 AND r.digest = $2"
    " AND r.blob_id = w.blob_id AND w.is_held),"
    " gone AS (DELETE FROM repository_blob r USING wanted w WHERE r.repository_id = $1 AND r.digest = $2 AND r.blob_id = w.blob_id"
    " AND NOT w.is_held) SELECT count(*) FROM wanted",
    "uuid text", "int8"};
static const struct pg_statement blob_is_linked_sql = {
    "blob_is_linked",
    "SELECT EXISTS (SELECT FROM repository_blob WHERE repository_id = $1 AND digest = $2 AND is_pushed)", "uuid text", "bool"};
/* The rows are deleted as by a collection (registry/jobs/collect_store.c), but whatever their lease: the push that has it was refused. */
static const struct pg_statement blob_refuse_sql = {
    "blob_refuse",
    "WITH doomed AS (SELECT b.blob_id, b.region_id, b.size_bytes FROM unnest($3::text[]) AS d CROSS JOIN LATERAL (SELECT blob_id"
    " FROM repository_blob WHERE repository_id = $1 AND digest = d AND is_pushed AND NOT is_held OFFSET 0) l JOIN blob b USING (blob_id)"
    " WHERE NOT " BLOB_IS_HELD("b.blob_id") " AND NOT EXISTS (SELECT FROM repository_blob o WHERE o.blob_id = b.blob_id AND o.repository_id <> $1)"
    " AND NOT EXISTS (SELECT FROM manifest_reference m WHERE m.repository_id = $1 AND m.digest = b.digest AND NOT m.is_manifest) FOR UPDATE OF b),"
    " unlinked AS (DELETE FROM repository_blob r USING doomed d WHERE r.blob_id = d.blob_id),"
    " gone AS (DELETE FROM blob b USING doomed d WHERE b.blob_id = d.blob_id),"
    " counted AS (UPDATE project_quota SET bytes_used = bytes_used - (SELECT coalesce(sum(size_bytes), 0) FROM doomed) WHERE project_id = $2),"
    " left_over AS (INSERT INTO abandoned_object (blob_id, region_id, abandoned_at)"
    " SELECT blob_id, region_id, now() + interval '30 seconds' FROM doomed) SELECT count(*) FROM doomed",
    "uuid uuid text[]", "int8"};
static const struct pg_statement *const statements[] = {
    &blob_commit_sql, &blob_commit_in_one_trip_sql, &blob_replace_sql, &blob_link_sql, &blob_find_sql, &blob_renew_sql,
    &blob_mark_damaged_sql, &blob_unmark_sql, &blob_mount_sql, &blob_region_elsewhere_sql, &blob_region_is_used_sql,
    &blob_unlink_sql, &blob_is_linked_sql, &blob_refuse_sql,
};
/* clang-format on */
const struct pg_table stored_blob_statements = PG_TABLE(statements);

static void add_content(struct pg_arguments *arguments, const struct blob_row *row)
{
    pg_add_int8(arguments, (int64_t)row->content.length);
    pg_add_int8(arguments, row->content.part);
    key_record_add(arguments, &row->key);
}

static struct result replace(struct pg *pg, const struct uuid *damaged, const struct blob_row *fresh, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, &fresh->key.id);
    pg_add_uuid(&arguments, damaged);
    add_content(&arguments, fresh);
    return pg_run(pg, &blob_replace_sql, &arguments, NULL, err);
}

/* Takes the key from the session's row, because a re-wrap may have changed it since the writer read it. */
static struct result replace_by(struct pg *pg, const struct uuid *damaged, const struct blob_row *fresh,
                                const struct pg_rows *ended, struct error *err)
{
    struct blob_row row = *fresh;

    TRY(key_record_read(ended, 0, 2, &row.key, err));
    return replace(pg, damaged, &row, err);
}

static struct result link(struct pg *pg, const struct blob_commit *commit, const char *digest, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, &commit->where->repository);
    pg_add_text(&arguments, digest);
    pg_add_uuid(&arguments, &commit->fresh->key.id);
    pg_add_bool(&arguments, commit->is_held);
    return pg_run(pg, &blob_link_sql, &arguments, NULL, err);
}

static void add_commit(struct pg_arguments *arguments, const struct blob_commit *commit, char digest[DIGEST_TEXT_SIZE])
{
    const struct resource *where = commit->where;

    digest_format(&commit->fresh->content.digest, digest);
    pg_add_uuid(arguments, &commit->upload);
    pg_add_int8(arguments, (int64_t)commit->writer_epoch);
    pg_add_uuid(arguments, &commit->fresh->key.id);
    pg_add_uuid(arguments, &where->project);
    pg_add_text(arguments, where->region);
    pg_add_text(arguments, digest);
    add_content(arguments, commit->fresh);
    pg_add_uuid(arguments, &where->repository);
    pg_add_int8(arguments, commit->lease_s);
    pg_add_bool(arguments, commit->is_held);
}

struct result blob_row_add_commit(struct pg *pg, const struct blob_commit *commit, struct error *err)
{
    struct pg_arguments arguments = {0};
    char digest[DIGEST_TEXT_SIZE];

    add_commit(&arguments, commit, digest);
    return pg_pipeline_add(pg, &blob_commit_in_one_trip_sql, &arguments, err);
}

struct result blob_row_commit(struct pg *pg, const struct blob_commit *commit, struct uuid *dropped_out, struct error *err)
{
    const struct blob_row *fresh = commit->fresh;
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;
    char digest[DIGEST_TEXT_SIZE];

    add_commit(&arguments, commit, digest);
    TRY(pg_run(pg, &blob_commit_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) != 1)
        return failure(err, ERROR_CONFLICT, "another writer has taken this upload over, or it has ended");
    if (!pg_bool(rows, 0, 5)) return quota_is_used_up(err);

    const struct uuid there = pg_uuid(rows, 0, 0);
    const bool is_damaged = pg_bool(rows, 0, 1);
    if (is_damaged) TRY(replace_by(pg, &there, fresh, rows, err));
    if (is_damaged) TRY(link(pg, commit, digest, err));
    *dropped_out = is_damaged ? there : fresh->key.id;
    if (uuid_equal(&there, &fresh->key.id)) *dropped_out = (struct uuid){0};
    return SUCCESS;
}

struct result blob_row_renew(struct pg *pg, const struct uuid *blob, int64_t lease_s, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, blob);
    pg_add_int8(&arguments, lease_s);
    TRY(pg_run(pg, &blob_renew_sql, &arguments, &rows, err));
    if (pg_rows_affected(rows) == 1) return SUCCESS;
    return failure(err, ERROR_NOT_FOUND, "this repository has no such blob");
}

static void add_location(struct pg_arguments *arguments, const struct blob_location *location)
{
    pg_add_uuid(arguments, &location->where->repository);
    pg_add_text(arguments, location->digest);
    pg_add_uuid(arguments, &location->where->project);
    pg_add_text(arguments, location->where->region);
    pg_add_int8(arguments, location->lease_s);
    pg_add_bool(arguments, location->also_held);
}

struct result blob_row_take_find(const struct pg_rows *answer, const char *digest, struct blob_row *row_out, bool *found_out,
                                 struct error *err)
{
    struct blob_row row = {0};

    *found_out = false;
    if (pg_rows_count(answer) == 0) return SUCCESS;
    TRY(digest_parse(bytes_of_text(digest), &row.content.digest, err));
    row.key.id = pg_uuid(answer, 0, 0);
    TRY(key_record_read(answer, 0, 1, &row.key, err));
    row.content.length = (uint64_t)pg_int8(answer, 0, 4);
    row.content.part = (uint32_t)pg_int8(answer, 0, 5);
    row.is_damaged = pg_bool(answer, 0, 6);
    row.is_due = pg_bool(answer, 0, 7);
    *row_out = row;
    *found_out = true;
    return SUCCESS;
}

struct result blob_row_find(struct pg *pg, const struct blob_location *location, struct blob_row *row_out, bool *found_out,
                            struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    add_location(&arguments, location);
    TRY(pg_run(pg, &blob_find_sql, &arguments, &rows, err));
    return blob_row_take_find(rows, location->digest, row_out, found_out, err);
}

struct result blob_row_add_find(struct pg *pg, const struct blob_location *location, struct error *err)
{
    struct pg_arguments arguments = {0};

    add_location(&arguments, location);
    return pg_pipeline_add(pg, &blob_find_sql, &arguments, err);
}

struct result blob_row_mark_damaged(struct pg *pg, const struct uuid *blob, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, blob);
    TRY(pg_run(pg, &blob_mark_damaged_sql, &arguments, &rows, err));
    if (pg_rows_affected(rows) == 1) return SUCCESS;
    return failure(err, ERROR_CONFLICT, "the blob was marked already");
}

struct result blob_row_note_damage(struct pg *pg, const struct uuid *blob, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, blob);
    return pg_run(pg, &blob_mark_damaged_sql, &arguments, NULL, err);
}

struct result blob_row_unmark(struct pg *pg, const struct uuid *blob, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, blob);
    TRY(pg_run(pg, &blob_unmark_sql, &arguments, &rows, err));
    return pg_rows_affected(rows) == 1 ? SUCCESS : failure(err, ERROR_NOT_FOUND, "the blob has no mark any more");
}

static struct result run_mount(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    struct blob_mount *mount = (struct blob_mount *)(void *)change; /* its first member */
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;
    struct uuid repository;

    permit_require(permit, ACTION_BLOB_MOUNT, &mount->target);
    permit_require(permit, ACTION_BLOB_READ, &mount->source);
    if (!uuid_equal(&mount->target.project, &mount->source.project))
        return failure(err, ERROR_NOT_FOUND, "blobs are mounted inside one project only");
    if (mount->label != NULL) TRY(brought_label_insert(permit, pg, mount->label, err));
    TRY(repository_ensure(pg, &mount->target, mount->repositories_max, &repository, err));
    pg_add_uuid(&arguments, &repository);
    pg_add_uuid(&arguments, &mount->source.repository);
    pg_add_text(&arguments, mount->digest);
    pg_add_uuid(&arguments, &mount->target.project);
    pg_add_text(&arguments, mount->target.region);
    pg_add_int8(&arguments, mount->lease_s);
    TRY(pg_run(pg, &blob_mount_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return failure(err, ERROR_NOT_FOUND, "the source has no such blob");
    mount->repository = repository;
    return SUCCESS;
}

void blob_mount_prepare(const struct registry *registry, const struct resource *target, const struct resource *source,
                        const char *digest, struct blob_mount *mount_out)
{
    *mount_out = (struct blob_mount){.change = {.run = run_mount, .invalidates = CHANGE_INVALIDATES_NOTHING},
                                     .target = *target,
                                     .source = *source,
                                     .lease_s = registry->lease_s,
                                     .repositories_max = registry->namespaces.repositories_per_project};
    (void)snprintf(mount_out->digest, sizeof mount_out->digest, "%s", digest);
}

static struct result run_unlink(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct blob_unlink *unlink = (const struct blob_unlink *)(const void *)change; /* its first member */
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *gone = NULL, *linked = NULL;

    permit_require(permit, ACTION_BLOB_DELETE, &unlink->where);
    pg_add_uuid(&arguments, &unlink->where.repository);
    pg_add_text(&arguments, unlink->digest);
    TRY(pg_run(pg, &blob_unlink_sql, &arguments, &gone, err));
    if (pg_int8(gone, 0, 0) > 0) return SUCCESS;
    TRY(pg_run(pg, &blob_is_linked_sql, &arguments, &linked, err));
    if (pg_bool(linked, 0, 0)) return failure(err, ERROR_CONFLICT, "a manifest of this repository needs this blob");
    return failure(err, ERROR_NOT_FOUND, "this repository has no such blob");
}

void blob_unlink_prepare(const struct resource *where, const char *digest, struct blob_unlink *unlink_out)
{
    *unlink_out = (struct blob_unlink){.change = {.run = run_unlink, .invalidates = CHANGE_INVALIDATES_NOTHING}, .where = *where};
    (void)snprintf(unlink_out->digest, sizeof unlink_out->digest, "%s", digest);
}

static struct result run_refusal(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    struct refused_push *refused = (struct refused_push *)(void *)change; /* its first member */
    struct pg_arguments arguments = {0};
    OWNED_HELD_BLOBS blobs = {.count = 0};
    OWNED(pg_rows) *rows = NULL;

    permit_require(permit, refused->action, &refused->where);
    TRY(held_blobs_list(refused->manifest, &blobs, err));
    pg_add_uuid(&arguments, &refused->where.repository);
    pg_add_uuid(&arguments, &refused->where.project);
    pg_add_text_array(&arguments, blobs.digests, blobs.count);
    TRY(pg_run(pg, &blob_refuse_sql, &arguments, &rows, err));
    refused->shredded = pg_int8(rows, 0, 0);
    return SUCCESS;
}

void refused_push_prepare(enum action action, const struct resource *where, const struct manifest *manifest,
                          struct refused_push *refused_out)
{
    *refused_out = (struct refused_push){.change = {.run = run_refusal, .invalidates = CHANGE_INVALIDATES_NOTHING},
                                         .action = action,
                                         .where = *where,
                                         .manifest = manifest};
}

struct result blob_rows_in_region(struct pg *pg, const char *region, bool *used_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_text(&arguments, region);
    TRY(pg_run(pg, &blob_region_is_used_sql, &arguments, &rows, err));
    *used_out = pg_bool(rows, 0, 0);
    return SUCCESS;
}

struct result blob_rows_elsewhere(struct pg *pg, const struct bytes *regions, size_t count, char region_out[REGION_ID_MAX + 1],
                                  struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_text_array(&arguments, regions, count);
    TRY(pg_run(pg, &blob_region_elsewhere_sql, &arguments, &rows, err));
    (void)snprintf(region_out, REGION_ID_MAX + 1, "%s", pg_rows_count(rows) == 0 ? "" : pg_text(rows, 0, 0));
    return SUCCESS;
}
