/* The tables `misplaced_content` and `placement_review`. */
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "registry/copies/placement_priv.h"
#include "storage/pg_table.h"

/* clang-format off */
/* The epoch of the policy set is above the 40 bits of names (policy/decider/copies.c). A gateway that knows an older set than the look is of leaves it alone
 * for ten minutes. The row is no signature: times that no gateway writes, and a set that none has, keep no look away. */
static const struct pg_statement placement_claim_sql = {
    "placement_claim",
    "UPDATE placement_review v SET runner = $1, lease_until = now() + interval '30 seconds', version = CASE WHEN n.begins THEN $2 ELSE v.version END,"
    " restrictions = CASE WHEN n.begins THEN $3 ELSE v.restrictions END, began_at = CASE WHEN n.begins THEN now() ELSE v.began_at END,"
    " after = CASE WHEN n.begins THEN '00000000-0000-0000-0000-000000000000' ELSE v.after END"
    " FROM (SELECT after, version >> 40 < $2 >> 40 OR (after IS NULL AND (began_at <= now() - interval '10 minutes'"
    " OR (began_at <= now() - interval '30 seconds' AND ((version & 1099511627775) < ($2::int8 & 1099511627775) OR restrictions <> $3))))"
    " OR began_at > now() + interval '1 minute' OR (version >> 40 > $2 >> 40 AND began_at <= now() - interval '10 minutes') AS begins FROM placement_review) n"
    " WHERE (v.lease_until IS NULL OR v.lease_until NOT BETWEEN now() AND now() + interval '1 minute' OR v.runner = $1)"
    " AND (v.version >> 40 <= $2 >> 40 OR n.begins) AND (n.begins OR n.after IS NOT NULL)"
    " RETURNING v.after",
    "text int8 int8", "uuid"};
static const struct pg_statement placement_save_sql = {
    "placement_save",
    "UPDATE placement_review SET after = $2, lease_until = CASE WHEN $2::uuid IS NULL THEN NULL ELSE now() + interval '30 seconds' END,"
    " done_version = CASE WHEN $2::uuid IS NULL THEN version ELSE done_version END WHERE runner = $1 AND lease_until IS NOT NULL",
    "text uuid", ""};
static const struct pg_statement placement_page_sql = {
    "placement_page",
    "SELECT r.repository_id, r.full_name, p.organisation_id, p.project_id, p.home_region, m.repository_id IS NOT NULL, coalesce(m.region_id, ''),"
    " coalesce(m.operation, ''), coalesce(m.rule, ''), EXISTS (SELECT FROM repository_blob b WHERE b.repository_id = r.repository_id)"
    " OR EXISTS (SELECT FROM manifest f WHERE f.repository_id = r.repository_id) FROM repository r JOIN project p USING (project_id)"
    " LEFT JOIN misplaced_content m USING (repository_id) WHERE r.repository_id > $1 AND r.deleted_at IS NULL AND p.deleted_at IS NULL"
    " ORDER BY r.repository_id LIMIT $2",
    "uuid int8", "uuid text uuid uuid text bool text text text bool"};
static const struct pg_statement misplaced_insert_sql = {
    "misplaced_insert",
    "INSERT INTO misplaced_content (repository_id, region_id, operation, rule, policy, set_epoch) SELECT r.repository_id, $2, $3, $4, $5, $6"
    " FROM repository r JOIN project p USING (project_id) WHERE r.repository_id = $1 AND r.deleted_at IS NULL AND p.deleted_at IS NULL AND p.home_region = $2"
    " AND (EXISTS (SELECT FROM repository_blob WHERE repository_id = $1) OR EXISTS (SELECT FROM manifest WHERE repository_id = $1))"
    " ON CONFLICT (repository_id) DO UPDATE SET region_id = excluded.region_id, operation = excluded.operation, rule = excluded.rule,"
    " policy = excluded.policy, set_epoch = excluded.set_epoch",
    "uuid text text text text int8", ""};
static const struct pg_statement misplaced_delete_sql = {
    "misplaced_delete", "DELETE FROM misplaced_content WHERE repository_id = $1", "uuid", ""};
static const struct pg_statement misplaced_raise_epoch_sql = {
    "misplaced_raise_epoch", "WITH raised AS (SELECT raise_authorization_epoch($1, true) AS epoch) SELECT epoch FROM raised", "uuid", "int8"};
static const struct pg_statement misplaced_count_sql = {
    "misplaced_count", "SELECT (SELECT count(*) FROM misplaced_content), done_version FROM placement_review", "", "int8 int8"};
static const struct pg_statement misplaced_list_sql = {
    "misplaced_list",
    "SELECT r.full_name, m.operation, m.rule, m.policy, m.found_at, count(*) OVER () FROM misplaced_content m JOIN repository r USING (repository_id)"
    " WHERE r.project_id = $1 AND r.deleted_at IS NULL ORDER BY r.full_name COLLATE \"C\" LIMIT $2",
    "uuid int8", "text text text text timestamptz int8"};
static const struct pg_statement *const statements[] = {
    &placement_claim_sql, &placement_save_sql, &placement_page_sql, &misplaced_insert_sql, &misplaced_delete_sql,
    &misplaced_raise_epoch_sql, &misplaced_count_sql, &misplaced_list_sql,
};
/* clang-format on */
const struct pg_table placement_statements = PG_TABLE(statements);

/* ---- The look ---- */

struct result placement_claim(struct pg *pg, const char *instance, const struct place_version *version, struct uuid *after_out,
                              bool *claimed_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_text(&arguments, instance);
    pg_add_int8(&arguments, (int64_t)version->version);
    pg_add_int8(&arguments, version->restrictions);
    TRY(pg_run(pg, &placement_claim_sql, &arguments, &rows, err));
    *claimed_out = pg_rows_count(rows) == 1;
    if (*claimed_out) *after_out = pg_uuid(rows, 0, 0);
    return SUCCESS;
}

struct result placement_save(struct pg *pg, const char *instance, const struct uuid *after, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_text(&arguments, instance);
    pg_add_uuid(&arguments, after);
    TRY(pg_run(pg, &placement_save_sql, &arguments, &rows, err));
    return pg_rows_affected(rows) == 1 ? SUCCESS : failure(err, ERROR_CONFLICT, "another gateway has the look");
}

static void read_repository(const struct pg_rows *rows, size_t row, struct placed_repository *repository)
{
    struct resource *where = &repository->where;

    *where = (struct resource){.kind = RESOURCE_REPOSITORY,
                               .repository = pg_uuid(rows, row, 0),
                               .organisation = pg_uuid(rows, row, 2),
                               .project = pg_uuid(rows, row, 3)};
    (void)snprintf(where->name, sizeof where->name, "%s", pg_text(rows, row, 1));
    (void)snprintf(where->region, sizeof where->region, "%s", pg_text(rows, row, 4));
    repository->is_misplaced = pg_bool(rows, row, 5);
    (void)snprintf(repository->region, sizeof repository->region, "%s", pg_text(rows, row, 6));
    (void)snprintf(repository->operation, sizeof repository->operation, "%s", pg_text(rows, row, 7));
    (void)snprintf(repository->rule, sizeof repository->rule, "%s", pg_text(rows, row, 8));
    repository->has_content = pg_bool(rows, row, 9);
}

struct result placement_page(struct pg *pg, const struct uuid *after, struct placed_repository **page_out, size_t *count_out,
                             struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, after);
    pg_add_int8(&arguments, PLACEMENT_PAGE_MAX);
    TRY(pg_run(pg, &placement_page_sql, &arguments, &rows, err));
    struct placed_repository *page = memory_zeroed(pg_rows_count(rows) + 1, sizeof *page);
    if (page == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a page of repositories");
    for (size_t i = 0; i < pg_rows_count(rows); i++) read_repository(rows, i, &page[i]);
    *count_out = pg_rows_count(rows);
    *page_out = page;
    return SUCCESS;
}

/* ---- Changes ---- */

static struct result raise_epoch(struct pg *pg, const struct resource *where, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, &where->organisation);
    return pg_run(pg, &misplaced_raise_epoch_sql, &arguments, NULL, err);
}

struct result misplaced_insert(struct pg *pg, const struct resource *where, const struct place_answer *answer, uint64_t set_epoch,
                               struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &where->repository);
    pg_add_text(&arguments, where->region);
    pg_add_text(&arguments, answer->operation);
    pg_add_text(&arguments, answer->rule);
    pg_add_text(&arguments, answer->policy);
    pg_add_int8(&arguments, (int64_t)set_epoch);
    TRY(pg_run(pg, &misplaced_insert_sql, &arguments, &rows, err));
    if (pg_rows_affected(rows) != 1) return failure(err, ERROR_CONFLICT, "it has nothing there any more");
    return raise_epoch(pg, where, err);
}

struct result misplaced_delete(struct pg *pg, const struct resource *where, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &where->repository);
    TRY(pg_run(pg, &misplaced_delete_sql, &arguments, &rows, err));
    if (pg_rows_affected(rows) != 1) return failure(err, ERROR_CONFLICT, "somebody was first");
    return raise_epoch(pg, where, err);
}

/* ---- Reading ---- */

struct result misplaced_count(struct pg *pg, uint64_t *count_out, uint64_t *version_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    TRY(pg_run(pg, &misplaced_count_sql, NULL, &rows, err));
    if (pg_rows_count(rows) != 1) return failure(err, ERROR_CORRUPT, "the database has no row of the look at places");
    *count_out = (uint64_t)pg_int8(rows, 0, 0);
    *version_out = (uint64_t)pg_int8(rows, 0, 1);
    return SUCCESS;
}

struct result placement_list(const struct permit *permit, struct pg *pg, struct misplaced list_out[MISPLACED_MAX],
                             size_t *count_out, uint64_t *all_out, struct error *err)
{
    const struct resource *where = permit_resource(permit, ACTION_PROJECT_READ);
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, &where->project);
    pg_add_int8(&arguments, MISPLACED_MAX);
    TRY(pg_run(pg, &misplaced_list_sql, &arguments, &rows, err));
    *all_out = pg_rows_count(rows) == 0 ? 0 : (uint64_t)pg_int8(rows, 0, 5);
    *count_out = pg_rows_count(rows);
    for (size_t i = 0; i < *count_out; i++) {
        list_out[i] = (struct misplaced){.found_ms = pg_time_ms(rows, i, 4)};
        (void)snprintf(list_out[i].name, sizeof list_out[i].name, "%s", pg_text(rows, i, 0));
        (void)snprintf(list_out[i].operation, sizeof list_out[i].operation, "%s", pg_text(rows, i, 1));
        (void)snprintf(list_out[i].rule, sizeof list_out[i].rule, "%s", pg_text(rows, i, 2));
        (void)snprintf(list_out[i].policy, sizeof list_out[i].policy, "%s", pg_text(rows, i, 3));
    }
    return SUCCESS;
}
