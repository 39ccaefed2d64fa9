/* layers: <storage/pg_table.h> is a header of ours
 * reach: rogue.c reads storage/pg_table.h
 * reach: rogue.c needs lookup_connection\(\), which works without a permit
 * A target function, before any decision, takes the connection out of its lookup. */
#include <storage/pg_table.h>

#include "gateway/pipeline/request.h"
#include "registry/tag.h"

struct result target_rogue(struct request *request, struct lookup *lookup, struct error *err);

struct result target_rogue(struct request *request, struct lookup *lookup, struct error *err)
{
    const struct tag_query query = {.where = &request->pairs[0].resource, .last = "", .limit = 1};
    struct tag_page *page = NULL;

    return tag_list(request->permit, lookup_connection(lookup), &query, &page, err);
}
