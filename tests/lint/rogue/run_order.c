/* reach: rogue.c needs keyd_run_order\(\), which works without a permit
 * layers: training/order_jobs.h
 * reach: rogue.c reads training/order_jobs.h
 * Has an order signed, without the decision of the server's own work. */
#include "crypto/keyd_client.h"
#include "gateway/pipeline/gateway.h"
#include "gateway/pipeline/request.h"
#include "training/order_jobs.h"

struct result rogue(struct request *request, const struct run_bundle_source *source, struct error *err);

struct result rogue(struct request *request, const struct run_bundle_source *source, struct error *err)
{
    const struct keyd_run wanted = {.attempt = 0};
    struct buffer OWNED_BUFFER envelope = BUFFER(9000);
    bool is_found = false;

    TRY(keyd_run_order(request->gateway->keyd, &wanted, &envelope, err));
    return run_order_next(source, "x", &is_found, err);
}
