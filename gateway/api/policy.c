/* /api/v1/policies: docs/api.md, docs/policies.md. */
#include <stdio.h>
#include <string.h>

#include "authz/role.h"
#include "base/arena.h"
#include "base/log.h"
#include "crypto/digest.h"
#include "gateway/api/api_priv.h"
#include "policy/decider.h"
#include "policy/set_load.h"

#define DESCRIPTION_MAX (64 * 1024) /* 64 policies at some 300 bytes */

struct result target_policy_read(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    (void)err;
    (void)api_pair(request, ACTION_POLICY_READ, RESOURCE_SYSTEM, "");
    return SUCCESS;
}

/* The event names the envelope by its digest, unless it was denied and not taken in; what is in it is read after the decision. */
struct result target_policy_load(struct request *request, struct lookup *lookup, struct error *err)
{
    struct resource *resource = api_pair(request, ACTION_POLICY_LOAD, RESOURCE_SYSTEM, "");
    char text[DIGEST_TEXT_SIZE];

    (void)lookup;
    (void)err;
    if (request->body.length == 0) return SUCCESS;
    const struct digest digest = digest_of(DIGEST_SHA256, request->body);
    digest_format(&digest, text);
    (void)snprintf(resource->detail, sizeof resource->detail, "%s", text);
    return SUCCESS;
}

static struct result answer(struct request *request, unsigned status, const struct buffer *json, struct error *err)
{
    const char *copy = arena_copy_text(request->arena, buffer_bytes(json));

    if (copy == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the answer");
    response_bytes(request, status, "application/json", bytes_of_text(copy));
    return SUCCESS;
}

static struct result handle_policy_read(struct request *request, struct pg *pg, struct error *err)
{
    struct buffer OWNED_BUFFER json = BUFFER(DESCRIPTION_MAX + POLICY_SET_BYTES_MAX);
    OWNED(policy_set) *set = decider_policy_set(request->gateway->decider);

    (void)pg;
    if (set == NULL) return failure(err, ERROR_NOT_FOUND, "no policy set is loaded yet");
    TRY(policy_set_describe(set, &json, err));
    json.length--; /* its last brace: one member more */
    TRY(buffer_add_text(&json, ",\"set\":", err));
    TRY(policy_set_write(set, &json, err));
    TRY(buffer_add_text(&json, "}", err));
    return answer(request, 200, &json, err);
}

/* 202: recorded, and in force as soon as keyd can be asked to pin it; until then nothing is decided at all. */
static unsigned put_in_force(struct request *request)
{
    struct error err = {0};

    if (decider_refresh(request->gateway->decider, &err).ok) return 201;
    log_error("a policy set is recorded, but not in force yet", &err);
    return 202;
}

static struct result handle_policy_load(struct request *request, struct pg *pg, struct error *err)
{
    struct buffer OWNED_BUFFER json = BUFFER(DESCRIPTION_MAX);
    OWNED(policy_set) *set = NULL;
    OWNED(policy_set) *before = decider_policy_set(request->gateway->decider);
    struct policy_set_change change;
    char loader[PRINCIPAL_KEY_SIZE];

    (void)pg;
    TRY(policy_set_check(request->gateway->keyd, request->body, &set, err));
    principal_key(&request->principal, loader);
    policy_set_load_change(&change, request->body, set, before, loader);
    TRY(request_record(request, &change.change, err));
    TRY(policy_set_describe(set, &json, err));
    return answer(request, put_in_force(request), &json, err);
}

const struct handler handler_policy_read = {.handle = handle_policy_read};
const struct handler handler_policy_load = {.handle = handle_policy_load};
