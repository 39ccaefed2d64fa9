/* Keys of content: by who has the keys of the region. And what a gateway asks about the keys of persons with power. */
#include <string.h>

#include "crypto/keyd_client_priv.h"
#include "crypto/keyd_replacement.h"

struct result keyd_wrap(struct keyd_client *client, const struct key_binding *binding, const struct secret *data_key,
                        struct wrapped_key *wrapped_out, struct error *err)
{
    struct keyd_request request = {.type = KEYD_WRAP};
    struct keyd_client *there = NULL;
    OWNED_CALL call = {0};

    TRY(keyd_client_of(client, binding->scope.region, &there, err));
    request.as.wrap.binding = *binding;
    request.as.wrap.data_key = secret_bytes(data_key);
    TRY(keyd_call(there, &request, &call, err));
    *wrapped_out = call.reply.as.wrapped;
    return SUCCESS;
}

struct result keyd_unwrap(struct keyd_client *client, const struct key_binding *binding, const struct wrapped_key *wrapped,
                          struct secret **data_key_out, struct error *err)
{
    struct keyd_request request = {.type = KEYD_UNWRAP};
    struct keyd_client *there = NULL;
    OWNED_CALL call = {0};

    TRY(keyd_client_of(client, binding->scope.region, &there, err));
    request.as.unwrap.binding = *binding;
    request.as.unwrap.wrapped = *wrapped;
    TRY(keyd_call(there, &request, &call, err));
    return secret_copy(call.reply.as.data_key, data_key_out, err);
}

struct result keyd_rewrap(struct keyd_client *client, const struct key_binding *binding, const struct wrapped_key *wrapped,
                          struct wrapped_key *wrapped_out, struct error *err)
{
    struct keyd_request request = {.type = KEYD_REWRAP};
    struct keyd_client *there = NULL;
    OWNED_CALL call = {0};

    TRY(keyd_client_of(client, binding->scope.region, &there, err));
    request.as.unwrap.binding = *binding;
    request.as.unwrap.wrapped = *wrapped;
    TRY(keyd_call(there, &request, &call, err));
    *wrapped_out = call.reply.as.wrapped;
    return SUCCESS;
}

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
