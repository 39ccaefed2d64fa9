#include "authz/act.h"

#include <string.h>

#include "base/json.h"
#include "base/text.h"

static const enum action actions[] = {
#define ACT(id, action, method, target) id,
#include "audit/format/acts.def"
#undef ACT
};

bool act_is_signed(enum action action)
{
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++)
        if (actions[i] == action) return true;
    return false;
}

static bool is_digest_of(const char *said, struct bytes of)
{
    uint8_t wanted[SHA256_SIZE], digest[SHA256_SIZE];

    sha256_of(of, wanted);
    return said != NULL && text_from_base64_exactly(BASE64_URL, bytes_of_text(said), digest, sizeof digest) &&
           memcmp(digest, wanted, sizeof digest) == 0;
}

static struct result check_claims(const json_t *payload, const struct act_rule *rule, struct error *err)
{
    const char *target = json_text_of(payload, "target");
    const char *blank = rule->authorization == NULL ? NULL : strchr(rule->authorization, ' ');

    if (target == NULL || !bytes_equal(bytes_of_text(target), rule->target))
        return failure(err, ERROR_INVALID, "the signature's target is not the path and the query of the request");
    if (!is_digest_of(json_text_of(payload, "body"), rule->body))
        return failure(err, ERROR_INVALID, "the signature's body is not the SHA-256 of the body, in base64url");
    if (blank == NULL || !is_digest_of(json_text_of(payload, "ath"), bytes_of_text(blank + 1)))
        return failure(err, ERROR_INVALID, "the signature's ath is not the SHA-256 of the token, in base64url");
    return SUCCESS;
}

struct result act_read(const char *text, const struct act_rule *rule, struct dpop_proof *proof_out, struct error *err)
{
    struct dpop_proof proof = {.is_fresh = false};
    OWNED_JSON payload = NULL;

    TRY(dpop_read_typed(text, SIGNED_ACT_TYPE, &rule->request, &proof, &payload, err));
    TRY(check_claims(payload, rule, err));
    *proof_out = proof;
    return SUCCESS;
}
