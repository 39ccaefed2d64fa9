/* What several tables have in their rows: the project of a run, its state, and the holder of a lease. */
#include <stdio.h>

#include "training/run_priv.h"

void run_read_where(const struct pg_rows *rows, size_t row, size_t at, struct resource *where_out)
{
    *where_out = (struct resource){
        .kind = RESOURCE_PROJECT, .project = pg_uuid(rows, row, at), .organisation = pg_uuid(rows, row, at + 1)};
    (void)snprintf(where_out->name, sizeof where_out->name, "%s", pg_text(rows, row, at + 2));
}

void run_add_holder(struct pg_arguments *arguments, const struct run_holder *holder)
{
    pg_add_uuid(arguments, &holder->run); /* a view, which must live until the statement has run */
    pg_add_int4(arguments, (int32_t)holder->attempt);
    pg_add_int4(arguments, (int32_t)holder->node);
    pg_add_text(arguments, holder->key);
}

struct result run_read_state(const struct pg_rows *rows, size_t row, size_t at, enum run_state *state_out, struct error *err)
{
    const char *name = pg_text(rows, row, at);

    if (run_state_find(name, state_out)) return SUCCESS;
    return failure(err, ERROR_CORRUPT, "a run is %.40s, and this program knows no such state: is it older than the database?",
                   name);
}
