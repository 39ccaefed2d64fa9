/* The key of a request is claimed in the transaction of its first change. */
#include "gateway/pipeline/exchange_priv.h"
#include "gateway/pipeline/repeat_priv.h"

struct result repeat_claim(struct request *request, struct change **change, struct error *err)
{
    struct repeat *repeat = request->repeat;

    if (repeat == NULL || repeat->is_claimed || *change == NULL || *change == &repeat->claim.change) return SUCCESS;
    TRY(kept_change_init(&repeat->claim, request->gateway->keyd, &repeat->request, *change, err));
    *change = &repeat->claim.change;
    return SUCCESS;
}

void repeat_recorded(struct request *request, const struct change *change)
{
    struct repeat *repeat = request->repeat;

    if (repeat != NULL && change == &repeat->claim.change) repeat->is_claimed = true;
}

bool repeat_is_used(const struct request *request)
{
    return request->repeat != NULL && request->repeat->is_used;
}

/* A handler that looks before its change may have seen what the other request made, and not its key. */
static bool is_used_now(struct request *request, struct pg *pg)
{
    const struct search_source source = {pg, request->gateway->keyd, request->gateway->origin};
    enum kept_state state = KEPT_NOT;
    struct error ignored = {0};

    return kept_answer_find(&source, &request->repeat->request, &state, &ignored).ok &&
           (state == KEPT_COMING || state == KEPT_ANSWER || state == KEPT_UNKNOWN);
}

bool repeat_was_beaten(struct request *request, struct pg *pg, struct error *err)
{
    const struct repeat *repeat = request->repeat;

    if (repeat == NULL || repeat->is_claimed || err->kind != ERROR_CONFLICT) return false;
    if (!repeat->claim.was_there && !is_used_now(request, pg)) return false;
    (void)failure(err, ERROR_CONFLICT, REPEAT_TOO_SOON).ok;
    return true;
}
