#include "keyd/mint_limits.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "crypto/digest.h"
#include "keyd/rate.h"

enum { OF_CREDENTIAL, OF_REALM, OF_TENANTS, OF_REGISTRY, BUCKETS };
enum { ADMINISTRATION, CONTENT, PURPOSES };

struct mint_limits {
    struct rate *rates[PURPOSES][BUCKETS];
};

static const struct rate_limit rows[PURPOSES][BUCKETS] = {
    [ADMINISTRATION] = {{"tokens for the administration are asked for by one credential", ADMINISTRATION_RATE_PER_S,
                         ADMINISTRATION_BURST},
                        {"tokens for the administration are asked for by one organisation's robots, or one issuer's subjects,",
                         ADMINISTRATION_REALM_RATE_PER_S, ADMINISTRATION_REALM_BURST},
                        {"tokens for the administration are asked for by all organisations together",
                         ADMINISTRATION_TENANTS_RATE_PER_S, ADMINISTRATION_TENANTS_BURST},
                        {"tokens for the administration are asked for by the registry's own robots",
                         ADMINISTRATION_REGISTRY_RATE_PER_S, ADMINISTRATION_REGISTRY_BURST}},
    [CONTENT] = {{"tokens are asked for by one credential", MINT_RATE_PER_S, MINT_BURST},
                 {"tokens are asked for by one organisation's robots, or one issuer's subjects,", MINT_REALM_RATE_PER_S,
                  MINT_REALM_BURST},
                 {"tokens are asked for by all organisations together", MINT_TENANTS_RATE_PER_S, MINT_TENANTS_BURST},
                 {"tokens are asked for by the registry's own robots", MINT_REGISTRY_RATE_PER_S, MINT_REGISTRY_BURST}},
};

struct result mint_limits_new(struct mint_limits **limits_out, struct error *err)
{
    OWNED(mint_limits) *limits = memory_zeroed(1, sizeof *limits);

    if (limits == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the limits of tokens");
    for (size_t purpose = 0; purpose < PURPOSES; purpose++)
        for (size_t i = 0; i < BUCKETS; i++) TRY(rate_new(&rows[purpose][i], &limits->rates[purpose][i], err));
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
        const enum mint_scope scope = access->remove ? MINT_DELETE
                                      : access->push ? MINT_PUSH
                                      : access->pull ? MINT_PULL
                                                     : MINT_NOTHING;
        if (scope < widest) widest = scope;
    }
    return widest;
}

static struct uuid key_of(struct bytes text)
{
    uint8_t digest[SHA256_SIZE];
    struct uuid key;

    sha256_of(text, digest);
    memcpy(key.bytes, digest, sizeof key.bytes);
    return key;
}

/* The part of "ext:<issuer digest>:<subject>" that all subjects of the issuer have in common. */
static struct bytes issuer_of(struct bytes subject)
{
    const struct bytes rest = {subject.data + 4, subject.length - 4};
    const uint8_t *colon = memchr(rest.data, ':', rest.length);

    return colon == NULL ? subject : (struct bytes){subject.data, (size_t)(colon - subject.data)};
}

/* Buckets to charge, from the inner to the outer one. If an outer bucket refuses, the inner ones are not charged. */
struct charge {
    struct rate *rate;
    struct uuid key;
};
enum { CHARGES_MAX = 3 };

/*
 * The gateway says to which organisation a credential belongs. A false answer gains nothing: all organisations together
 * have a limit, and so has the registry. Subjects of no organisation, or of several, share the limit of their issuer.
 */
static size_t charges_of(struct rate *const rates[BUCKETS], const struct keyd_token *token, struct charge charges[CHARGES_MAX])
{
    const bool is_external = token->subject.length >= 4 && memcmp(token->subject.data, "ext:", 4) == 0;
    const struct uuid everybody = {{0}};

    charges[0] = (struct charge){rates[OF_CREDENTIAL], key_of(token->source)};
    if (!is_external && uuid_is_nil(&token->organisation)) {
        charges[1] = (struct charge){rates[OF_REGISTRY], everybody};
        return 2;
    }
    charges[1] = (struct charge){rates[OF_REALM],
                                 uuid_is_nil(&token->organisation) ? key_of(issuer_of(token->subject)) : token->organisation};
    charges[2] = (struct charge){rates[OF_TENANTS], everybody};
    return 3;
}

/* Takes one from each bucket. The share in a bucket depends on how much was taken lately from the bucket inside it. */
static struct result take_all(const struct charge charges[], size_t count, int64_t now_ms, struct error *err)
{
    struct rate_use own = {0};
    struct result result = SUCCESS;
    size_t taken = 0;

    for (; taken < count; taken++) {
        const struct charge *charge = &charges[taken];
        const struct rate_use next = rate_use_of(charge->rate, &charge->key, now_ms);
        result = rate_take_shared(charge->rate, &charge->key, now_ms, &own, err);
        if (!result.ok) break;
        own = next;
    }
    if (!result.ok)
        while (taken-- > 0) rate_return(charges[taken].rate, &charges[taken].key, now_ms);
    return result;
}

struct result mint_take(struct mint_limits *limits, struct ledger *ledger, const struct keyd_token *token, int64_t now_ms,
                        struct error *err)
{
    const enum mint_scope scope = mint_scope_of(token);
    struct charge charges[CHARGES_MAX];
    const size_t count = charges_of(limits->rates[scope == MINT_ADMINISTRATION ? ADMINISTRATION : CONTENT], token, charges);

    TRY(take_all(charges, count, now_ms, err));
    return ledger_count_mint(ledger, scope, charges[0].key.bytes, err);
}

void mint_limits_free(struct mint_limits *limits)
{
    if (limits == NULL) return;
    for (size_t purpose = 0; purpose < PURPOSES; purpose++)
        for (size_t i = 0; i < BUCKETS; i++) rate_free(limits->rates[purpose][i]);
    free(limits);
}
