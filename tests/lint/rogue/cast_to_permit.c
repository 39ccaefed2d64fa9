/* reach: rogue.c casts to a permit
 * The resources of the request stand in for a permit. */
#include "gateway/pipeline/request.h"
#include "registry/tag.h"

struct result rogue(struct request *request, struct pg *pg, struct error *err);

struct result rogue(struct request *request, struct pg *pg, struct error *err)
{
    const struct tag_query query = {.where = &request->pairs[0].resource, .last = "", .limit = 1};
    struct tag_page *page = NULL;

    return tag_list((const struct permit *)(const void *)request->pairs, pg, &query, &page, err);
}
