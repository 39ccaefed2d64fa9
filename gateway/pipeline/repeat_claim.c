/* The key of a request is claimed in the transaction of its first change. */
#include "gateway/pipeline/exchange_priv.h"
#include "gateway/pipeline/repeat_priv.h"

#define USED_MEANWHILE "a request with this Idempotency-Key was carried out at the same moment: send it again for its answer"

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

bool repeat_was_beaten(const struct request *request, struct error *err)
{
    const struct repeat *repeat = request->repeat;

    if (repeat == NULL || repeat->is_claimed || !repeat->claim.was_there) return false;
    (void)failure(err, ERROR_CONFLICT, USED_MEANWHILE).ok;
    return true;
}
