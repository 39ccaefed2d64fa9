#include "keyd/mint_limits.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "crypto/digest.h"
#include "keyd/rate.h"

struct mint_limits {
    struct rate *administration, *administrations, *mint, *mints; /* of one credential, of all */
};

struct result mint_limits_new(struct mint_limits **limits_out, struct error *err)
{
    static const struct rate_limit
        administration = {"tokens for the administration are asked for by one credential", ADMINISTRATION_RATE_PER_S,
                          ADMINISTRATION_BURST},
        administrations = {"tokens for the administration are asked for", ADMINISTRATIONS_RATE_PER_S, ADMINISTRATIONS_BURST},
        mint = {"tokens are asked for by one credential", MINT_RATE_PER_S, MINT_BURST},
        mints = {"tokens are asked for", MINTS_RATE_PER_S, MINTS_BURST};
    OWNED(mint_limits) *limits = memory_zeroed(1, sizeof *limits);

    if (limits == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the limits of tokens");
    TRY(rate_new(&administration, &limits->administration, err));
    TRY(rate_new(&administrations, &limits->administrations, err));
    TRY(rate_new(&mint, &limits->mint, err));
    TRY(rate_new(&mints, &limits->mints, err));
    *limits_out = GIVE(limits);
    return SUCCESS;
}

enum mint_scope mint_scope_of(const struct keyd_token *token)
{
    enum mint_scope widest = MINT_NOTHING;

    if (token->administration) return MINT_ADMINISTRATION;
    if (token->catalog) return MINT_CATALOG;
    for (size_t i = 0; i < token->access_count; i++) {
        const struct keyd_access *access = &token->access[i];
        const enum mint_scope scope = access->remove ? MINT_DELETE : access->push ? MINT_PUSH : access->pull ? MINT_PULL : MINT_NOTHING;
        if (scope < widest) widest = scope;
    }
    return widest;
}

struct result mint_take(struct mint_limits *limits, struct ledger *ledger, const struct keyd_token *token, int64_t now_ms,
                        struct error *err)
{
    static const struct uuid everybody;
    const enum mint_scope scope = mint_scope_of(token);
    const bool is_administration = scope == MINT_ADMINISTRATION;
    uint8_t digest[SHA256_SIZE];
    struct uuid credential;

    sha256_of(token->source, digest);
    memcpy(credential.bytes, digest, sizeof credential.bytes);
    TRY(rate_take(is_administration ? limits->administration : limits->mint, &credential, now_ms, err));
    TRY(rate_take(is_administration ? limits->administrations : limits->mints, &everybody, now_ms, err));
    return ledger_count_mint(ledger, scope, credential.bytes, err);
}

void mint_limits_free(struct mint_limits *limits)
{
    if (limits == NULL) return;
    rate_free(limits->administration);
    rate_free(limits->administrations);
    rate_free(limits->mint);
    rate_free(limits->mints);
    free(limits);
}
