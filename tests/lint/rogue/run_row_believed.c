/* layers: training/unproven.h
 * reach: rogue.c reads training/unproven.h
 * Tells what the rows of an order and a lease say, as if sijil-keyd had signed them. */
#include "gateway/pipeline/request.h"
#include "training/unproven.h"
#include "training/work.h"

struct result rogue(struct request *request, struct pg *pg, const struct run_holder *holder, struct error *err);

struct result rogue(struct request *request, struct pg *pg, const struct run_holder *holder, struct error *err)
{
    OWNED(run_envelope) *order = NULL;
    OWNED(run_envelope) *lease = NULL;

    (void)request;
    TRY(run_order_find(lookup_of(pg), &holder->run, &order, err));
    TRY(run_lease_find(lookup_of(pg), holder, &lease, err));
    return run_lease_check(lease, order, holder, 0, err);
}
