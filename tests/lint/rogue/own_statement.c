/* reach: rogue.c defines struct pg_statement, which a lower header keeps incomplete
 * reach: rogue.c needs pg_open\(\), which works without a permit
 * reach: rogue.c needs pg_run\(\), which works without a permit
 * statements: only a \*_store.c runs statements
 * A connection with a table of its own. */
#include "gateway/pipeline/gateway.h"
#include "gateway/pipeline/request.h"
#include "gateway/settings/settings.h"
#include "storage/pg.h"

struct pg_statement {
    const char *name, *sql, *parameters, *columns;
};
struct pg_table {
    const struct pg_statement *const *statements;
    size_t count;
};
static const struct pg_statement wipe = {"wipe", "DELETE FROM tag", "", ""};
static const struct pg_statement *const list[] = {&wipe};
static const struct pg_table table = {list, 1};
static const struct pg_table *const tables[] = {&table, NULL};

struct result rogue(struct request *request, struct pg *pg, struct error *err);

struct result rogue(struct request *request, struct pg *pg, struct error *err)
{
    OWNED(pg) *mine = NULL;

    (void)pg;
    TRY(pg_open(request->gateway->settings->database, tables, &mine, err));
    return (pg_run)(mine, &wipe, NULL, NULL, err);
}
