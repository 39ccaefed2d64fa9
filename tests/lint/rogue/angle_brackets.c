/* layers: <audit/job_permit.h> is a header of ours
 * reach: rogue.c reads audit/job_permit.h, which tests/lint/closed_headers.txt closes
 * A header that only the server's own work may include, by the other spelling. */
#include <audit/job_permit.h>

#include "gateway/pipeline/gateway.h"
#include "gateway/pipeline/request.h"
#include "registry/tag.h"

struct result rogue(struct request *request, struct pg *pg, struct error *err);

struct result rogue(struct request *request, struct pg *pg, struct error *err)
{
    const struct tag_query query = {.where = &request->pairs[0].resource, .last = "", .limit = 1};
    struct tag_page *page = NULL;
    struct permit *permit = NULL;

    TRY(permit_for_job(request->gateway->sequencer, &request->pairs[0], &permit, err));
    return tag_list(permit, pg, &query, &page, err);
}
