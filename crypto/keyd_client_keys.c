/* What a gateway asks about the keys of persons with power. */
#include <string.h>

#include "crypto/keyd_client_priv.h"
#include "crypto/keyd_replacement.h"

struct result keyd_key_power(struct keyd_client *client, const uint8_t principal[DOCUMENT_DIGEST_SIZE],
                             struct key_power *power_out, struct error *err)
{
    struct keyd_request request = {.type = KEYD_KEY_POWER};
    OWNED_CALL call = {0};

    memcpy(request.as.principal, principal, sizeof request.as.principal);
    TRY(keyd_call(client, &request, &call, err));
    *power_out = call.reply.as.key_power;
    return SUCCESS;
}

struct result keyd_replace_key(struct keyd_client *client, const struct document_pin_request *wanted, int64_t *counts_ms_out,
                               struct error *err)
{
    struct keyd_request request = {.type = KEYD_REPLACE_KEY};
    OWNED_CALL call = {0};

    request.as.pin = *wanted;
    TRY(keyd_call(client, &request, &call, err));
    *counts_ms_out = call.reply.as.counts_ms;
    return SUCCESS;
}
