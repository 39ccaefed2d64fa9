/* layers: training/lease_jobs.h
 * reach: rogue.c reads training/lease_jobs.h
 * Ends a run as if the server did, under no permit. */
#include "gateway/pipeline/gateway.h"
#include "gateway/pipeline/request.h"
#include "training/lease_jobs.h"

struct result rogue(struct request *request, const struct uuid *run, struct error *err);

struct result rogue(struct request *request, const struct uuid *run, struct error *err)
{
    return run_stop(request->gateway->sequencer, &request->pairs[0].resource, run, "because", err);
}
