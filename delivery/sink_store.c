#include "delivery/sink_store_priv.h"

#include <stdio.h>

#include "storage/pg_table.h"

#define COLUMNS "first, next, moved_at, coalesce(stopped_at, 'epoch'), problem, secret, coalesce(renewed_at, 'epoch')"
#define TYPES   "int8 int8 timestamptz timestamptz text int4 timestamptz"

/* clang-format off */
static const struct pg_statement sink_find_sql = {
    "sink_find", "SELECT " COLUMNS " FROM audit_sink WHERE name = $1", "text", TYPES};
static const struct pg_statement sink_insert_sql = {
    "sink_insert", "INSERT INTO audit_sink (name, first, next) VALUES ($1, $2, $2) ON CONFLICT (name) DO NOTHING", "text int8", ""};
/* 64 bits: of two sinks with one hash, only one would be delivered to. Locks of one number are apart from those of two (registry/jobs/advisory_lock.h). */
static const struct pg_statement sink_lock_sql = {
    "sink_lock", "SELECT pg_try_advisory_lock(hashtextextended($1, 7308))", "text", "bool"};
static const struct pg_statement sink_advance_sql = {
    "sink_advance", "UPDATE audit_sink SET next = $3, moved_at = now() WHERE name = $1 AND next = $2", "text int8 int8", ""};
static const struct pg_statement sink_stop_sql = {
    "sink_stop", "UPDATE audit_sink SET stopped_at = now(), problem = $2 WHERE name = $1 AND stopped_at IS NULL", "text text", ""};
static const struct pg_statement sink_return_sql = {
    "sink_return", "UPDATE audit_sink SET stopped_at = NULL, problem = '' WHERE name = $1 AND stopped_at IS NOT NULL", "text", ""};
static const struct pg_statement sink_renew_sql = {
    "sink_renew", "WITH renewed AS (INSERT INTO audit_sink (name, first, next, secret) VALUES ($1, $2, $2, 1) ON CONFLICT (name) DO UPDATE"
                  " SET secret = audit_sink.secret + 1, renewed_at = CASE WHEN audit_sink.secret > 0 THEN now() END RETURNING secret)"
                  " SELECT secret FROM renewed", "text int8", "int4"};
static const struct pg_statement *const statements[] = {
    &sink_find_sql, &sink_insert_sql, &sink_lock_sql, &sink_advance_sql, &sink_stop_sql, &sink_return_sql, &sink_renew_sql,
};
/* clang-format on */
const struct pg_table sink_table = PG_TABLE(statements);

static struct result find(struct pg *pg, const char *name, struct sink_state *state_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_text(&arguments, name);
    TRY(pg_run(pg, &sink_find_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) != 1) return failure(err, ERROR_NOT_FOUND, "the sink %.63s was never at work", name);
    *state_out = (struct sink_state){.first = (uint64_t)pg_int8(rows, 0, 0),
                                     .next = (uint64_t)pg_int8(rows, 0, 1),
                                     .moved_ms = pg_time_ms(rows, 0, 2),
                                     .stopped_ms = pg_time_ms(rows, 0, 3),
                                     .secret = (int32_t)pg_int8(rows, 0, 5),
                                     .renewed_ms = pg_time_ms(rows, 0, 6)};
    (void)snprintf(state_out->name, sizeof state_out->name, "%s", name);
    (void)snprintf(state_out->problem, sizeof state_out->problem, "%s", pg_text(rows, 0, 4));
    return SUCCESS;
}

struct result sink_find(const struct permit *permit, struct pg *pg, const char *name, struct sink_state *state_out,
                        struct error *err)
{
    static const struct resource registry = {.kind = RESOURCE_SYSTEM};

    permit_require(permit, ACTION_SINK_READ, &registry);
    return find(pg, name, state_out, err);
}

struct result sink_open(struct pg *pg, const char *name, uint64_t first, struct sink_state *state_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    const struct result found = find(pg, name, state_out, err);

    if (found.ok || err->kind != ERROR_NOT_FOUND) return found;
    pg_add_text(&arguments, name);
    pg_add_int8(&arguments, (int64_t)first);
    TRY(pg_run(pg, &sink_insert_sql, &arguments, NULL, err));
    return find(pg, name, state_out, err);
}

struct result sink_lock(struct pg *pg, const char *name, bool *is_mine_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_text(&arguments, name);
    TRY(pg_run(pg, &sink_lock_sql, &arguments, &rows, err));
    *is_mine_out = pg_bool(rows, 0, 0);
    return SUCCESS;
}

struct result sink_advance(struct pg *pg, const char *name, uint64_t from, uint64_t next, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_text(&arguments, name);
    pg_add_int8(&arguments, (int64_t)from);
    pg_add_int8(&arguments, (int64_t)next);
    TRY(pg_run(pg, &sink_advance_sql, &arguments, &rows, err));
    if (pg_rows_affected(rows) == 1) return SUCCESS;
    return failure(err, ERROR_CONFLICT, "the position of the sink %.63s was moved by another program", name);
}

/* ---- changes ---- */

static struct result run_turn(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    static const struct resource registry = {.kind = RESOURCE_SYSTEM};
    const struct sink_turn *turn = (const struct sink_turn *)change; /* its first member */
    const bool stops = turn->action == ACTION_SINK_STOP;
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    permit_require(permit, turn->action, &registry);
    pg_add_text(&arguments, turn->name);
    if (stops) pg_add_text(&arguments, turn->problem);
    TRY(pg_run(pg, stops ? &sink_stop_sql : &sink_return_sql, &arguments, &rows, err));
    if (pg_rows_affected(rows) == 1) return SUCCESS;
    return failure(err, ERROR_CONFLICT, "an event says so already of the sink %.63s", turn->name);
}

void sink_turn_init(struct sink_turn *turn, enum action action, const char *name, const char *problem)
{
    *turn = (struct sink_turn){.change = {.run = run_turn, .invalidates = CHANGE_INVALIDATES_NOTHING},
                               .action = action,
                               .name = name,
                               .problem = problem};
}

static struct result run_renewal(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    static const struct resource registry = {.kind = RESOURCE_SYSTEM};
    struct sink_renewal *renewal = (struct sink_renewal *)change; /* its first member */
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    permit_require(permit, ACTION_SINK_SECRET, &registry);
    pg_add_text(&arguments, renewal->name);
    pg_add_int8(&arguments, (int64_t)renewal->first);
    TRY(pg_run(pg, &sink_renew_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) != 1) return failure(err, ERROR_CONFLICT, "the sink %.63s can't get a key now", renewal->name);
    renewal->number = (int32_t)pg_int8(rows, 0, 0);
    return SUCCESS;
}

void sink_renewal_init(struct sink_renewal *renewal, const char *name, uint64_t first)
{
    *renewal = (struct sink_renewal){
        .change = {.run = run_renewal, .invalidates = CHANGE_INVALIDATES_NOTHING}, .name = name, .first = first};
}
