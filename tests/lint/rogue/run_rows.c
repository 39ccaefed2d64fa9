/* layers: training/run_priv.h
 * reach: rogue.c reads training/run_priv.h
 * Cancels a run by the function of its row: no event says so. */
#include "gateway/pipeline/request.h"
#include "training/run_priv.h"

struct result rogue(struct request *request, struct pg *pg, const struct uuid *run, struct error *err);

struct result rogue(struct request *request, struct pg *pg, const struct uuid *run, struct error *err)
{
    const struct run_move move = {run, &request->pairs[0].resource.project, ACTION_RUN_CANCEL, RUN_STATE_CANCELLED, NULL};

    return run_row_move(pg, &move, err);
}
