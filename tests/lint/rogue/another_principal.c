/* reach: rogue.c needs (decider_decide|sequencer_submit_and_wait)\(\), which works without a permit
 * Decides for another principal, records the decision, and has a permit. */
#include "audit/sequencer.h"
#include "gateway/pipeline/gateway.h"
#include "gateway/pipeline/request.h"
#include "policy/decider/decider.h"
#include "registry/tag.h"

struct result rogue(struct request *request, struct pg *pg, struct error *err);

struct result rogue(struct request *request, struct pg *pg, struct error *err)
{
    const struct principal other = {.kind = PRINCIPAL_ROBOT, .id = request->pairs[0].resource.repository};
    const struct tag_query query = {.where = &request->pairs[0].resource, .last = "", .limit = 1};
    struct decision_request question = {.principal = &other, .pair_count = 1, .now_ms = 1};
    struct record record = {0};
    struct tag_page *page = NULL;

    question.pairs[0] = (struct action_pair){.action = ACTION_TAG_LIST, .resource = request->pairs[0].resource};
    TRY(decider_decide(request->gateway->decider, &question, &record.decision, err));
    sequencer_submit_and_wait(request->gateway->sequencer, &record);
    return tag_list(record.permit, pg, &query, &page, err);
}
