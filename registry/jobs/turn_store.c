#include "registry/jobs/turn.h"

#include "registry/jobs/statements.h"
#include "storage/pg_table.h"

static const struct pg_statement turn_begin_sql = {"turn_begin", "SELECT pg_try_advisory_lock(7307, $1)", "int4", "bool"};
static const struct pg_statement turn_end_sql = {"turn_end", "SELECT pg_advisory_unlock(7307, $1)", "int4", "bool"};
static const struct pg_statement *const statements[] = {
    &turn_begin_sql, &turn_end_sql,
};
const struct pg_table turn_statements = PG_TABLE(statements);

struct result turn_begin(struct pg *pg, enum turn turn, bool *is_ours_out, struct error *err)
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;

    pg_add_int4(&arguments, (int32_t)turn);
    TRY(pg_run(pg, &turn_begin_sql, &arguments, &rows, err));
    *is_ours_out = pg_bool(rows, 0, 0);
    return SUCCESS;
}

struct result turn_end(struct pg *pg, enum turn turn, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int4(&arguments, (int32_t)turn);
    return pg_run(pg, &turn_end_sql, &arguments, NULL, err);
}
