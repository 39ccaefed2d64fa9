/* A change of a project's home: the tables `project`, `project_key` and `project_copy`, and manifests that are sealed under a key of an old home. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "crypto/aead.h"
#include "registry/copies/copies_priv.h"
#include "registry/registry_priv.h"
#include "registry/seal_priv.h"
#include "registry/upload/upload_store.h"
#include "storage/pg_table.h"

/* clang-format off */
#define LIVE_LINK(blob) \
    "EXISTS (SELECT FROM repository_blob r JOIN repository p USING (repository_id) WHERE r.blob_id = " blob " AND p.deleted_at IS NULL)"
#define BOTH \
    "blob b JOIN blob c ON c.project_id = b.project_id AND c.digest = b.digest AND c.region_id = $3 JOIN repository_blob r ON r.blob_id = b.blob_id" \
    " JOIN repository p ON p.repository_id = r.repository_id AND p.deleted_at IS NULL"

static const struct pg_statement copy_home_pending_sql = {
    "copy_home_pending",
    "SELECT (SELECT count(*) FROM blob b WHERE b.project_id = $1 AND b.region_id = $2 AND " LIVE_LINK("b.blob_id")
    " AND NOT EXISTS (SELECT FROM blob c WHERE c.project_id = $1 AND c.region_id = $3 AND c.digest = b.digest AND c.damaged_at IS NULL)),"
    " (SELECT count(*) FROM " BOTH " WHERE b.project_id = $1 AND b.region_id = $2 AND NOT EXISTS"
    " (SELECT FROM repository_blob k WHERE k.repository_id = r.repository_id AND k.digest = r.digest AND k.blob_id = c.blob_id)),"
    " (SELECT count(*) FROM run WHERE project_id = $1 AND ended_at IS NULL)",
    "uuid text text", "int8 int8 int8"};
static const struct pg_statement copy_home_lock_sql = {
    "copy_home_lock",
    "WITH moving AS (SELECT p.project_id FROM project p JOIN project_copy c USING (project_id) WHERE p.project_id = $1 AND p.home_region = $2"
    " AND p.deleted_at IS NULL AND c.region_id = $3 AND c.move = 'to' AND c.withdrawn_at IS NULL FOR NO KEY UPDATE OF p, c) SELECT project_id FROM moving",
    "uuid text text", "uuid"};
/* An admission, or a push of what a run has brought, changes a link at home alone. */
static const struct pg_statement copy_home_flags_sql = {
    "copy_home_flags",
    "UPDATE repository_blob k SET is_pushed = r.is_pushed, is_held = r.is_held FROM " BOTH " WHERE b.project_id = $1 AND b.region_id = $2"
    " AND k.repository_id = r.repository_id AND k.digest = r.digest AND k.blob_id = c.blob_id"
    " AND (k.is_pushed <> r.is_pushed OR k.is_held <> r.is_held)",
    "uuid text text", ""};
/* So does who asks for a blob before a push of its manifest: it is kept as long as was promised. */
static const struct pg_statement copy_home_leases_sql = {
    "copy_home_leases",
    "UPDATE blob c SET lease_until = b.lease_until FROM blob b WHERE b.project_id = $1 AND b.region_id = $2 AND c.project_id = $1 AND c.region_id = $3"
    " AND c.digest = b.digest AND c.lease_until < b.lease_until",
    "uuid text text", ""};
static const struct pg_statement copy_home_uploads_sql = {
    "copy_home_uploads",
    "WITH gone AS (DELETE FROM upload WHERE project_id = $1 AND region_id = $2" UPLOAD_ENDED ")," UPLOAD_RELEASE
    " INSERT INTO abandoned_object (blob_id, region_id) SELECT blob_id, region_id FROM gone",
    "uuid text", ""};
static const struct pg_statement copy_home_old_key_sql = {
    "copy_home_old_key", "UPDATE project_key SET is_current = false WHERE project_id = $1 AND is_current", "uuid", ""};
static const struct pg_statement copy_home_set_sql = {
    "copy_home_set", "UPDATE project SET home_region = $2 WHERE project_id = $1", "uuid text", ""};
static const struct pg_statement copy_home_arrive_sql = {
    "copy_home_arrive", "DELETE FROM project_copy WHERE project_id = $1 AND region_id = $2", "uuid text", ""};
static const struct pg_statement copy_home_leave_sql = {
    "copy_home_leave",
    "INSERT INTO project_copy (project_id, region_id, withdrawn_at, move, state) VALUES ($1, $2, now(), 'from', 'withdrawing')", "uuid text", ""};
static const struct pg_statement copy_home_raise_epoch_sql = {
    "copy_home_raise_epoch", "WITH raised AS (SELECT raise_authorization_epoch($1, true) AS epoch) SELECT epoch FROM raised", "uuid", "int8"};

/* Of repositories that were deleted, manifests go by themselves. */
#define SEALED(table, owner)                                                                                                    \
    "SELECT s." owner ", s.repository_id, p.full_name, s.digest, k.key_id, k.key_version, k.wrapped_key, k.commitment, s.sealed" \
    " FROM repository p JOIN " table " s USING (repository_id) JOIN project_key k ON k.key_id = s.key_id"                        \
    " WHERE p.project_id = $1 AND p.deleted_at IS NULL AND k.region_id = $2 AND (s." owner ", s.digest) > ($3, $4)"              \
    " ORDER BY s." owner ", s.digest LIMIT 1"
#define SEALED_PARAMETERS "uuid text uuid text"
#define SEALED_COLUMNS "uuid uuid text text uuid int4 bytea bytea bytea"
static const struct pg_statement copy_home_manifest_sql = {
    "copy_home_manifest", SEALED("manifest", "repository_id"), SEALED_PARAMETERS, SEALED_COLUMNS};
static const struct pg_statement copy_home_checkpoint_sql = {
    "copy_home_checkpoint", SEALED("run_checkpoint", "run_id"), SEALED_PARAMETERS, SEALED_COLUMNS};
static const struct pg_statement copy_home_held_sql = {
    "copy_home_held", SEALED("held_manifest", "run_id"), SEALED_PARAMETERS, SEALED_COLUMNS};
#define RESEAL(table, owner) \
    "UPDATE " table " SET key_id = $5, sealed = $6 WHERE " owner " = $1 AND repository_id = $2 AND digest = $3 AND key_id = $4"
#define RESEAL_PARAMETERS "uuid uuid text uuid uuid bytea"
static const struct pg_statement copy_home_reseal_manifest_sql = {
    "copy_home_reseal_manifest", RESEAL("manifest", "repository_id"), RESEAL_PARAMETERS, ""};
static const struct pg_statement copy_home_reseal_checkpoint_sql = {
    "copy_home_reseal_checkpoint", RESEAL("run_checkpoint", "run_id"), RESEAL_PARAMETERS, ""};
static const struct pg_statement copy_home_reseal_held_sql = {
    "copy_home_reseal_held", RESEAL("held_manifest", "run_id"), RESEAL_PARAMETERS, ""};

#define HOLDS \
    "SELECT (SELECT count(*) FROM content_hold h JOIN project o USING (organisation_id) WHERE o.project_id = $1 AND h.released_at IS NULL" \
    " AND (h.project_id IS NULL OR h.project_id = $1)) +" \
    " (SELECT count(*) FROM project p JOIN organisation o USING (organisation_id) JOIN signed_hold h ON h.until > now() AND" \
    " (h.content IN (o.name, o.name || '/' || p.name) OR starts_with(h.content, o.name || '/' || p.name || '/')) WHERE p.project_id = $1)"
static const struct pg_statement copy_home_holds_sql = {"copy_home_holds", HOLDS, "uuid", "int8"};
static const struct pg_statement copy_home_repository_sql = {
    "copy_home_repository",
    "SELECT full_name FROM repository p WHERE project_id = $1 AND deleted_at IS NULL AND full_name COLLATE \"C\" > $2"
    " AND EXISTS (SELECT FROM manifest m WHERE m.repository_id = p.repository_id) ORDER BY full_name COLLATE \"C\" LIMIT 1",
    "uuid text", "text"};
static const struct pg_statement copy_home_regions_sql = {
    "copy_home_regions",
    "SELECT home_region FROM project WHERE project_id = $1 UNION ALL SELECT region_id FROM project_copy WHERE project_id = $1"
    " AND withdrawn_at IS NULL AND state = 'current' LIMIT $2",
    "uuid int8", "text"};
#define NEEDS_KEY(table) \
    " AND NOT EXISTS (SELECT FROM repository p JOIN " table " s USING (repository_id) WHERE p.project_id = $1 AND s.key_id = k.key_id)"
static const struct pg_statement copy_home_forget_keys_sql = {
    "copy_home_forget_keys",
    "DELETE FROM project_key k WHERE k.project_id = $1 AND k.region_id = $2 AND NOT k.is_current"
    NEEDS_KEY("manifest") NEEDS_KEY("run_checkpoint") NEEDS_KEY("held_manifest"),
    "uuid text", ""};
static const struct pg_statement copy_home_is_empty_sql = {
    "copy_home_is_empty",
    "SELECT NOT EXISTS (SELECT FROM blob WHERE project_id = $1 AND region_id = $2) AND (SELECT count(*) FROM project_key WHERE project_id = $1 AND region_id = $2)"
    " = (SELECT count(*) FROM project_key k WHERE k.project_id = $1 AND k.region_id = $2 AND NOT k.is_current"
    NEEDS_KEY("manifest") NEEDS_KEY("run_checkpoint") NEEDS_KEY("held_manifest") ")",
    "uuid text", "bool"};
static const struct pg_statement copy_home_forget_sql = {
    "copy_home_forget",
    "DELETE FROM project_copy c WHERE c.project_id = $1 AND c.region_id = $2 AND c.move = 'from' AND c.withdrawn_at IS NOT NULL"
    " AND NOT EXISTS (SELECT FROM project_key WHERE project_id = $1 AND region_id = $2)"
    " AND NOT EXISTS (SELECT FROM blob WHERE project_id = $1 AND region_id = $2)"
    " AND NOT EXISTS (SELECT FROM copying WHERE project_id = $1 AND region_id = $2)",
    "uuid text", ""};

static const struct pg_statement copy_home_count_sql = {
    "copy_home_count",
    "SELECT o.home_region, (SELECT count(*) FROM repository p JOIN manifest m USING (repository_id) WHERE p.project_id = $1 AND p.deleted_at IS NULL),"
    " (SELECT count(*) FROM run WHERE project_id = $1 AND ended_at IS NULL), (SELECT count(*) FROM upload WHERE project_id = $1),"
    " (" HOLDS "), NOT EXISTS (SELECT FROM project_quota q WHERE q.project_id = $1 AND q.bytes_used + (SELECT coalesce(sum(b.size_bytes), 0)"
    " FROM blob b WHERE b.project_id = $1 AND b.region_id = o.home_region AND " LIVE_LINK("b.blob_id") ") > q.bytes_max)"
    " FROM project o WHERE o.project_id = $1 AND o.deleted_at IS NULL",
    "uuid", "text int8 int8 int8 int8 bool"};
static const struct pg_statement copy_home_links_sql = {
    "copy_home_links",
    "SELECT b.digest, p.full_name, p.repository_id, b.size_bytes, (SELECT count(*) FROM (SELECT FROM repository_blob n JOIN repository m USING (repository_id)"
    " WHERE n.blob_id = b.blob_id AND m.deleted_at IS NULL LIMIT $6) few), b.damaged_at IS NOT NULL FROM blob b JOIN repository_blob r USING (blob_id)"
    " JOIN repository p ON p.repository_id = r.repository_id AND p.deleted_at IS NULL WHERE b.project_id = $1 AND b.region_id = $2"
    " AND b.digest >= $3 AND (b.digest, p.repository_id) > ($3, $4) ORDER BY b.digest, p.repository_id LIMIT $5",
    "uuid text text uuid int8 int8", "text text uuid int8 int8 bool"};
static const struct pg_statement *const statements[] = {
    &copy_home_pending_sql, &copy_home_lock_sql, &copy_home_flags_sql, &copy_home_leases_sql, &copy_home_uploads_sql, &copy_home_old_key_sql, &copy_home_set_sql,
    &copy_home_arrive_sql, &copy_home_leave_sql, &copy_home_raise_epoch_sql, &copy_home_manifest_sql, &copy_home_checkpoint_sql,
    &copy_home_held_sql, &copy_home_reseal_manifest_sql, &copy_home_reseal_checkpoint_sql, &copy_home_reseal_held_sql, &copy_home_holds_sql,
    &copy_home_repository_sql, &copy_home_regions_sql, &copy_home_forget_keys_sql, &copy_home_is_empty_sql, &copy_home_forget_sql, &copy_home_count_sql,
    &copy_home_links_sql,
};
/* clang-format on */
const struct pg_table copy_home_statements = PG_TABLE(statements);

/* ---- The change ---- */

static void add_way(struct pg_arguments *arguments, const struct copy_way *way)
{
    *arguments = (struct pg_arguments){0};
    pg_add_uuid(arguments, &way->project);
    pg_add_text(arguments, way->from);
    pg_add_text(arguments, way->to);
}

/* Of the project and one region. */
static struct result run_at(struct pg *pg, const struct pg_statement *statement, const struct uuid *project, const char *region,
                            struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, project);
    pg_add_text(&arguments, region);
    return pg_run(pg, statement, &arguments, NULL, err);
}

static struct result run_of(struct pg *pg, const struct pg_statement *statement, const struct uuid *id, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, id);
    return pg_run(pg, statement, &arguments, NULL, err);
}

struct result copy_home_pending(struct pg *pg, const struct copy_way *way, struct home_pending *pending_out, struct error *err)
{
    struct pg_arguments arguments;
    OWNED(pg_rows) *rows = NULL;

    add_way(&arguments, way);
    TRY(pg_run(pg, &copy_home_pending_sql, &arguments, &rows, err));
    *pending_out = (struct home_pending){
        .blobs = (uint64_t)pg_int8(rows, 0, 0), .links = (uint64_t)pg_int8(rows, 0, 1), .runs = (uint64_t)pg_int8(rows, 0, 2)};
    return SUCCESS;
}

/* No event of another gateway comes between: each one stands in the log, and this change is a part of one. */
static struct result check(struct pg *pg, const struct copy_way *way, struct error *err)
{
    struct home_pending pending;
    struct pg_arguments arguments;
    OWNED(pg_rows) *rows = NULL;

    add_way(&arguments, way);
    TRY(pg_run(pg, &copy_home_lock_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return failure(err, ERROR_CONFLICT, "nobody wants this home any more");
    TRY(copy_home_pending(pg, way, &pending, err));
    if (pending.blobs == 0 && pending.links == 0 && pending.runs == 0) return SUCCESS;
    return failure(err, ERROR_CONFLICT, "content has come meanwhile");
}

static struct result set_key(struct pg *pg, const struct copy_way *way, const struct key_record *key, struct error *err)
{
    struct resource where = {.kind = RESOURCE_PROJECT, .organisation = way->organisation, .project = way->project};

    (void)snprintf(where.region, sizeof where.region, "%s", way->to);
    TRY(run_of(pg, &copy_home_old_key_sql, &way->project, err));
    return project_key_insert(pg, &where, key, err);
}

struct result copy_home_set(struct pg *pg, const struct copy_way *way, const struct key_record *key, struct error *err)
{
    struct pg_arguments arguments;

    TRY(check(pg, way, err));
    add_way(&arguments, way);
    TRY(pg_run(pg, &copy_home_flags_sql, &arguments, NULL, err));
    TRY(pg_run(pg, &copy_home_leases_sql, &arguments, NULL, err));
    TRY(run_at(pg, &copy_home_uploads_sql, &way->project, way->from, err));
    TRY(set_key(pg, way, key, err));
    TRY(run_at(pg, &copy_home_set_sql, &way->project, way->to, err));
    TRY(copying_delete_all(pg, way, err)); /* begun of what is gone */
    TRY(run_at(pg, &copy_home_arrive_sql, &way->project, way->to, err));
    TRY(run_at(pg, &copy_home_leave_sql, &way->project, way->from, err));
    return run_of(pg, &copy_home_raise_epoch_sql, &way->organisation, err);
}

/* ---- Manifests ---- */

static const struct pg_statement *const listing[SEALED_TABLES] = {&copy_home_manifest_sql, &copy_home_checkpoint_sql,
                                                                  &copy_home_held_sql};
static const struct pg_statement *const resealing[SEALED_TABLES] = {&copy_home_reseal_manifest_sql,
                                                                    &copy_home_reseal_checkpoint_sql, &copy_home_reseal_held_sql};

struct result copy_home_sealed_next(struct pg *pg, const struct copy_way *way, const struct home_sealed *after,
                                    struct home_sealed *sealed_out, bool *found_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &way->project);
    pg_add_text(&arguments, way->to);
    pg_add_uuid(&arguments, &after->owner);
    pg_add_text(&arguments, after->digest);
    TRY(pg_run(pg, listing[after->table], &arguments, &rows, err));
    *found_out = pg_rows_count(rows) > 0;
    if (!*found_out) return SUCCESS;
    struct home_sealed sealed = {.table = after->table,
                                 .owner = pg_uuid(rows, 0, 0),
                                 .link = {.repository = pg_uuid(rows, 0, 1)},
                                 .key = {.id = pg_uuid(rows, 0, 4)},
                                 .sealed = BUFFER(MANIFEST_SIZE_MAX + BOX_OVERHEAD)};
    (void)snprintf(sealed.link.name, sizeof sealed.link.name, "%s", pg_text(rows, 0, 2));
    (void)snprintf(sealed.digest, sizeof sealed.digest, "%s", pg_text(rows, 0, 3));
    TRY(key_record_read(rows, 0, 5, &sealed.key, err));
    const struct bytes body = pg_bytes(rows, 0, 8);
    TRY(buffer_add(&sealed.sealed, body.data, body.length, err));
    *sealed_out = sealed;
    return SUCCESS;
}

struct result copy_home_reseal(struct pg *pg, const struct home_sealed *item, const struct uuid *key, struct bytes sealed,
                               struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &item->owner);
    pg_add_uuid(&arguments, &item->link.repository);
    pg_add_text(&arguments, item->digest);
    pg_add_uuid(&arguments, &item->key.id);
    pg_add_uuid(&arguments, key);
    pg_add_bytes(&arguments, sealed);
    TRY(pg_run(pg, resealing[item->table], &arguments, &rows, err));
    return pg_rows_affected(rows) > 0 ? SUCCESS : failure(err, ERROR_CONFLICT, "the manifest is gone, or under another key");
}

/* ---- The old home ---- */

struct result copy_home_holds(struct pg *pg, const struct uuid *project, uint64_t *holds_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, project);
    TRY(pg_run(pg, &copy_home_holds_sql, &arguments, &rows, err));
    *holds_out = (uint64_t)pg_int8(rows, 0, 0);
    return SUCCESS;
}

struct result copy_home_repository(struct pg *pg, const struct uuid *project, const char *after,
                                   char name_out[RESOURCE_NAME_MAX + 1], struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, project);
    pg_add_text(&arguments, after);
    TRY(pg_run(pg, &copy_home_repository_sql, &arguments, &rows, err));
    (void)snprintf(name_out, RESOURCE_NAME_MAX + 1, "%s", pg_rows_count(rows) == 0 ? "" : pg_text(rows, 0, 0));
    return SUCCESS;
}

struct result copy_home_regions(struct pg *pg, const struct uuid *project, struct placed_region regions_out[COPY_REGIONS_MAX + 1],
                                size_t *count_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, project);
    pg_add_int8(&arguments, COPY_REGIONS_MAX + 1);
    TRY(pg_run(pg, &copy_home_regions_sql, &arguments, &rows, err));
    *count_out = pg_rows_count(rows);
    for (size_t i = 0; i < *count_out; i++) {
        regions_out[i] = (struct placed_region){.stale_s = 0};
        (void)snprintf(regions_out[i].region, sizeof regions_out[i].region, "%s", pg_text(rows, i, 0));
    }
    return SUCCESS;
}

struct result copy_home_is_empty(struct pg *pg, const struct copy_way *way, bool *is_empty_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &way->project);
    pg_add_text(&arguments, way->to);
    TRY(pg_run(pg, &copy_home_is_empty_sql, &arguments, &rows, err));
    *is_empty_out = pg_bool(rows, 0, 0);
    return SUCCESS;
}

struct result copy_home_forget(struct pg *pg, const struct copy_way *way, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    TRY(run_at(pg, &copy_home_forget_keys_sql, &way->project, way->to, err));
    pg_add_uuid(&arguments, &way->project);
    pg_add_text(&arguments, way->to);
    TRY(pg_run(pg, &copy_home_forget_sql, &arguments, &rows, err));
    return pg_rows_affected(rows) == 1 ? SUCCESS : failure(err, ERROR_CONFLICT, "something is left in the old home");
}

/* ---- A plan ---- */

struct result copy_home_count(struct pg *pg, const struct uuid *project, struct move_plan *plan, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, project);
    TRY(pg_run(pg, &copy_home_count_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return failure(err, ERROR_NOT_FOUND, "there is no such project");
    (void)snprintf(plan->from, sizeof plan->from, "%s", pg_text(rows, 0, 0));
    plan->manifests = (uint64_t)pg_int8(rows, 0, 1);
    plan->runs = (uint64_t)pg_int8(rows, 0, 2);
    plan->uploads = (uint64_t)pg_int8(rows, 0, 3);
    plan->holds = (uint64_t)pg_int8(rows, 0, 4);
    plan->has_room = pg_bool(rows, 0, 5);
    return SUCCESS;
}

struct result copy_home_links(struct pg *pg, const struct copy_way *way, const struct home_link *after,
                              struct home_link *links_out, size_t *count_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &way->project);
    pg_add_text(&arguments, way->from);
    pg_add_text(&arguments, after->digest);
    pg_add_uuid(&arguments, &after->repository);
    pg_add_int8(&arguments, HOME_PAGE_MAX);
    pg_add_int8(&arguments, COPY_LINKS_MAX + 1);
    TRY(pg_run(pg, &copy_home_links_sql, &arguments, &rows, err));
    *count_out = pg_rows_count(rows);
    assert(*count_out <= HOME_PAGE_MAX);
    for (size_t i = 0; i < *count_out; i++) {
        links_out[i] = (struct home_link){.repository = pg_uuid(rows, i, 2),
                                          .bytes = (uint64_t)pg_int8(rows, i, 3),
                                          .links = pg_int8(rows, i, 4),
                                          .is_damaged = pg_bool(rows, i, 5)};
        (void)snprintf(links_out[i].digest, sizeof links_out[i].digest, "%s", pg_text(rows, i, 0));
        (void)snprintf(links_out[i].name, sizeof links_out[i].name, "%s", pg_text(rows, i, 1));
    }
    return SUCCESS;
}
