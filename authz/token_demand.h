/*
 * authz/token_demand.h -- what an organisation demands of the tokens that are used in it: how long they live, and what they are bound to.
 *
 * The document of persons of the organisation says it, or else the registry's (docs/identity.md, "Tokens that an organisation demands").
 */
#pragma once

#include "authz/principal.h"
#include "authz/trust_rules.h"
#include "documents/format/persons.h"

/**
 * What is demanded in the organisation (nil: the registry). While the database differs from sijil-keyd's pin of these documents, one that demands a bound token may be
 * missing: so all organisations demand it then.
 */
struct token_demand token_demand_of(const struct trust_rules *rules, const struct uuid *organisation, int64_t now_ms);
/** The shortest life that any document in force demands; 0: none does. For tokens of the administration, which are for all organisations. */
unsigned token_demand_shortest(const struct trust_rules *rules, int64_t now_ms);
/** Adds what another organisation demands. */
void token_demand_add(struct token_demand *demand, const struct token_demand *other);

/** What a token is bound to, or will be. */
struct token_bonds {
    bool key, certificate;
};
/** NULL: they suffice. Otherwise one sentence that says what to do; static. */
const char *token_demand_bonds(const struct token_demand *demand, struct token_bonds bonds);
/** The same, also for the lifetime, of the credential that a request came with. */
const char *token_demand_refusal(const struct token_demand *demand, const struct principal *principal);
