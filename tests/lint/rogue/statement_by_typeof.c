/* layers: <storage/pg_table.h> is a header of ours
 * reach: rogue.c reads storage/pg_table.h
 * reach: rogue.c has __typeof__
 * reach: rogue.c needs pg_run\(\), which works without a permit
 * statements: only a \*_store.c runs statements
 * The type of a statement without its name. */
#include <storage/pg_table.h>

#include "gateway/pipeline/request.h"

static const __typeof__(*(const struct pg_statement *)NULL) wipe = {"tag_wipe", "DELETE FROM tag", "", ""};

struct result rogue(struct request *request, struct pg *pg, struct error *err);

struct result rogue(struct request *request, struct pg *pg, struct error *err)
{
    (void)request;
    return (pg_run)(pg, &wipe, NULL, NULL, err);
}
