/* reach: rogue.c needs keyd_log_forked\(\), which works without a permit
 * reach: rogue.c needs keyd_sign_token\(\), which works without a permit
 * Asks sijil-keyd, by the connection that the gateway has. */
#include "crypto/keyd_client.h"
#include "gateway/pipeline/gateway.h"
#include "gateway/pipeline/request.h"

struct result rogue(struct request *request, struct pg *pg, struct error *err);

struct result rogue(struct request *request, struct pg *pg, struct error *err)
{
    struct buffer OWNED_BUFFER token = BUFFER(9000);
    const struct token_request wanted = {0};
    int64_t at = 0;

    (void)pg;
    TRY(keyd_sign_token(request->gateway->keyd, &wanted, &token, &at, err));
    return keyd_log_forked(request->gateway->keyd, "because a handler says so", err);
}
