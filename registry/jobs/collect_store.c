#include "registry/jobs/collect_store.h"

#include <stdio.h>

#include "registry/content_hold.h"
#include "registry/held_manifest_store.h"
#include "registry/jobs/statements.h"
#include "registry/stored_manifest_store.h"
#include "registry/upload/upload.h"
#include "registry/upload/upload_store.h"
#include "storage/pg_table.h"

/* clang-format off */
/* A read that found the row before its deletion needs a moment until it has opened the files. */
#define GRACE "interval '30 seconds'"
#define MICROSECONDS(time) "(extract(epoch FROM " time ") * 1000000)::int8"

/*
 * OFFSET 0 makes the planner look up each row by its index. A plan is made once for all repositories, from averages. With one
 * large repository and many small ones, a plan without OFFSET 0 would read whole tables for each small one.
 */
/* Whether an index lists m. Indexes in $2 do not count: a dry run counts these digests as removed. */
#define IS_LISTED                                                                                                        \
    "EXISTS (SELECT FROM manifest_reference l WHERE l.repository_id = m.repository_id AND l.digest = m.digest"           \
    " AND l.is_manifest AND l.manifest_digest <> ALL($2) OFFSET 0)"
#define LAST_USE(m)                                                                                                      \
    "LEFT JOIN LATERAL (SELECT used_at FROM manifest_use WHERE repository_id = $1 AND digest = " m ".digest OFFSET 0) u ON true"
/* Whether the tag is named after an existing digest: clients keep signatures and lists of referrers under such tags. 'g'
 * follows all hex digits. */
#define IS_ATTACHMENT                                                                                                    \
    "(t.name ~ '^sha(256|512)-[0-9a-f]{64}([.]|$)' AND EXISTS (SELECT FROM manifest s WHERE s.repository_id = $1"        \
    " AND s.digest >= substr(t.name, 1, 6) || ':' || substr(t.name, 8, 64)"                                              \
    " AND s.digest < substr(t.name, 1, 6) || ':' || substr(t.name, 8, 64) || 'g' AND s.digest <> ALL($2)))"

static const struct pg_statement collect_project_sql = {
    "collect_project",
    "SELECT p.project_id, p.organisation_id, coalesce(p.deleted_name, o.name || '/' || p.name), p.home_region,"
    " coalesce(r.document, '{}'), coalesce(r.version, 0), p.deleted_at IS NOT NULL"
    " FROM project p JOIN organisation o USING (organisation_id) LEFT JOIN project_rules r USING (project_id)"
    " WHERE p.emptied_at IS NULL AND p.project_id > $1 AND ($2::uuid IS NULL OR p.project_id = $2) ORDER BY p.project_id LIMIT 1",
    "uuid uuid", "uuid uuid text text text int8 bool"};
static const struct pg_statement collect_repository_sql = {
    "collect_repository",
    "SELECT r.repository_id, r.name, r.full_name, " REPOSITORY_IS_HELD("r.repository_id") " FROM repository r"
    " WHERE r.project_id = $1 AND r.name > $2 AND r.deleted_at IS NULL ORDER BY r.name LIMIT 1",
    "uuid text", "uuid text text bool"};
static const struct pg_statement collect_tags_sql = {
    "collect_tags",
    "SELECT t.name, t.manifest_digest, t.updated_at, u.used_at, " IS_ATTACHMENT ","
    " row_number() OVER (PARTITION BY t.manifest_digest ORDER BY t.updated_at DESC, t.name) = 1,"
    " m.renewed_at > now() - $3::int8 * interval '1 second' OR " IS_LISTED ","
    " m.size_bytes::int8, " MICROSECONDS("m.renewed_at") ", coalesce(" MICROSECONDS("u.used_at") ", 0),"
    " count(*) OVER (PARTITION BY t.manifest_digest)"
    " FROM (SELECT name, manifest_digest, updated_at FROM tag WHERE repository_id = $1 AND manifest_digest <> ALL($2)"
    " ORDER BY name LIMIT $4) t CROSS JOIN LATERAL (SELECT * FROM manifest WHERE repository_id = $1"
    " AND digest = t.manifest_digest OFFSET 0) m " LAST_USE("m") " ORDER BY t.updated_at DESC, t.name",
    "uuid text[] int8 int8", "text text timestamptz timestamptz bool bool bool int8 int8 int8 int8"};
static const struct pg_statement collect_untagged_sql = {
    "collect_untagged",
    "SELECT m.digest, m.size_bytes::int8, " MICROSECONDS("m.renewed_at") ", coalesce(" MICROSECONDS("u.used_at") ", 0),"
    " m.digest <> ALL($2) AND NOT " IS_LISTED
    " AND NOT EXISTS (SELECT FROM tag t WHERE t.repository_id = $1 AND t.manifest_digest = m.digest)"
    " AND (m.subject_digest IS NULL OR m.subject_digest = ANY($2) OR NOT EXISTS"
    " (SELECT FROM manifest s WHERE s.repository_id = $1 AND s.digest = m.subject_digest))"
    " AND greatest(m.renewed_at, u.used_at) <= now() - $3::int8 * interval '1 second'"
    " AND m.renewed_at <= now() - $6::int8 * interval '1 second' AND NOT " MANIFEST_IS_ADMITTED("$1", "m.digest", "$2")
    " FROM (SELECT repository_id, digest, size_bytes, renewed_at, subject_digest FROM manifest"
    " WHERE repository_id = $1 AND digest > $4 ORDER BY digest LIMIT $5) m"
    " " LAST_USE("m") " ORDER BY m.digest",
    "uuid text[] int8 text int8 int8", "text int8 int8 int8 bool"};
static const struct pg_statement collect_tag_count_sql = {
    "collect_tag_count", "SELECT count(*) FROM (SELECT FROM tag WHERE repository_id = $1 ORDER BY name LIMIT $2) t", "uuid int8",
    "int8"};
static const struct pg_statement collect_count_sql = {
    "collect_count", "SELECT count(*) FROM blob WHERE $1::uuid IS NULL OR project_id = $1", "uuid", "int8"};
static const struct pg_statement collect_expired_sql = {
    "collect_expired", UPLOADS_THAT_END "SELECT count(*) FROM ending", "int8 int8 int8 int8", "int8"};
static const struct pg_statement collect_manifest_sql = {
    "collect_manifest",
    "WITH doomed AS (SELECT m.repository_id, m.digest, m.size_bytes FROM manifest m"
    " LEFT JOIN manifest_use u ON u.repository_id = m.repository_id AND u.digest = m.digest"
    " WHERE m.repository_id = $1 AND m.digest = $3 AND " MICROSECONDS("m.renewed_at") " = $4"
    " AND coalesce(" MICROSECONDS("u.used_at") ", 0) = $5 AND NOT " IS_LISTED
    " AND NOT " HAS_TOO_MANY_TAGS("$1", "$3") " AND NOT EXISTS " IMMUTABLE_TAGS_OF("$1", "$3")
    " AND NOT EXISTS (SELECT FROM " TAGS_OF("$1", "$3") " t WHERE $8 OR " IS_ATTACHMENT ")"
    " AND (NOT $8 OR m.subject_digest IS NULL OR NOT EXISTS"
    " (SELECT FROM manifest s WHERE s.repository_id = $1 AND s.digest = m.subject_digest))"
    " AND (NOT $8 OR NOT " MANIFEST_IS_ADMITTED("$1", "$3", "$2") ")"
    " AND NOT " MANIFEST_IS_HELD("$1", "$3")
    " AND EXISTS (SELECT FROM project_rules r WHERE r.project_id = $6 AND r.version = $7)),"
    " untagged AS (DELETE FROM tag t USING doomed d WHERE t.repository_id = d.repository_id AND t.manifest_digest = d.digest),"
    " counted AS (UPDATE project_quota q SET bytes_used = q.bytes_used - d.size_bytes FROM doomed d WHERE q.project_id = $6)"
    " DELETE FROM manifest m USING doomed d WHERE m.repository_id = d.repository_id AND m.digest = d.digest",
    "uuid text[] text int8 int8 uuid int8 bool", ""};
/* What a policy ends goes whatever keeps it else: tags that rules make immutable, an index that lists it, a run that made it. */
static const struct pg_statement collect_past_sql = {
    "collect_past",
    "SELECT m.digest, m.size_bytes::int8, " MICROSECONDS("m.renewed_at") ", 0::int8, (SELECT count(*) FROM " TAGS_OF("$1", "m.digest") " t)"
    " FROM manifest m WHERE m.repository_id = $1 AND m.digest <> ALL($2) AND m.created_at <= now() - $3::int8 * interval '1 second'"
    " AND m.digest > $4 ORDER BY m.digest LIMIT $5",
    "uuid text[] int8 text int8", "text int8 int8 int8 int8"};
static const struct pg_statement collect_past_count_sql = {
    "collect_past_count",
    "SELECT count(*) FROM manifest WHERE repository_id = $1 AND created_at <= now() - $2::int8 * interval '1 second'", "uuid int8",
    "int8"};
static const struct pg_statement collect_expire_sql = {
    "collect_expire",
    "WITH doomed AS (SELECT m.repository_id, m.digest, m.size_bytes FROM manifest m WHERE m.repository_id = $1 AND m.digest = $2"
    " AND m.created_at <= now() - $4::int8 * interval '1 second' AND NOT " HAS_TOO_MANY_TAGS("$1", "$2") " AND NOT " MANIFEST_IS_HELD("$1", "$2") "),"
    " untagged AS (DELETE FROM tag t USING doomed d WHERE t.repository_id = d.repository_id AND t.manifest_digest = d.digest),"
    " counted AS (UPDATE project_quota q SET bytes_used = q.bytes_used - d.size_bytes FROM doomed d WHERE q.project_id = $3)"
    " DELETE FROM manifest m USING doomed d WHERE m.repository_id = d.repository_id AND m.digest = d.digest",
    "uuid text uuid int8", ""};
static const struct pg_statement collect_blobs_sql = {
    "collect_blobs",
    "SELECT b.blob_id, b.digest, b.region_id, b.size_bytes::int8, b.lease_until <= now() AND NOT " BLOB_IS_HELD("b.blob_id") " AND NOT EXISTS (SELECT"
    " FROM repository_blob r JOIN manifest_reference m ON m.repository_id = r.repository_id AND m.digest = r.digest"
    " AND NOT m.is_manifest WHERE r.blob_id = b.blob_id AND NOT EXISTS (SELECT FROM unnest($4::uuid[], $5::text[])"
    " AS gone (repository_id, digest) WHERE gone.repository_id = m.repository_id AND gone.digest = m.manifest_digest))"
    " FROM (SELECT * FROM blob WHERE project_id = $1 AND (region_id, digest) > ($2, $3)"
    " ORDER BY region_id, digest LIMIT $6) b ORDER BY b.region_id, b.digest",
    "uuid text text uuid[] text[] int8", "uuid text text int8 bool"};
static const struct pg_statement collect_blob_sql = {
    "collect_blob", /* FOR UPDATE checks the row again if a HEAD renewed the lease at the same time */
    "WITH doomed AS (SELECT b.blob_id, b.region_id, b.project_id, b.size_bytes FROM blob b WHERE b.blob_id = $1"
    " AND b.lease_until <= now() AND NOT " BLOB_IS_HELD("b.blob_id") " AND NOT EXISTS (SELECT FROM repository_blob r JOIN manifest_reference m"
    " ON m.repository_id = r.repository_id AND m.digest = r.digest AND NOT m.is_manifest WHERE r.blob_id = b.blob_id)"
    " FOR UPDATE OF b),"
    " unlinked AS (DELETE FROM repository_blob r USING doomed d WHERE r.blob_id = d.blob_id),"
    " gone AS (DELETE FROM blob b USING doomed d WHERE b.blob_id = d.blob_id),"
    " counted AS (UPDATE project_quota q SET bytes_used = q.bytes_used - d.size_bytes FROM doomed d"
    " WHERE q.project_id = d.project_id)"
    " INSERT INTO abandoned_object (blob_id, region_id, abandoned_at) SELECT blob_id, region_id, now() + " GRACE " FROM doomed",
    "uuid", ""};
/* What the home region has of the repository, and a region with copies has not. */
static const struct pg_statement collect_placed_sql = {
    "collect_placed",
    "SELECT c.region_id, CASE WHEN count(h.blob_id) = 0 THEN 0 ELSE greatest(1, extract(epoch FROM now() - min(h.created_at)))::int8 END FROM project_copy c LEFT JOIN (repository_blob r JOIN blob h"
    " USING (blob_id)) ON r.repository_id = $2 AND h.region_id = $3 AND EXISTS (SELECT FROM manifest_reference m WHERE m.repository_id = $2"
    " AND m.digest = r.digest AND NOT m.is_manifest) AND NOT EXISTS (SELECT FROM repository_blob k JOIN blob b USING (blob_id)"
    " WHERE k.repository_id = $2 AND k.digest = r.digest AND b.region_id = c.region_id AND b.damaged_at IS NULL)"
    " WHERE c.project_id = $1 AND c.withdrawn_at IS NULL GROUP BY c.region_id ORDER BY c.region_id LIMIT $4",
    "uuid uuid text int8", "text int8"};
static const struct pg_statement *const statements[] = {
    &collect_placed_sql, &collect_project_sql, &collect_repository_sql, &collect_tags_sql, &collect_untagged_sql, &collect_tag_count_sql,
    &collect_count_sql, &collect_expired_sql, &collect_manifest_sql, &collect_past_sql, &collect_past_count_sql, &collect_expire_sql, &collect_blobs_sql, &collect_blob_sql,
};
/* clang-format on */
const struct pg_table collect_statements = PG_TABLE(statements);

struct result collect_next_project(struct pg *pg, const struct uuid *last, const struct uuid *only,
                                   struct collect_project *project, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, last);
    pg_add_uuid(&arguments, only);
    TRY(pg_run(pg, &collect_project_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) > 0) {
        *project = (struct collect_project){.id = pg_uuid(rows, 0, 0),
                                            .organisation = pg_uuid(rows, 0, 1),
                                            .rules = pg_text(rows, 0, 4),
                                            .rules_version = pg_int8(rows, 0, 5),
                                            .is_deleted = pg_bool(rows, 0, 6)};
        (void)snprintf(project->name, sizeof project->name, "%s", pg_text(rows, 0, 2));
        (void)snprintf(project->region, sizeof project->region, "%s", pg_text(rows, 0, 3));
    }
    *rows_out = GIVE(rows);
    return SUCCESS;
}

struct result collect_next_repository(struct pg *pg, const struct uuid *project, const char *last,
                                      struct collect_repository *repository_out, bool *found_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, project);
    pg_add_text(&arguments, last);
    TRY(pg_run(pg, &collect_repository_sql, &arguments, &rows, err));
    *found_out = pg_rows_count(rows) > 0;
    if (!*found_out) return SUCCESS;
    repository_out->id = pg_uuid(rows, 0, 0);
    (void)snprintf(repository_out->path, sizeof repository_out->path, "%s", pg_text(rows, 0, 1));
    (void)snprintf(repository_out->name, sizeof repository_out->name, "%s", pg_text(rows, 0, 2));
    repository_out->is_held = pg_bool(rows, 0, 3);
    return SUCCESS;
}

static void add_range(struct pg_arguments *arguments, const struct collect_range *range)
{
    pg_add_uuid(arguments, range->repository);
    pg_add_text_array(arguments, range->gone->digests, range->gone->count);
    pg_add_int8(arguments, range->age_s);
}

struct result collect_read_tags(struct pg *pg, const struct collect_range *range, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    add_range(&arguments, range);
    pg_add_int8(&arguments, COLLECT_TAGS_MAX + 1);
    return pg_run(pg, &collect_tags_sql, &arguments, rows_out, err);
}

void collect_tag_of(const struct pg_rows *rows, size_t row, struct collect_tag *tag_out)
{
    *tag_out = (struct collect_tag){.name = pg_text(rows, row, 0),
                                    .digest = pg_text(rows, row, 1),
                                    .pushed_ms = pg_time_ms(rows, row, 2),
                                    .pulled_ms = pg_time_ms(rows, row, 3),
                                    .is_attachment = pg_bool(rows, row, 4),
                                    .is_first = pg_bool(rows, row, 5),
                                    .is_held = pg_bool(rows, row, 6)};
}

void collect_manifest_of(const struct pg_rows *rows, size_t row, struct collect_manifest *manifest_out)
{
    *manifest_out = (struct collect_manifest){.size_bytes = pg_int8(rows, row, 7),
                                              .renewed_us = pg_int8(rows, row, 8),
                                              .used_us = pg_int8(rows, row, 9),
                                              .tags = pg_int8(rows, row, 10)};
    (void)snprintf(manifest_out->digest, sizeof manifest_out->digest, "%s", pg_text(rows, row, 1));
}

struct result collect_read_untagged(struct pg *pg, const struct collect_range *range, const char *last, size_t limit,
                                    struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    add_range(&arguments, range);
    pg_add_text(&arguments, last);
    pg_add_int8(&arguments, (int64_t)limit);
    pg_add_int8(&arguments, range->kept_s);
    return pg_run(pg, &collect_untagged_sql, &arguments, rows_out, err);
}

struct result collect_has_too_many_tags(struct pg *pg, const struct uuid *repository, bool *too_many_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, repository);
    pg_add_int8(&arguments, COLLECT_TAGS_MAX + 1);
    TRY(pg_run(pg, &collect_tag_count_sql, &arguments, &rows, err));
    *too_many_out = pg_int8(rows, 0, 0) > COLLECT_TAGS_MAX;
    return SUCCESS;
}

struct result collect_count_expired(struct pg *pg, const struct session_limits *limits, int64_t *count_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    upload_add_limits(&arguments, limits);
    TRY(pg_run(pg, &collect_expired_sql, &arguments, &rows, err));
    *count_out = pg_int8(rows, 0, 0);
    return SUCCESS;
}

struct result collect_count_blobs(struct pg *pg, const struct uuid *project, uint64_t *count_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, project);
    TRY(pg_run(pg, &collect_count_sql, &arguments, &rows, err));
    *count_out = (uint64_t)pg_int8(rows, 0, 0);
    return SUCCESS;
}

bool collect_untagged_of(const struct pg_rows *rows, size_t row, struct collect_manifest *manifest_out)
{
    *manifest_out = (struct collect_manifest){
        .size_bytes = pg_int8(rows, row, 1), .renewed_us = pg_int8(rows, row, 2), .used_us = pg_int8(rows, row, 3)};
    (void)snprintf(manifest_out->digest, sizeof manifest_out->digest, "%s", pg_text(rows, row, 0));
    return pg_bool(rows, row, 4);
}

struct result collect_read_past(struct pg *pg, const struct collect_range *range, const char *last, size_t limit,
                                struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    add_range(&arguments, range);
    pg_add_text(&arguments, last);
    pg_add_int8(&arguments, (int64_t)limit);
    return pg_run(pg, &collect_past_sql, &arguments, rows_out, err);
}

void collect_past_of(const struct pg_rows *rows, size_t row, struct collect_manifest *manifest_out)
{
    *manifest_out = (struct collect_manifest){
        .size_bytes = pg_int8(rows, row, 1), .renewed_us = pg_int8(rows, row, 2), .tags = pg_int8(rows, row, 4)};
    (void)snprintf(manifest_out->digest, sizeof manifest_out->digest, "%s", pg_text(rows, row, 0));
}

struct result collect_count_past(struct pg *pg, const struct uuid *repository, int64_t age_s, int64_t *count_out,
                                 struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, repository);
    pg_add_int8(&arguments, age_s);
    TRY(pg_run(pg, &collect_past_count_sql, &arguments, &rows, err));
    *count_out = pg_int8(rows, 0, 0);
    return SUCCESS;
}

struct result collect_placed(struct pg *pg, const struct collect_project *project, const struct uuid *repository,
                             struct placed_region regions_out[COLLECT_REGIONS_MAX], size_t *count_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &project->id);
    pg_add_uuid(&arguments, repository);
    pg_add_text(&arguments, project->region);
    pg_add_int8(&arguments, COLLECT_REGIONS_MAX - 1);
    TRY(pg_run(pg, &collect_placed_sql, &arguments, &rows, err));
    regions_out[0] = (struct placed_region){.stale_s = 0};
    (void)snprintf(regions_out[0].region, sizeof regions_out[0].region, "%s", project->region);
    for (size_t i = 0; i < pg_rows_count(rows); i++) {
        regions_out[i + 1] = (struct placed_region){.stale_s = pg_int8(rows, i, 1)};
        (void)snprintf(regions_out[i + 1].region, sizeof regions_out[i + 1].region, "%s", pg_text(rows, i, 0));
    }
    *count_out = pg_rows_count(rows) + 1;
    return SUCCESS;
}

struct result collect_manifest_row_expire(struct pg *pg, const struct collect_manifest_row *row, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &row->repository);
    pg_add_text(&arguments, row->manifest.digest);
    pg_add_uuid(&arguments, &row->project);
    pg_add_int8(&arguments, row->expires_s);
    TRY(pg_run(pg, &collect_expire_sql, &arguments, &rows, err));
    return pg_rows_affected(rows) == 1 ? SUCCESS : failure(err, ERROR_CONFLICT, "the manifest is held, or gone already");
}

struct result collect_manifest_row_delete(struct pg *pg, const struct collect_manifest_row *row, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &row->repository);
    pg_add_text_array(&arguments, NULL, 0);
    pg_add_text(&arguments, row->manifest.digest);
    pg_add_int8(&arguments, row->manifest.renewed_us);
    pg_add_int8(&arguments, row->manifest.used_us);
    pg_add_uuid(&arguments, &row->project);
    pg_add_int8(&arguments, row->rules_version);
    pg_add_bool(&arguments, row->why == COLLECT_UNTAGGED);
    TRY(pg_run(pg, &collect_manifest_sql, &arguments, &rows, err));
    return pg_rows_affected(rows) == 1 ? SUCCESS : failure(err, ERROR_CONFLICT, "the manifest has changed, and stays");
}

struct result collect_read_blobs(struct pg *pg, const struct collect_blob_query *query, struct pg_rows **rows_out,
                                 struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, query->project);
    pg_add_text(&arguments, query->last->region);
    pg_add_text(&arguments, query->last->digest);
    pg_add_uuid_array(&arguments, query->gone->repositories, query->gone->count);
    pg_add_text_array(&arguments, query->gone->digests, query->gone->count);
    pg_add_int8(&arguments, (int64_t)query->limit);
    return pg_run(pg, &collect_blobs_sql, &arguments, rows_out, err);
}

void collect_blob_of(const struct pg_rows *rows, size_t row, struct collect_blob *blob_out)
{
    *blob_out = (struct collect_blob){
        .blob = pg_uuid(rows, row, 0), .size_bytes = pg_int8(rows, row, 3), .is_garbage = pg_bool(rows, row, 4)};
    (void)snprintf(blob_out->digest, sizeof blob_out->digest, "%s", pg_text(rows, row, 1));
    (void)snprintf(blob_out->region, sizeof blob_out->region, "%s", pg_text(rows, row, 2));
}

struct result collect_blob_row_delete(struct pg *pg, const struct uuid *blob, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, blob);
    TRY(pg_run(pg, &collect_blob_sql, &arguments, &rows, err));
    return pg_rows_affected(rows) == 1 ? SUCCESS : failure(err, ERROR_CONFLICT, "the blob is needed again, or gone already");
}
