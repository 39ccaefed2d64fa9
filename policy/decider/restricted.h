/*
 * policy/decider/restricted.h -- the policies of a set with the restrictions that an organisation has added for itself (docs/policies.md, "Restrictions of an organisation").
 *
 * Immutable, shared by snapshots. Rule: a name of another organisation is decided by the set alone, as if these documents did not exist.
 */
#pragma once

#include "authz/trust_rules.h"
#include "policy/set.h"

struct restricted;

/** Of all organisations with restrictions. NULL if there are none, or no set. What `before` (may be NULL) has of the same set and documents is shared with it. ERROR_NO_MEMORY. */
RESULT restricted_new(struct policy_set *set, const struct trust_rules *rules, const struct restricted *before,
                      struct restricted **restricted_out, struct error *err);
/** By the first segment of `scope`. *documents_out: those of the set, or with the restrictions. ERROR_LIMIT: they can't be evaluated together, so nothing is allowed there. */
RESULT restricted_documents(const struct restricted *restricted, const struct policy_set *set, const char *scope,
                            const struct policy_documents **documents_out, struct error *err);
/** The digests of the restrictions of the organisation, as a canonical JSON array; NULL: it has none. */
const char *restricted_digests(const struct restricted *restricted, const char *scope);

/** Stands for all of them: another number, other restrictions. 0: there are none. */
int64_t restricted_mark(const struct restricted *restricted);

/** NULL is legal. */
struct restricted *restricted_keep(struct restricted *restricted);
void restricted_free(struct restricted *restricted);
DEFINE_OWNED(restricted);
