#include "training/budget_priv.h"

#include <inttypes.h>

#include "storage/pg_table.h"

/* clang-format off */
static const struct pg_statement run_budget_sql = {
    "run_budget",
    "SELECT coalesce(q.cpu_max, -1), coalesce(q.gpu_max, -1), (coalesce(u.cpu_used_ms, 0) + 999) / 1000, (coalesce(u.gpu_used_ms, 0) + 999) / 1000,"
    " r.cpu, r.gpu FROM project p LEFT JOIN project_quota q USING (project_id) LEFT JOIN project_runs u USING (project_id),"
    " LATERAL (SELECT coalesce(sum(cpu_reserved_s), 0)::int8 AS cpu, coalesce(sum(gpu_reserved_s), 0)::int8 AS gpu FROM run"
    " WHERE project_id = $1 AND ended_at IS NULL AND cpu_reserved_s > 0 AND run_id <> $2) r WHERE p.project_id = $1",
    "uuid uuid", "int8 int8 int8 int8 int8 int8"};
static const struct pg_statement run_reserve_sql = {
    "run_reserve", "UPDATE run SET cpu_reserved_s = $2, gpu_reserved_s = $3 WHERE run_id = $1", "uuid int8 int8", ""};
static const struct pg_statement *const statements[] = {&run_budget_sql, &run_reserve_sql};
/* clang-format on */
const struct pg_table run_budget_table = PG_TABLE(statements);

struct figures {
    const char *what;
    int64_t most, used, reserved, wanted;
};

static struct result check(const struct figures *figures, struct error *err)
{
    if (figures->most < 0 || figures->wanted == 0 || figures->wanted <= figures->most - figures->used - figures->reserved)
        return SUCCESS;
    return failure(err, ERROR_DENIED,
                   "the run may need %" PRId64 " %s-seconds, and of the project's budget of %" PRId64 " are %" PRId64
                   " used and %" PRId64
                   " reserved by other runs: ask for less time, wait for their end, or ask for a larger budget",
                   figures->wanted, figures->what, figures->most, figures->used, figures->reserved);
}

struct result run_budget_check(struct pg *pg, const struct uuid *project, const struct uuid *run, const struct run_cost *cost,
                               struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_uuid(&arguments, project);
    pg_add_uuid(&arguments, run);
    TRY(pg_run(pg, &run_budget_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 0) return failure(err, ERROR_NOT_FOUND, "there is no such project");
    const struct figures cpu = {"CPU", pg_int8(rows, 0, 0), pg_int8(rows, 0, 2), pg_int8(rows, 0, 4), cost->cpu_s},
                         gpu = {"GPU", pg_int8(rows, 0, 1), pg_int8(rows, 0, 3), pg_int8(rows, 0, 5), cost->gpu_s};
    TRY(check(&cpu, err));
    return check(&gpu, err);
}

struct result run_budget_reserve(struct pg *pg, const struct uuid *project, const struct uuid *run, const struct run_cost *cost,
                                 struct error *err)
{
    struct pg_arguments arguments = {0};

    TRY(run_budget_check(pg, project, run, cost, err));
    pg_add_uuid(&arguments, run);
    pg_add_int8(&arguments, cost->cpu_s);
    pg_add_int8(&arguments, cost->gpu_s);
    return pg_run(pg, &run_reserve_sql, &arguments, NULL, err);
}
