/*
 * gateway/api/policy_priv.h -- what the routes of policy sets and of their drafts share (docs/policies.md).
 */
#pragma once

#include "gateway/api/api_priv.h"
#include "policy/set.h"

struct document;
struct document_trust;
/** The new exceptions of a draft: the caller asks for them, and others with keys that approve are named. ERROR_INVALID. `before` NULL: no set is in force. */
RESULT policy_check_exceptions(const struct request *request, const struct policy_set *set, const struct policy_set *before,
                               const struct document_trust *trust, struct error *err) __attribute__((nonnull(1, 2, 4, 5)));
/** Whoever asks for a new exception of the signed set does not sign it. ERROR_DENIED. */
RESULT policy_check_not_asking(const struct request *request, const struct document *document, const struct policy_set *before,
                               struct error *err) __attribute__((nonnull(1, 2, 4)));
/** Adds the principals that new exceptions of the draft name as approvers, and that have not signed yet. The document may have no signature. */
RESULT policy_missing_approvers(const struct request *request, struct bytes payload, const struct document *document,
                                const struct document_trust *trust, json_t *list, struct error *err);

/** What comes into force, and how. */
struct policy_loading {
    struct bytes envelope;
    const struct policy_set *set;
    const char *draft;  /* that ends with it; NULL: there was none */
    bool is_other_pair; /* the request's own pair is of another action than policy.load */
};
/** Records the set and has sijil-keyd pin it. *status_out: 201, or 202 if sijil-keyd must answer first. */
RESULT policy_load_set(struct request *request, const struct policy_loading *loading, unsigned *status_out, struct error *err);
