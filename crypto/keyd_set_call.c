/* Calls that are about policy sets. */
#include "crypto/keyd_client_priv.h"
#include "crypto/keyd_region.h"

struct result keyd_pin_set(struct keyd_client *client, const struct document_pin_request *pin, struct document_pin *pin_out,
                           struct error *err)
{
    struct keyd_request request = {.type = pin->base.length == 0 ? KEYD_PIN_POLICY : KEYD_PIN_SET};
    OWNED_CALL call = {0};

    request.as.pin = *pin;
    TRY(keyd_call(client, &request, &call, err));
    *pin_out = call.reply.as.pin;
    return SUCCESS;
}

struct result keyd_show_set(struct keyd_client *client, struct bytes envelope, struct error *err)
{
    struct keyd_request request = {.type = KEYD_SHOW_SET, .as.current = envelope};
    OWNED_CALL call = {0};

    return keyd_call(client, &request, &call, err);
}

struct result keyd_pin_restriction(struct keyd_client *client, const struct document_pin_request *pin,
                                   struct document_pin *pin_out, struct error *err)
{
    struct keyd_request request = {.type = KEYD_PIN_RESTRICTION};
    OWNED_CALL call = {0};

    request.as.pin = *pin;
    TRY(keyd_call(client, &request, &call, err));
    *pin_out = call.reply.as.pin;
    return SUCCESS;
}

struct result keyd_ask_policy_ids(struct keyd_client *client, const struct keyd_policy_ids *ids, uint64_t *unused_out,
                                  struct error *err)
{
    struct keyd_request request = {.type = KEYD_POLICY_IDS};
    OWNED_CALL call = {0};

    request.as.policy_ids = *ids;
    TRY(keyd_call(client, &request, &call, err));
    *unused_out = call.reply.as.unused_ids;
    return SUCCESS;
}
