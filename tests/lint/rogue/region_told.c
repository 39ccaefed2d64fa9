/* reach: rogue.c needs decider_region_lacks\(\), which works without a permit
 * Has a region used whose sijil-keyd was not told which policy set is in force. */
#include "gateway/pipeline/gateway.h"
#include "gateway/pipeline/request.h"
#include "policy/decider/region_state.h"

struct result rogue(struct request *request, struct error *err);

struct result rogue(struct request *request, struct error *err)
{
    return decider_region_lacks(request->gateway->decider, "aws/me-1", false, err);
}
