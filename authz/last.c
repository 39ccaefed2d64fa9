#include "authz/last_priv.h"

struct result administrators_count(struct pg *pg, const struct pg_statement *statement, int64_t *count_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    TRY(pg_run(pg, statement, NULL, &rows, err));
    *count_out = pg_int8(rows, 0, 0);
    return SUCCESS;
}

struct result administrators_are_left(struct pg *pg, const struct pg_statement *statement, int64_t before, struct error *err)
{
    int64_t after = 0;

    TRY(administrators_count(pg, statement, &after, err));
    if (before == 0 || after > 0) return SUCCESS;
    return failure(err, ERROR_CONFLICT,
                   "this is the last registry-admin, and nobody could give the role again: bind another one first");
}
