/* The table `run_doubt`. */
#include <assert.h>
#include <stdio.h>

#include "storage/pg_table.h"
#include "training/run_priv.h"

/* clang-format off */
/* Of a run with several nodes each key counts once. A doubt is known if it says what the withdrawal says: other rows are replaced. */
static const struct pg_statement run_doubted_sql = {
    "run_doubted",
    "WITH RECURSIVE w AS (SELECT * FROM unnest($1::text[], $2::int8[], $4::uuid[], $5::text[]) AS w (key, since, runner, reason)),"
    " later AS (SELECT u.run_id, w.key FROM run_resume u JOIN run_attempt a ON a.run_id = u.source JOIN w ON a.key = w.key"
    " AND (a.ended_at IS NULL OR a.ended_at >= to_timestamp(w.since / 1000.0))"
    " UNION SELECT u.run_id, l.key FROM later l JOIN run_resume u ON u.source = l.run_id),"
    " of AS (SELECT r.run_id, w.key FROM w JOIN run_attempt a ON a.key = w.key AND a.outcome = 'finished'"
    " AND a.ended_at >= to_timestamp(w.since / 1000.0) JOIN run r ON r.run_id = a.run_id AND r.attempt = a.attempt UNION SELECT run_id, key FROM later)"
    " SELECT DISTINCT ON (r.number, w.key) r.run_id, p.project_id, p.organisation_id, coalesce(p.deleted_name, o.name || '/' || p.name), r.state,"
    " w.key FROM of JOIN w ON w.key = of.key JOIN run r ON r.run_id = of.run_id"
    " JOIN project p USING (project_id) JOIN organisation o USING (organisation_id) WHERE r.state IN ('succeeded', 'finishing')"
    " AND NOT EXISTS (SELECT 1 FROM run_doubt d WHERE d.run_id = r.run_id AND d.key = w.key AND d.runner = w.runner"
    " AND d.since = to_timestamp(w.since / 1000.0) AND d.reason = w.reason) ORDER BY r.number, w.key LIMIT $3 OFFSET $6",
    "text[] int8[] int8 uuid[] text[] int8", "uuid uuid uuid text text text"};
static const struct pg_statement run_doubt_sql = {
    "run_doubt",
    "INSERT INTO run_doubt AS d (run_id, key, runner, since, reason) VALUES ($1, $2, $3, $4, $5) ON CONFLICT (run_id, key) DO UPDATE"
    " SET runner = $3, since = $4, reason = $5, noted_at = now() WHERE (d.runner, d.since, d.reason) IS DISTINCT FROM ($3, $4, $5)",
    "uuid text uuid timestamptz text", ""};
static const struct pg_statement run_doubts_sql = {
    "run_doubts",
    "SELECT d.runner, d.key, d.since, d.reason, d.noted_at, (SELECT max(a.ended_at) FROM run_attempt a WHERE a.run_id = d.run_id AND a.key = d.key),"
    " EXISTS (SELECT FROM run_resume u WHERE u.run_id = d.run_id), EXISTS (SELECT FROM run_session s WHERE s.key = d.key AND s.runner = d.runner"
    " AND s.suspended = d.reason) FROM run_doubt d JOIN run r USING (run_id) WHERE d.run_id = $1 AND r.project_id = $2 ORDER BY d.noted_at, d.key",
    "uuid uuid", "uuid text timestamptz text timestamptz timestamptz bool bool"};
/* All runners of the runs that a run continues from, with the end of their attempts. */
static const struct pg_statement run_ancestors_sql = {
    "run_ancestors",
    "WITH RECURSIVE before AS (SELECT source FROM run_resume WHERE run_id = $1 AND source IS NOT NULL"
    " UNION SELECT u.source FROM before b JOIN run_resume u ON u.run_id = b.source WHERE u.source IS NOT NULL)"
    " SELECT a.key, max(coalesce(a.ended_at, now())) FROM before b JOIN run_attempt a ON a.run_id = b.source GROUP BY a.key ORDER BY a.key",
    "uuid", "text timestamptz"};
/* The leases of a key for a run and for those that it continues from, of attempts that were not over at that time. */
static const struct pg_statement run_leases_of_key_sql = {
    "run_leases_of_key",
    "WITH RECURSIVE before AS (SELECT $1::uuid AS run UNION SELECT u.source FROM before b JOIN run_resume u ON u.run_id = b.run WHERE u.source IS NOT NULL)"
    " SELECT a.run_id, a.attempt, a.node, a.lease FROM before b JOIN run_attempt a ON a.run_id = b.run WHERE a.key = $2 AND a.lease IS NOT NULL"
    " AND (a.ended_at IS NULL OR a.ended_at >= $3) ORDER BY a.leased_at LIMIT $4",
    "uuid text timestamptz int8", "uuid int4 int4 text"};
static const struct pg_statement *const statements[] = {&run_doubted_sql, &run_doubt_sql, &run_doubts_sql, &run_ancestors_sql, &run_leases_of_key_sql};
/* clang-format on */
const struct pg_table run_doubt_table = PG_TABLE(statements);

static struct result read_row(const struct pg_rows *rows, size_t row, struct doubted_run *doubted, struct error *err)
{
    doubted->run.run = pg_uuid(rows, row, 0);
    run_read_where(rows, row, 1, &doubted->run.where);
    TRY(run_read_state(rows, row, 4, &doubted->state, err));
    (void)snprintf(doubted->key, sizeof doubted->key, "%s", pg_text(rows, row, 5));
    return SUCCESS;
}

struct result run_rows_doubted(struct pg *pg, const struct run_withdrawals *withdrawals, const struct row_window *window,
                               struct doubted_run *runs_out, size_t *count_out, struct error *err)
{
    struct bytes keys[RUN_WITHDRAWALS_MAX], runners[RUN_WITHDRAWALS_MAX], reasons[RUN_WITHDRAWALS_MAX];
    int64_t since[RUN_WITHDRAWALS_MAX];
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    assert(withdrawals->count <= RUN_WITHDRAWALS_MAX);
    for (size_t i = 0; i < withdrawals->count; i++) {
        keys[i] = withdrawals->each[i].key;
        since[i] = withdrawals->each[i].since_ms;
        runners[i] = (struct bytes){withdrawals->each[i].runner.bytes, sizeof withdrawals->each[i].runner.bytes};
        reasons[i] = bytes_of_text(withdrawals->each[i].reason);
    }
    pg_add_text_array(&arguments, keys, withdrawals->count);
    pg_add_int8_array(&arguments, since, withdrawals->count);
    pg_add_int8(&arguments, (int64_t)window->most);
    pg_add_uuid_array(&arguments, runners, withdrawals->count);
    pg_add_text_array(&arguments, reasons, withdrawals->count);
    pg_add_int8(&arguments, (int64_t)window->skipped);
    TRY(pg_run(pg, &run_doubted_sql, &arguments, &rows, err));
    for (size_t i = 0; i < pg_rows_count(rows); i++) TRY(read_row(rows, i, &runs_out[i], err));
    *count_out = pg_rows_count(rows);
    return SUCCESS;
}

struct result run_rows_leases_of_key(struct pg *pg, const struct run_part *asked, size_t capacity, struct pg_rows **rows_out,
                                     struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, asked->run);
    pg_add_text(&arguments, asked->key);
    pg_add_time(&arguments, asked->since_ms);
    pg_add_int8(&arguments, (int64_t)capacity);
    return pg_run(pg, &run_leases_of_key_sql, &arguments, rows_out, err);
}

struct result run_ancestors(struct pg *pg, const struct uuid *run, struct pg_rows **rows_out, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, run);
    return pg_run(pg, &run_ancestors_sql, &arguments, rows_out, err);
}

struct result run_row_doubt(struct pg *pg, const struct uuid *run, const struct run_withdrawal *withdrawal, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, run);
    pg_add_bytes(&arguments, withdrawal->key);
    pg_add_uuid(&arguments, &withdrawal->runner);
    pg_add_time(&arguments, withdrawal->since_ms);
    pg_add_text(&arguments, withdrawal->reason);
    TRY(pg_run(pg, &run_doubt_sql, &arguments, &rows, err));
    return pg_rows_affected(rows) == 1 ? SUCCESS : failure(err, ERROR_CONFLICT, "this doubt is known");
}

struct result run_doubts(const struct permit *permit, struct pg *pg, enum action action, const struct uuid *id,
                         struct pg_rows **rows_out, struct error *err)
{
    const struct resource *where = run_project_of(permit, action);
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, id);
    pg_add_uuid(&arguments, &where->project);
    return pg_run(pg, &run_doubts_sql, &arguments, rows_out, err);
}
