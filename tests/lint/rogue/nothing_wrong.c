/* A handler that hands its permit on: no lint reports it. */
#include "gateway/pipeline/gateway.h"
#include "gateway/pipeline/request.h"
#include "registry/tag.h"

struct result rogue(struct request *request, struct pg *pg, struct error *err);

struct result rogue(struct request *request, struct pg *pg, struct error *err)
{
    const struct tag_query query = {.where = &request->pairs[0].resource, .last = "", .limit = 1};
    struct tag_page *page = NULL;

    return tag_list(request->permit, pg, &query, &page, err);
}
