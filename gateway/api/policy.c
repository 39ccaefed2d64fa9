/* /api/v1/policies: docs/api.md, docs/policies.md. */
#include <stdio.h>
#include <string.h>

#include "authz/role.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/log.h"
#include "crypto/digest.h"
#include "gateway/api/api_priv.h"
#include "policy/decider.h"
#include "policy/set_load.h"

#define DESCRIPTION_MAX (64 * 1024) /* 64 policies at some 300 bytes */

PART(policy, "a policy of the set", HAS_TEXT("id", REQUIRED, FORM_FREE, 1, 64, "its name"),
     HAS_COUNT("version", REQUIRED, "its version"),
     HAS_TEXT("digest", REQUIRED, FORM_DIGEST, 71, 71, "the digest of its document"),
     HAS_TEXT("review_by", REQUIRED, FORM_FREE, 0, 10, "the day by which it must be reviewed"))

SCHEMA(policy_set, "a set of policies", HAS_COUNT("epoch", REQUIRED, "its number; each set has a larger one than the set before"),
       HAS_TEXT("digest", REQUIRED, FORM_DIGEST, 71, 71, "the digest of its document"),
       HAS_LIST("policies", REQUIRED, 0, schema_policy, "its policies"),
       HAS_ANY("set", OPTIONAL, "the whole document as it was signed, an object; left out in the answer that loads a set"),
       HAS_TEXT("envelope", OPTIONAL, FORM_FREE, 1, 0,
                "with `envelope=true`: the signed document (DSSE), byte for byte as it was loaded"))

PART(signature, "a signature", HAS_TEXT("sig", REQUIRED, FORM_BASE64, 4, 0, "standard base64, with padding"),
     HAS_TEXT("keyid", OPTIONAL, FORM_FREE, 0, 127,
              "which key made it; of a document, a request or an approval its RFC 7638 thumbprint"))
SCHEMA_WITH(SCHEMA_IS_READ_ELSEWHERE, envelope, "a signed document (DSSE)",
            HAS_TEXT("payloadType", REQUIRED, FORM_FREE, 1, 0, "what the payload is"),
            HAS_TEXT("payload", REQUIRED, FORM_BASE64, 4, 0, "the document in standard base64, with padding"),
            HAS_LIST("signatures", REQUIRED, 0, schema_signature, "of its signers"))

struct result target_policy_read(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    (void)err;
    (void)api_pair(request, ACTION_POLICY_READ, RESOURCE_SYSTEM, "");
    return SUCCESS;
}

/* The event names the digest of the envelope, unless the request was denied before the body arrived. The content is read after
 * the decision. */
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
    struct buffer OWNED_BUFFER json = BUFFER(DESCRIPTION_MAX + POLICY_SET_BYTES_MAX + 2 * POLICY_SET_ENVELOPE_MAX);
    OWNED(policy_set) *set = decider_policy_set(request->gateway->decider);
    const char *with_envelope = request_argument(request, "envelope");

    (void)pg;
    if (with_envelope != NULL && strcmp(with_envelope, "true") != 0)
        return failure(err, ERROR_INVALID, "envelope is true, or left out");
    if (set == NULL) return failure(err, ERROR_NOT_FOUND, "no policy set is loaded yet");
    TRY(policy_set_describe(set, &json, err));
    json.length--; /* removes the last brace, to add one more member */
    TRY(buffer_add_text(&json, ",\"set\":", err));
    TRY(policy_set_write(set, &json, err));
    if (with_envelope != NULL) {
        TRY(buffer_add_text(&json, ",\"envelope\":", err));
        TRY(json_write_string(&json, policy_set_envelope(set), err));
    }
    TRY(buffer_add_text(&json, "}", err));
    return answer(request, 200, &json, err);
}

/* 202: the set is recorded, but keyd could not pin it yet. Until keyd does, this gateway makes no decisions. */
static unsigned put_in_force(struct request *request, const struct policy_set *set)
{
    struct error err = {0};

    if (decider_refresh(request->gateway->decider, &err).ok) {
        OWNED(policy_set) *now = decider_policy_set(request->gateway->decider);
        if (now != NULL && policy_set_epoch(now) >= policy_set_epoch(set)) return 201;
        (void)failure(&err, ERROR_UNAVAILABLE, "an earlier set is still in force");
    }
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
    principal_key(request->principal, loader);
    policy_set_load_change(&change, request->body, set, before, loader);
    TRY(request_record(request, &change.change, err));
    TRY(policy_set_describe(set, &json, err));
    return answer(request, put_in_force(request, set), &json, err);
}

const struct handler handler_policy_read = {.handle = handle_policy_read};
const struct handler handler_policy_load = {.handle = handle_policy_load};
