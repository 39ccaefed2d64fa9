/* What several tables have in their rows: the project of a run. */
#include <stdio.h>

#include "training/run_priv.h"

void run_read_where(const struct pg_rows *rows, size_t row, size_t at, struct resource *where_out)
{
    *where_out = (struct resource){
        .kind = RESOURCE_PROJECT, .project = pg_uuid(rows, row, at), .organisation = pg_uuid(rows, row, at + 1)};
    (void)snprintf(where_out->name, sizeof where_out->name, "%s", pg_text(rows, row, at + 2));
}
