#include "authz/dpop_spent.h"

#include "storage/pg_table.h"

/* clang-format off */
/* One connection sweeps at a time, so no two wait for each other's rows; it takes more rows than come meanwhile. */
static const struct pg_statement dpop_spend_sql = {
    "dpop_spend",
    "WITH quick AS (SELECT set_config('synchronous_commit', 'off', true) AS setting),"
    " sweeper AS (SELECT pg_try_advisory_xact_lock(7313, 0) AS is_alone),"
    " swept AS (DELETE FROM spent_proof WHERE digest IN"
    " (SELECT digest FROM spent_proof, sweeper WHERE is_alone AND expires_at <= now() ORDER BY expires_at LIMIT 64)),"
    " spent AS (INSERT INTO spent_proof (digest, expires_at)"
    " SELECT $1, now() + $2 * interval '1 second' FROM quick ON CONFLICT DO NOTHING RETURNING digest)"
    " SELECT digest FROM spent",
    "bytea int4", "bytea"};
static const struct pg_statement *const statements[] = {&dpop_spend_sql};
/* clang-format on */
const struct pg_table dpop_spent_table = PG_TABLE(statements);

struct result dpop_spend(struct pg *pg, const struct dpop_proof *proof, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_bytes(&arguments, (struct bytes){proof->digest, sizeof proof->digest});
    pg_add_int4(&arguments, DPOP_SPENT_S);
    TRY(pg_run(pg, &dpop_spend_sql, &arguments, &rows, err));
    if (pg_rows_count(rows) == 1) return SUCCESS;
    return failure(err, ERROR_CONFLICT, "this proof was used before: make a new one, with another jti, for each request");
}
