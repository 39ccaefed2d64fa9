/* reach: rogue.c needs run_token_mint\(\), which works without a permit
 * A handler of another route makes a token of a run. With a permit for another lease the program stops (test_authz_run_token). */
#include "authz/run_token.h"
#include "gateway/pipeline/gateway.h"
#include "gateway/pipeline/request.h"

struct result rogue(struct request *request, const struct run_token_request *wanted, struct buffer *answer, struct error *err);

struct result rogue(struct request *request, const struct run_token_request *wanted, struct buffer *answer, struct error *err)
{
    return run_token_mint(request->permit, request->gateway->keyd, wanted, answer, err);
}
