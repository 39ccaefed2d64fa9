/* The state of a region: columns of the table `region`, and what refers to it. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "registry/region_scan_priv.h"
#include "storage/pg_table.h"
#include "storage/region_store.h"

/* clang-format off */
/* Objects of the region that are no blobs of projects. */
#define OTHERS \
    "(SELECT count(*) FROM upload WHERE region_id = $1) + (SELECT count(*) FROM abandoned_object WHERE region_id = $1)" \
    " + (SELECT count(*) FROM run_log WHERE region_id = $1 AND gone_at IS NULL) + (SELECT count(*) FROM run_log_piece WHERE region_id = $1)" \
    " + (SELECT count(*) FROM audit_archive WHERE region_id = $1)"

static const struct pg_statement region_content_sql = {
    "region_content",
    "SELECT b.blobs, b.bytes, (SELECT count(*) FROM project WHERE home_region = $1 AND emptied_at IS NULL), " OTHERS ","
    " (SELECT count(*) FROM forgotten_key WHERE region_id = $1)"
    " FROM (SELECT count(*) AS blobs, coalesce(sum(size_bytes), 0)::int8 AS bytes FROM blob WHERE region_id = $1) b"
    " WHERE EXISTS (SELECT FROM region WHERE region_id = $1)",
    "text", "int8 int8 int8 int8 int8"};
static const struct pg_statement region_projects_sql = {
    "region_projects",
    "SELECT o.name || '/' || p.name, p.home_region = $1, coalesce(b.blobs, 0), coalesce(b.bytes, 0) FROM project p"
    " JOIN organisation o USING (organisation_id) LEFT JOIN (SELECT project_id, count(*) AS blobs, sum(size_bytes)::int8 AS bytes FROM blob"
    " WHERE region_id = $1 GROUP BY project_id) b USING (project_id)"
    " WHERE ((p.home_region = $1 AND p.emptied_at IS NULL) OR b.blobs > 0) AND (o.name || '/' || p.name) COLLATE \"C\" > $2"
    " ORDER BY (o.name || '/' || p.name) COLLATE \"C\" LIMIT $3",
    "text text int8", "text bool int8 int8"};
static const struct pg_statement region_drain_sql = {
    "region_drain", "UPDATE region SET draining_since = coalesce(draining_since, now()) WHERE region_id = $1 AND retired_at IS NULL", "text", ""};
static const struct pg_statement region_reopen_sql = {
    "region_reopen", "UPDATE region SET draining_since = NULL WHERE region_id = $1 AND retired_at IS NULL", "text", ""};
static const struct pg_statement region_retire_sql = {
    "region_retire",
    "UPDATE region SET retired_at = now() WHERE region_id = $1 AND draining_since IS NOT NULL AND retired_at IS NULL AND " OTHERS " = 0"
    " AND NOT EXISTS (SELECT FROM blob WHERE region_id = $1)"
    " AND NOT EXISTS (SELECT FROM project WHERE home_region = $1 AND emptied_at IS NULL)"
    " AND NOT EXISTS (SELECT FROM project_copy WHERE region_id = $1)"
    " AND NOT EXISTS (SELECT FROM forgotten_key WHERE region_id = $1 AND sequence IS NULL)",
    "text", ""};
static const struct pg_statement region_quarantine_sql = {
    "region_quarantine",
    "UPDATE region SET quarantined_since = now(), quarantined_for = $2, quarantined_epoch = $3 WHERE region_id = $1 AND quarantined_since IS NULL"
    " AND retired_at IS NULL",
    "text text int8", ""};
static const struct pg_statement region_release_sql = {
    "region_release",
    "UPDATE region SET quarantined_since = NULL, quarantined_for = NULL, quarantined_epoch = NULL WHERE region_id = $1"
    " AND quarantined_since IS NOT NULL",
    "text", ""};
static const struct pg_statement region_mark_sql = {
    "region_mark", "UPDATE region SET mark = $2 WHERE region_id = $1 AND mark IS NULL AND retired_at IS NULL", "text text", ""};
/* Keys that are there already are under another sijil-keyd. */
static const struct pg_statement region_keyd_sql = {
    "region_keyd",
    "UPDATE region SET keyd = $2 WHERE region_id = $1 AND keyd IS NULL AND retired_at IS NULL"
    " AND NOT EXISTS (SELECT FROM blob WHERE region_id = $1) AND NOT EXISTS (SELECT FROM project_key WHERE region_id = $1)"
    " AND NOT EXISTS (SELECT FROM upload WHERE region_id = $1) AND NOT EXISTS (SELECT FROM run_log_piece WHERE region_id = $1)",
    "text text", ""};
static const struct pg_statement region_raise_epoch_sql = {
    "region_raise_epoch", "WITH raised AS (SELECT raise_authorization_epoch() AS epoch) SELECT epoch FROM raised", "", "int8"};
static const struct pg_statement *const statements[] = {
    &region_content_sql, &region_projects_sql, &region_drain_sql, &region_reopen_sql, &region_retire_sql, &region_quarantine_sql,
    &region_release_sql, &region_mark_sql, &region_keyd_sql, &region_raise_epoch_sql,
};
/* clang-format on */
const struct pg_table region_state_statements = PG_TABLE(statements);

struct result region_content_count(const struct permit *permit, struct pg *pg, const char *region,
                                   struct region_content *content_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    (void)permit_resource(permit, ACTION_REGION_READ);
    pg_add_text(&arguments, region);
    TRY(pg_run(pg, &region_content_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return failure(err, ERROR_NOT_FOUND, "there is no region %.63s", region);
    *content_out = (struct region_content){.blobs = (uint64_t)pg_int8(rows, 0, 0),
                                           .bytes = (uint64_t)pg_int8(rows, 0, 1),
                                           .projects = (uint64_t)pg_int8(rows, 0, 2),
                                           .others = (uint64_t)pg_int8(rows, 0, 3),
                                           .forgotten = (uint64_t)pg_int8(rows, 0, 4)};
    return SUCCESS;
}

struct result region_content_list(const struct permit *permit, struct pg *pg, const struct region_page *page,
                                  struct region_projects *projects_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    (void)permit_resource(permit, ACTION_REGION_READ);
    pg_add_text(&arguments, page->region);
    pg_add_text(&arguments, page->after);
    pg_add_int8(&arguments, (int64_t)page->limit);
    TRY(pg_run(pg, &region_projects_sql, &arguments, &rows, err));
    const size_t count = pg_rows_count(rows);
    struct region_project *projects = memory_zeroed(count + 1, sizeof *projects);
    if (projects == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(projects[i].name, sizeof projects[i].name, "%s", pg_text(rows, i, 0));
        projects[i].is_home = pg_bool(rows, i, 1);
        projects[i].blobs = (uint64_t)pg_int8(rows, i, 2);
        projects[i].bytes = (uint64_t)pg_int8(rows, i, 3);
    }
    *projects_out = (struct region_projects){projects, count};
    return SUCCESS;
}

/* ---- Changes ---- */

static struct result raise_epoch(struct pg *pg, struct error *err)
{
    return pg_run(pg, &region_raise_epoch_sql, NULL, NULL, err);
}

static const struct {
    enum action action;
    const struct pg_statement *statement;
    const char *refusal;
} turns[] = {
    [REGION_TURN_DRAIN] = {ACTION_REGION_DRAIN, &region_drain_sql, "there is no such region, or it is retired"},
    [REGION_TURN_REOPEN] = {ACTION_REGION_REOPEN, &region_reopen_sql, "there is no such region, or it is retired"},
    [REGION_TURN_RETIRE] = {
        ACTION_REGION_RETIRE, &region_retire_sql,
        "the region is not draining, or is not empty: 'sijil region show' says what is there. Keys that were forgotten within the "
        "last minutes may not be in the log yet"}};

static struct result run_turn(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct region_change *region = (const struct region_change *)(const void *)change; /* its first member */
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    permit_require(permit, turns[region->turn].action, &region->where);
    pg_add_text(&arguments, region->where.region);
    TRY(pg_run(pg, turns[region->turn].statement, &arguments, &rows, err));
    if (pg_rows_affected(rows) == 0) return failure(err, ERROR_CONFLICT, "%s", turns[region->turn].refusal);
    return raise_epoch(pg, err);
}

void region_change_prepare(const struct resource *where, enum region_turn turn, struct region_change *change_out)
{
    *change_out =
        (struct region_change){.change = {.run = run_turn, .raises_epoch = true, .invalidates = CHANGE_INVALIDATES_NOTHING},
                               .where = *where,
                               .turn = turn};
}

static struct result add_row(const struct region_step *step, struct pg *pg, struct error *err)
{
    struct error why = {0};

    const struct result added = region_insert(pg, step->opened, &why);
    return added.ok ? raise_epoch(pg, err) : failure(err, why.kind, "%s", why.message);
}

static const struct pg_statement *statement_of(enum action action)
{
    if (action == ACTION_REGION_MARK) return &region_mark_sql;
    if (action == ACTION_REGION_KEYD) return &region_keyd_sql;
    return action == ACTION_REGION_QUARANTINE ? &region_quarantine_sql : &region_release_sql;
}

static struct result run_step(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    struct region_step *step = (struct region_step *)(void *)change; /* its first member */
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    permit_require(permit, step->action, &step->where);
    if (step->action == ACTION_REGION_OPEN) return add_row(step, pg, err);
    pg_add_text(&arguments, step->where.region);
    if (step->action != ACTION_REGION_RELEASE) pg_add_text(&arguments, step->text);
    if (step->action == ACTION_REGION_QUARANTINE) pg_add_int8(&arguments, (int64_t)step->epoch);
    TRY(pg_run(pg, statement_of(step->action), &arguments, &rows, err));
    step->is_done = pg_rows_affected(rows) == 1;
    if (!step->is_done) return failure(err, ERROR_CONFLICT, "another gateway was first, or the region has keys already");
    return raise_epoch(pg, err);
}

void region_step_prepare(enum action action, struct region_step *step_out)
{
    assert(action == ACTION_REGION_QUARANTINE || action == ACTION_REGION_RELEASE || action == ACTION_REGION_MARK ||
           action == ACTION_REGION_OPEN || action == ACTION_REGION_KEYD);
    *step_out = (struct region_step){.change = {.run = run_step, .raises_epoch = true, .invalidates = CHANGE_INVALIDATES_NOTHING},
                                     .action = action};
}
