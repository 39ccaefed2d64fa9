/* reach: rogue.c needs authenticator_set_keys\(\), which works without a permit
 * Has tokens accepted that it has signed itself. */
#include "authz/authenticate.h"
#include "gateway/pipeline/gateway.h"
#include "gateway/pipeline/request.h"

struct result rogue(struct request *request, const uint8_t points[][65], struct error *err);

struct result rogue(struct request *request, const uint8_t points[][65], struct error *err)
{
    return authenticator_set_keys(request->gateway->authenticator, points, 1, err);
}
