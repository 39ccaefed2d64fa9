#include "registry/jobs/advisory_lock.h"

#include "registry/jobs/statements.h"
#include "storage/pg_table.h"

/* clang-format off */
static const struct pg_statement advisory_lock_take_sql = {"advisory_lock_take", "SELECT pg_try_advisory_lock(7307, $1)", "int4", "bool"};
static const struct pg_statement advisory_lock_wait_sql = {"advisory_lock_wait", "SELECT pg_advisory_lock(7307, $1) IS NULL", "int4", "bool"};
static const struct pg_statement advisory_lock_release_sql = {"advisory_lock_release", "SELECT pg_advisory_unlock(7307, $1)", "int4", "bool"};
static const struct pg_statement *const statements[] = {
    &advisory_lock_take_sql, &advisory_lock_wait_sql, &advisory_lock_release_sql,
};
/* clang-format on */
const struct pg_table advisory_lock_statements = PG_TABLE(statements);

struct result advisory_lock_take(struct pg *pg, enum advisory_lock lock, bool *is_ours_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_int4(&arguments, (int32_t)lock);
    TRY(pg_run(pg, &advisory_lock_take_sql, &arguments, &rows, err));
    *is_ours_out = pg_bool(rows, 0, 0);
    return SUCCESS;
}

struct result advisory_lock_wait(struct pg *pg, enum advisory_lock lock, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int4(&arguments, (int32_t)lock);
    return pg_run(pg, &advisory_lock_wait_sql, &arguments, NULL, err);
}

struct result advisory_lock_release(struct pg *pg, enum advisory_lock lock, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int4(&arguments, (int32_t)lock);
    return pg_run(pg, &advisory_lock_release_sql, &arguments, NULL, err);
}
