/* /api/v1/log-key: the keys of the log, and the change to a new one (docs/keys.md, "A new key of the log"). */
#include <stdio.h>

#include "audit/sequencer.h"
#include "crypto/digest.h"
#include "crypto/keyd_client.h"
#include "gateway/api/api_priv.h"
#include "gateway/background/maintenance.h"

SCHEMA(log_key, "the keys of the log",
       HAS_TEXT("keys", REQUIRED, FORM_FREE, 1, KEYD_LOG_KEYS_MAX,
                "the first key, and each handover: sijil-verify takes it as --key"),
       HAS_TEXT("vkey", REQUIRED, FORM_FREE, 1, 255, "the newest key that signs"),
       HAS_TEXT("next", OPTIONAL, FORM_FREE, 1, 255, "the key that may follow; left out if sijil-keyd has none"),
       HAS_TIME("retires_at", OPTIONAL, "when the key before the newest one stops to sign; left out if there was none"))

struct result target_log_key_read(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    (void)api_pair(request, ACTION_LOG_KEY_READ, RESOURCE_SYSTEM, "");
    return SUCCESS;
}

/* The event names the digest of the order, unless the request was denied before the body arrived. */
struct result target_log_key_rotate(struct request *request, struct lookup *lookup, struct error *err)
{
    struct resource *resource = api_pair(request, ACTION_LOG_KEY_ROTATE, RESOURCE_SYSTEM, "");
    char text[DIGEST_TEXT_SIZE];

    (void)lookup, (void)err;
    if (request->body.length == 0) return SUCCESS;
    const struct digest digest = digest_of(DIGEST_SHA256, request->body);
    digest_format(&digest, text);
    (void)snprintf(resource->detail, sizeof resource->detail, "%s", text);
    return SUCCESS;
}

static struct result answer(struct request *request, struct error *err)
{
    struct buffer OWNED_BUFFER keys = BUFFER(KEYD_LOG_KEYS_MAX);
    struct keyd_identity identity;
    struct keyd_log_keys state;

    TRY(keyd_identify(request->gateway->keyd, &identity, err));
    TRY(keyd_log_keys(request->gateway->keyd, &keys, &state, err));
    OWNED_JSON value = json_pack("{s:s, s:s, s:s*}", "keys", buffer_text(&keys), "vkey", identity.log_vkey, "next",
                                 state.next[0] == '\0' ? NULL : state.next);
    if (value == NULL || (state.retires_s != 0 && !api_set_time(value, "retires_at", state.retires_s * 1000)))
        return failure(err, ERROR_NO_MEMORY, "no memory for the answer");
    response_json(request, 200, value);
    return SUCCESS;
}

static struct result handle_read(struct request *request, struct pg *pg, struct error *err)
{
    (void)pg;
    (void)permit_resource(request->permit, ACTION_LOG_KEY_READ);
    return answer(request, err);
}

/* sijil-keyd checks the order: only the root of approvers can give it. */
static struct result handle_rotate(struct request *request, struct pg *pg, struct error *err)
{
    (void)pg;
    (void)permit_resource(request->permit, ACTION_LOG_KEY_ROTATE);
    TRY(keyd_log_rotate(request->gateway->keyd, request->body, err));
    maintenance_wake(request->gateway->maintenance); /* it records the size from which the new key counts */
    return answer(request, err);
}

const struct handler handler_log_key_read = {.handle = handle_read};
const struct handler handler_log_key_rotate = {.handle = handle_rotate};
