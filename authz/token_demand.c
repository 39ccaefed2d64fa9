#include "authz/token_demand.h"

#include "authz/persons_entry.h"

#define PROOF       "make a key and send a proof of it (DPoP, RFC 9449) with /token and with each request"
#define CERTIFICATE "present a client certificate (mTLS, RFC 8705) at /token and with each request"

struct token_demand token_demand_of(const struct trust_rules *rules, const struct uuid *organisation, int64_t now_ms)
{
    const struct persons_entry *entry = persons_entry_of(rules, organisation, now_ms);
    struct token_demand demand = {0};

    if (entry != NULL) demand = entry->rule.tokens;
    if (!persons_entries_are_sound(rules)) demand.any = demand.signed_acts = true;
    return demand;
}

unsigned token_demand_shortest(const struct trust_rules *rules, int64_t now_ms)
{
    struct token_demand shortest = {.any = false};

    for (size_t i = 0; i < persons_entries_count(rules); i++) {
        const struct persons_entry *entry = persons_entries_at(rules, i);
        const struct token_demand one = {.lifetime_max_s = entry->rule.tokens.lifetime_max_s};
        if (pinned_entry_is_in_force(&entry->pinned, now_ms)) token_demand_add(&shortest, &one);
    }
    return shortest.lifetime_max_s;
}

void token_demand_add(struct token_demand *demand, const struct token_demand *other)
{
    demand->any = demand->any || other->any;
    demand->key = demand->key || other->key;
    demand->certificate = demand->certificate || other->certificate;
    demand->signed_acts = demand->signed_acts || other->signed_acts;
    if (other->lifetime_max_s > 0 && (demand->lifetime_max_s == 0 || other->lifetime_max_s < demand->lifetime_max_s))
        demand->lifetime_max_s = other->lifetime_max_s;
}

const char *token_demand_bonds(const struct token_demand *demand, struct token_bonds bonds)
{
    if (demand->key && !bonds.key) return "tokens must be bound to a key of the client here: " PROOF;
    if (demand->certificate && !bonds.certificate) return "tokens must be bound to a certificate here: " CERTIFICATE;
    if (demand->any && !bonds.key && !bonds.certificate) return "tokens must be bound to the client here: " PROOF;
    return NULL;
}

const char *token_demand_refusal(const struct token_demand *demand, const struct principal *principal)
{
    const struct token_bonds bonds = {principal->is_key_bound, principal->confirmation[0] != '\0'};
    const char *unbound = token_demand_bonds(demand, bonds);

    if (unbound != NULL || demand->lifetime_max_s == 0) return unbound;
    if (principal->lifetime_s == 0) return "a secret with each request is refused here: get a token at /token";
    if (principal->lifetime_s > demand->lifetime_max_s)
        return "the token lives longer than tokens may here: get another one at /token";
    return NULL;
}
