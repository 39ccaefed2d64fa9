#include "registry/stored_manifest_store.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "registry/content_hold.h"
#include "registry/metrics.h"
#include "registry/names/reference.h"
#include "registry/quota_store.h"
#include "registry/registry_priv.h"
#include "storage/pg_table.h"

/* clang-format off */
#define VALUES                                                                                             \
    "SELECT m.digest, m.media_type, coalesce(m.artifact_type, ''), m.size_bytes, k.key_id, k.key_version," \
    " k.wrapped_key, k.commitment, m.sealed, k.region_id FROM "
#define COLUMNS VALUES "manifest m JOIN project_key k USING (key_id)"
#define AFTER(m) m ".digest > $3 AND ($4 = '' OR " m ".artifact_type = $4) ORDER BY " m ".digest LIMIT $5)"
#define COLUMN_TYPES "text text text int4 uuid int4 bytea bytea bytea text"

/* Reasons to refuse a push, or the deletion of a manifest. */
#define MISSING   0
#define TAG_STAYS 1
#define NO_ROOM   2
#define LISTED    3
#define TYPE_STAYS 4
#define WRONG_SIZE 5
#define WRONG_TYPE 6
#define TYPE_LISTED 7
#define TAGS_FULL   8

/* Finds the reasons against a push before any row is changed. OFFSET 0 makes the planner look up each digest by its index: the
 * plan may be made while the tables are empty, when a hash over all blobs looks as cheap. */
static const struct pg_statement manifest_missing_sql = {
    "manifest_missing",
    "SELECT d, " SQL(MISSING) " FROM unnest($2::text[]) AS d WHERE NOT EXISTS (SELECT FROM repository_blob r JOIN LATERAL"
    " (SELECT damaged_at FROM blob WHERE blob_id = r.blob_id AND region_id = (SELECT home_region FROM project WHERE project_id = $6) OFFSET 0) b"
    " ON b.damaged_at IS NULL"
    " WHERE r.repository_id = $1 AND r.digest = d AND r.is_pushed OFFSET 0)"
    " UNION ALL SELECT d, " SQL(MISSING) " FROM unnest($3::text[]) AS d WHERE NOT EXISTS"
    " (SELECT FROM manifest WHERE repository_id = $1 AND digest = d OFFSET 0)"
    " UNION ALL SELECT d || ' has ' || b.size_bytes || ' bytes, not ' || size, " SQL(WRONG_SIZE)
    " FROM unnest($2::text[], $9::int8[]) AS n (d, size) JOIN LATERAL (SELECT s.size_bytes FROM repository_blob r JOIN LATERAL"
    " (SELECT size_bytes FROM blob WHERE blob_id = r.blob_id OFFSET 0) s ON true"
    " WHERE r.repository_id = $1 AND r.digest = d AND r.is_pushed OFFSET 0) b ON b.size_bytes <> size"
    " UNION ALL SELECT d || ' has ' || m.size_bytes || ' bytes, not ' || size, " SQL(WRONG_SIZE)
    " FROM unnest($3::text[], $10::int8[]) AS n (d, size) JOIN LATERAL"
    " (SELECT size_bytes FROM manifest WHERE repository_id = $1 AND digest = d OFFSET 0) m ON m.size_bytes <> size"
    " UNION ALL SELECT d || ' is here as ' || m.media_type || ', not as ' || type, " SQL(WRONG_TYPE)
    " FROM unnest($3::text[], $11::text[]) AS n (d, type) JOIN LATERAL"
    " (SELECT media_type FROM manifest WHERE repository_id = $1 AND digest = d OFFSET 0) m ON m.media_type <> type"
    " UNION ALL SELECT name, " SQL(TAG_STAYS) " FROM tag WHERE repository_id = $1 AND name = ANY($4) AND manifest_digest <> $5"
    " AND tag_is_immutable($1, name)"
    " UNION ALL SELECT t.name, " SQL(TYPE_STAYS) " FROM manifest m CROSS JOIN LATERAL " IMMUTABLE_TAGS_OF("m.repository_id", "m.digest")
    " t WHERE m.repository_id = $1 AND m.digest = $5 AND m.media_type <> $8"
    " UNION ALL SELECT '', " SQL(TAGS_FULL) " FROM (SELECT count(*) AS had FROM " TAGS_OF("$1", "$5") " t) o,"
    " (SELECT count(DISTINCT n) AS more FROM unnest($4::text[]) AS n WHERE coalesce("
    "(SELECT manifest_digest FROM tag WHERE repository_id = $1 AND name = n), '') <> $5) a"
    " WHERE (a.more > 0 AND o.had + a.more > " SQL(MANIFEST_ALL_TAGS_MAX) ") OR (o.had > " SQL(MANIFEST_ALL_TAGS_MAX)
    " AND EXISTS (SELECT FROM manifest WHERE repository_id = $1 AND digest = $5 AND media_type <> $8))"
    " UNION ALL SELECT r.manifest_digest, " SQL(TYPE_LISTED) " FROM manifest m JOIN manifest_reference r"
    " ON r.repository_id = m.repository_id AND r.digest = m.digest AND r.is_manifest"
    " WHERE m.repository_id = $1 AND m.digest = $5 AND m.media_type <> $8"
    " UNION ALL SELECT '', " SQL(NO_ROOM) " FROM project_quota q WHERE q.project_id = $6 AND q.bytes_used + $7 > q.bytes_max"
    " AND NOT EXISTS (SELECT FROM manifest WHERE repository_id = $1 AND digest = $5) LIMIT 1",
    "uuid text[] text[] text[] text uuid int8 text int8[] int8[] text[]", "text int4"};
static const struct pg_statement manifest_insert_sql = {
    "manifest_insert",
    "WITH counted AS (UPDATE project_quota SET bytes_used = bytes_used + $4 WHERE project_id = $9"
    " AND NOT EXISTS (SELECT FROM manifest WHERE repository_id = $1 AND digest = $2))"
    " INSERT INTO manifest (repository_id, digest, media_type, size_bytes, key_id, sealed, artifact_type,"
    " subject_digest, label) VALUES ($1, $2, $3, $4, $5, $6, nullif($7, ''), nullif($8, ''), $10)"
    " ON CONFLICT (repository_id, digest) DO UPDATE SET renewed_at = now(), media_type = excluded.media_type",
    "uuid text text int4 uuid bytea text text uuid text", ""};
static const struct pg_statement manifest_refer_sql = {
    "manifest_refer",
    "INSERT INTO manifest_reference (repository_id, manifest_digest, digest, is_manifest)"
    " SELECT $1, $2, d, false FROM unnest($3::text[]) AS d UNION ALL SELECT $1, $2, d, true FROM unnest($4::text[]) AS d"
    " ON CONFLICT DO NOTHING",
    "uuid text text[] text[]", ""};
static const struct pg_statement manifest_tag_sql = {
    "manifest_tag",
    "INSERT INTO tag (repository_id, name, manifest_digest) SELECT DISTINCT $1::uuid, name, $2 FROM unnest($3::text[]) AS name"
    " ON CONFLICT (repository_id, name) DO UPDATE SET manifest_digest = excluded.manifest_digest, updated_at = now()",
    "uuid text text[]", ""};
static const struct pg_statement manifest_by_digest_sql = {
    "manifest_by_digest", COLUMNS " WHERE m.repository_id = $1 AND m.digest = $2", "uuid text", COLUMN_TYPES};
static const struct pg_statement manifest_by_tag_sql = {
    "manifest_by_tag", /* a subquery, because a join may get a plan that compares all manifests with all tags */
    COLUMNS " WHERE m.repository_id = $1 AND m.digest = (SELECT manifest_digest FROM tag WHERE repository_id = $1 AND name = $2)",
    "uuid text", COLUMN_TYPES};
static const struct pg_statement manifest_referring_sql = {
    "manifest_referring",
    VALUES "(SELECT *, sum(size_bytes) OVER (ORDER BY digest) - size_bytes AS bytes_before FROM ("
           "(SELECT s.* FROM manifest s WHERE s.repository_id = $1 AND s.subject_digest = $2 AND " AFTER("s")
           " UNION ALL"
           " (SELECT s.* FROM manifest_reference r JOIN LATERAL"
           " (SELECT * FROM manifest WHERE repository_id = $1 AND digest = r.digest OFFSET 0) s ON s.subject_digest IS NULL"
           " WHERE r.repository_id = $1 AND r.is_manifest AND r.manifest_digest ="
           " (SELECT manifest_digest FROM tag WHERE repository_id = $1 AND name = $7) AND " AFTER("s")
           ") u ORDER BY digest LIMIT $5) m JOIN project_key k USING (key_id) WHERE m.bytes_before < $6"
           " ORDER BY m.digest",
    "uuid text text text int8 int8 text", COLUMN_TYPES};
static const struct pg_statement manifest_named_sql = {
    "manifest_named", /* a tag has no ':', and every digest has one */
    "SELECT digest, media_type FROM manifest WHERE repository_id = $1"
    " AND digest = coalesce((SELECT manifest_digest FROM tag WHERE repository_id = $1 AND name = $2), $2)",
    "uuid text", "text text"};
static const struct pg_statement manifest_must_stay_sql = {
    "manifest_must_stay",
    "SELECT '', " SQL(TAGS_FULL) " WHERE " HAS_TOO_MANY_TAGS("$1", "$2")
    " UNION ALL SELECT name, " SQL(TAG_STAYS) " FROM " IMMUTABLE_TAGS_OF("$1", "$2") " t"
    " UNION ALL SELECT manifest_digest, " SQL(LISTED) " FROM manifest_reference WHERE repository_id = $1 AND digest = $2"
    " AND is_manifest LIMIT 1",
    "uuid text", "text int4"};
static const struct pg_statement manifest_kept_until_sql = {
    "manifest_kept_until",
    "SELECT created_at + least($3, 100000) * interval '1 day' FROM manifest WHERE repository_id = $1 AND digest = $2"
    " AND created_at > now() - least($3, 100000) * interval '1 day'",
    "uuid text int8", "timestamptz"};
static const struct pg_statement manifest_held_sql = {"manifest_held", "SELECT " MANIFEST_IS_HELD("$1", "$2"), "uuid text", "bool"};
static const struct pg_statement manifest_untag_sql = {
    "manifest_untag", "DELETE FROM tag WHERE repository_id = $1 AND manifest_digest = $2", "uuid text", ""};
static const struct pg_statement manifest_delete_sql = {
    "manifest_delete",
    "WITH counted AS (UPDATE project_quota q SET bytes_used = q.bytes_used - m.size_bytes FROM manifest m, repository r"
    " WHERE m.repository_id = $1 AND m.digest = $2 AND r.repository_id = $1 AND q.project_id = r.project_id)"
    " DELETE FROM manifest WHERE repository_id = $1 AND digest = $2",
    "uuid text", ""};
static const struct pg_statement *const statements[] = {
    &manifest_missing_sql, &manifest_insert_sql, &manifest_refer_sql, &manifest_tag_sql, &manifest_by_digest_sql,
    &manifest_by_tag_sql, &manifest_referring_sql, &manifest_named_sql, &manifest_must_stay_sql, &manifest_kept_until_sql,
    &manifest_held_sql,
    &manifest_untag_sql, &manifest_delete_sql,
};
/* clang-format on */
const struct pg_table stored_manifest_statements = PG_TABLE(statements);

/* The digests and sizes of a manifest's references, by kind: all of them, and the required ones. */
struct digest_lists {
    struct bytes *blobs, *manifests, *types; /* types: of the manifests */
    int64_t *blob_sizes, *manifest_sizes;
    size_t blob_count, manifest_count;
};

static void digest_lists_free_owned(struct digest_lists *lists)
{
    free(lists->blobs);
    free(lists->manifests);
    free(lists->types);
    free(lists->blob_sizes);
    free(lists->manifest_sizes);
}

static struct result list_digests(const struct manifest *manifest, bool only_required, struct digest_lists *lists,
                                  struct error *err)
{
    lists->blobs = memory_zeroed(manifest->reference_count + 1, sizeof *lists->blobs);
    lists->manifests = memory_zeroed(manifest->reference_count + 1, sizeof *lists->manifests);
    lists->types = memory_zeroed(manifest->reference_count + 1, sizeof *lists->types);
    lists->blob_sizes = memory_zeroed(manifest->reference_count + 1, sizeof *lists->blob_sizes);
    lists->manifest_sizes = memory_zeroed(manifest->reference_count + 1, sizeof *lists->manifest_sizes);
    if (lists->blobs == NULL || lists->manifests == NULL || lists->types == NULL || lists->blob_sizes == NULL ||
        lists->manifest_sizes == NULL)
        return failure(err, ERROR_NO_MEMORY, "no memory for a manifest's digests");
    for (size_t i = 0; i < manifest->reference_count; i++) {
        const struct manifest_reference *reference = &manifest->references[i];
        const struct bytes digest = bytes_of_text(reference->digest);
        if (only_required && !reference->is_required) continue;
        if (reference->is_manifest) {
            lists->types[lists->manifest_count] = bytes_of_text(reference->media_type);
            lists->manifest_sizes[lists->manifest_count] = reference->size_bytes;
            lists->manifests[lists->manifest_count++] = digest;
        } else {
            lists->blob_sizes[lists->blob_count] = reference->size_bytes;
            lists->blobs[lists->blob_count++] = digest;
        }
    }
    return SUCCESS;
}

static size_t view_tags(const struct manifest_push *push, struct bytes tags[MANIFEST_TAGS_MAX])
{
    for (size_t i = 0; i < push->tag_count; i++) tags[i] = bytes_of_text(push->tags[i]);
    return push->tag_count;
}

static struct result refuse(struct pg *pg, struct manifest_push *push, const struct pg_rows *rows, struct error *err)
{
    const char *what = pg_text(rows, 0, 0);
    const int64_t reason = pg_int8(rows, 0, 1);

    push->is_wrong = reason == WRONG_SIZE || reason == WRONG_TYPE;
    switch (reason) {
    case MISSING: break;
    case TYPE_STAYS:
        return failure(err, ERROR_DENIED, "the media type of %s can't be changed: the project's rules make its tag %s immutable",
                       push->digest, what);
    case TYPE_LISTED:
        return failure(err, ERROR_DENIED, "the media type of %s can't be changed: the index %s lists it with its type",
                       push->digest, what);
    case WRONG_TYPE: return failure(err, ERROR_INVALID, "%s, as the index says: some clients could not pull it", what);
    case TAG_STAYS: return failure(err, ERROR_DENIED, "the tag %s can't be moved: the project's rules make it immutable", what);
    case TAGS_FULL:
        return failure(err, ERROR_DENIED, "%s has as many tags as one manifest may, %d: delete some of them first", push->digest,
                       MANIFEST_ALL_TAGS_MAX);
    case WRONG_SIZE: return failure(err, ERROR_INVALID, "%s, as the manifest says: no client could pull it", what);
    default: return quota_refuse(pg, &push->where.project, (int64_t)push->size_bytes, err);
    }
    (void)snprintf(push->missing, sizeof push->missing, "%s", what);
    return failure(err, ERROR_NOT_FOUND, "push %s to this repository first: the manifest needs it", push->missing);
}

static struct result check_missing(struct pg *pg, struct manifest_push *push, struct error *err)
{
    struct bytes tags[MANIFEST_TAGS_MAX];
    __attribute__((cleanup(digest_lists_free_owned))) struct digest_lists lists = {0};
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    TRY(list_digests(push->manifest, true, &lists, err));
    pg_add_uuid(&arguments, &push->where.repository);
    pg_add_text_array(&arguments, lists.blobs, lists.blob_count);
    pg_add_text_array(&arguments, lists.manifests, lists.manifest_count);
    pg_add_text_array(&arguments, tags, view_tags(push, tags));
    pg_add_text(&arguments, push->digest);
    pg_add_uuid(&arguments, &push->where.project);
    pg_add_int8(&arguments, (int64_t)push->size_bytes);
    pg_add_text(&arguments, push->manifest->media_type);
    pg_add_int8_array(&arguments, lists.blob_sizes, lists.blob_count);
    pg_add_int8_array(&arguments, lists.manifest_sizes, lists.manifest_count);
    pg_add_text_array(&arguments, lists.types, lists.manifest_count);
    TRY(pg_run(pg, &manifest_missing_sql, &arguments, &rows, err));
    return pg_rows_count(rows) == 0 ? SUCCESS : refuse(pg, push, rows, err);
}

static struct result insert_manifest(struct pg *pg, const struct manifest_push *push, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, &push->where.repository);
    pg_add_text(&arguments, push->digest);
    pg_add_text(&arguments, push->manifest->media_type);
    pg_add_int4(&arguments, (int32_t)push->size_bytes);
    pg_add_uuid(&arguments, &push->key);
    pg_add_bytes(&arguments, buffer_bytes(&push->sealed));
    pg_add_text(&arguments, push->manifest->artifact_type);
    pg_add_text(&arguments, push->manifest->subject);
    pg_add_uuid(&arguments, &push->where.project);
    pg_add_text(&arguments, push->manifest->label);
    return pg_run(pg, &manifest_insert_sql, &arguments, NULL, err);
}

static struct result insert_references(struct pg *pg, const struct manifest_push *push, struct error *err)
{
    __attribute__((cleanup(digest_lists_free_owned))) struct digest_lists lists = {0};
    struct pg_arguments arguments = {0};

    TRY(list_digests(push->manifest, false, &lists, err));
    pg_add_uuid(&arguments, &push->where.repository);
    pg_add_text(&arguments, push->digest);
    pg_add_text_array(&arguments, lists.blobs, lists.blob_count);
    pg_add_text_array(&arguments, lists.manifests, lists.manifest_count);
    return pg_run(pg, &manifest_refer_sql, &arguments, NULL, err);
}

static struct result insert_tags(struct pg *pg, const struct manifest_push *push, struct error *err)
{
    struct pg_arguments arguments = {0};
    struct bytes tags[MANIFEST_TAGS_MAX];

    if (push->tag_count == 0) return SUCCESS;
    pg_add_uuid(&arguments, &push->where.repository);
    pg_add_text(&arguments, push->digest);
    pg_add_text_array(&arguments, tags, view_tags(push, tags));
    return pg_run(pg, &manifest_tag_sql, &arguments, NULL, err);
}

struct result manifest_condition_check(struct pg *pg, const struct uuid *repository, struct manifest_condition *condition,
                                       bool is_deletion, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    if (condition == NULL || condition->holds == NULL) return SUCCESS;
    pg_add_uuid(&arguments, repository);
    pg_add_text(&arguments, condition->reference);
    TRY(pg_run(pg, &manifest_named_sql, &arguments, &rows, err));
    const bool is_there = pg_rows_count(rows) > 0;
    if (is_deletion && !is_there) return SUCCESS;
    condition->has_failed =
        !condition->holds(condition, is_there ? pg_text(rows, 0, 0) : NULL, is_there ? pg_text(rows, 0, 1) : NULL);
    if (!condition->has_failed) return SUCCESS;
    if (!is_there) return failure(err, ERROR_CONFLICT, "If-Match does not hold: %s is not there", condition->reference);
    return failure(err, ERROR_CONFLICT, "If-Match or If-None-Match does not hold: %s is %s", condition->reference,
                   pg_text(rows, 0, 0));
}

struct result manifest_rows_insert(struct pg *pg, struct manifest_push *push, struct error *err)
{
    TRY(check_missing(pg, push, err));
    TRY(manifest_condition_check(pg, &push->where.repository, push->condition, false, err));
    TRY(insert_manifest(pg, push, err));
    if (push->manifest->reference_count > 0) TRY(insert_references(pg, push, err));
    return insert_tags(pg, push, err);
}

static struct result must_stay(const struct pg_rows *reasons, struct error *err)
{
    const char *what = pg_text(reasons, 0, 0);

    if (pg_int8(reasons, 0, 1) == LISTED) return failure(err, ERROR_CONFLICT, "%s lists it: delete that first", what);
    if (pg_int8(reasons, 0, 1) == TAGS_FULL)
        return failure(err, ERROR_CONFLICT, "it has more than %d tags, and all go at once: delete some of them first",
                       MANIFEST_ALL_TAGS_MAX);
    return failure(err, ERROR_DENIED, "it can't be deleted: the project's rules make its tag %s immutable", what);
}

static struct result check_held(struct pg *pg, const struct uuid *repository, const char *digest, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, repository);
    pg_add_text(&arguments, digest);
    TRY(pg_run(pg, &manifest_held_sql, &arguments, &rows, err));
    if (!pg_bool(rows, 0, 0)) return SUCCESS;
    metric_add(&registry_metrics_rows[METRIC_KEPT_BY_HOLD], 1);
    return failure(err, ERROR_DENIED, "%s keeps it until two persons release the hold", CONTENT_HOLD_RULE);
}

/* A retention that policies require for a repository holds for each manifest in it. */
static struct result check_kept(struct pg *pg, const struct uuid *repository, const char *digest,
                                const struct policy_retention *retention, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;
    char until[CLOCK_TEXT_SIZE];

    if (retention->for_ever)
        return failure(err, ERROR_DENIED, "%s of policy %s keeps it until a set has the policy again, or declassifies it",
                       retention->rule, retention->policy);
    if (retention->days == 0) return SUCCESS;
    pg_add_uuid(&arguments, repository);
    pg_add_text(&arguments, digest);
    pg_add_int8(&arguments, retention->days);
    TRY(pg_run(pg, &manifest_kept_until_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return SUCCESS;
    metric_add(&registry_metrics_rows[METRIC_KEPT_BY_POLICY], 1);
    clock_format(pg_time_ms(rows, 0, 0), until);
    return failure(err, ERROR_DENIED, "%s of policy %s keeps it until %s", retention->rule, retention->policy, until);
}

struct result manifest_row_delete(struct pg *pg, const struct uuid *repository, const char *digest,
                                  const struct policy_retention *retention, struct manifest_condition *condition,
                                  struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL, *reasons = NULL;

    TRY(check_held(pg, repository, digest, err));
    TRY(check_kept(pg, repository, digest, retention, err));
    pg_add_uuid(&arguments, repository);
    pg_add_text(&arguments, digest);
    TRY(pg_run(pg, &manifest_must_stay_sql, &arguments, &reasons, err));
    if (pg_rows_count(reasons) > 0) return must_stay(reasons, err);
    TRY(manifest_condition_check(pg, repository, condition, true, err));
    TRY(pg_run(pg, &manifest_untag_sql, &arguments, NULL, err));
    TRY(pg_run(pg, &manifest_delete_sql, &arguments, &rows, err));
    return pg_rows_affected(rows) == 1 ? SUCCESS : failure(err, ERROR_NOT_FOUND, "this repository has no such manifest");
}

struct result manifest_rows_find(struct pg *pg, const struct uuid *repository, const char *reference, struct pg_rows **rows_out,
                                 struct error *err)
{
    const bool is_tag = tag_is_valid(bytes_of_text(reference)); /* a tag has no ':' and every digest has one */
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, repository);
    pg_add_text(&arguments, reference);
    return pg_run(pg, is_tag ? &manifest_by_tag_sql : &manifest_by_digest_sql, &arguments, rows_out, err);
}

struct result manifest_rows_referring(struct pg *pg, const struct referrer_key *key, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    char tag[TAG_MAX + 1];

    referrers_tag(key->subject, tag);
    pg_add_uuid(&arguments, &key->repository);
    pg_add_text(&arguments, key->subject);
    pg_add_text(&arguments, key->last);
    pg_add_text(&arguments, key->artifact_type);
    pg_add_int8(&arguments, key->limit);
    pg_add_int8(&arguments, key->bytes);
    pg_add_text(&arguments, tag);
    return pg_run(pg, &manifest_referring_sql, &arguments, rows_out, err);
}

struct result manifest_row_read(const struct pg_rows *rows, size_t row, struct manifest_row *row_out, struct error *err)
{
    struct manifest_row read = {
        .digest = pg_text(rows, row, 0),
        .media_type = pg_text(rows, row, 1),
        .artifact_type = pg_text(rows, row, 2),
        .size_bytes = pg_int8(rows, row, 3),
        .key = {.id = pg_uuid(rows, row, 4)},
        .sealed = pg_bytes(rows, row, 8),
    };

    TRY(key_record_read(rows, row, 5, &read.key, err));
    (void)snprintf(read.key_region, sizeof read.key_region, "%s", pg_text(rows, row, 9));
    *row_out = read;
    return SUCCESS;
}
