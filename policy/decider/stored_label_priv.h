/* policy/decider/stored_label_priv.h -- labels that stay with stored content after their policy set was replaced: docs/policies.md. */
#pragma once

#include "policy/compiled_priv.h"
#include "policy/decider/set_load.h"

/** The set that comes into force, and when. */
struct stored_label_moment {
    const struct policy_documents *documents;
    int64_t now_us;
};
/** Whether names in this pattern of `old`, which was in force before, lose its floor: no document gives all of them at least as much. */
bool stored_label_is_lost(const struct stored_label_moment *moment, const struct policy_document *old,
                          const struct scope_pattern *pattern);
/**
 * Call it in the transaction that replaces `load->before`. If `load->set` gives a repository a less strict label than
 * `load->before`, or none, the repository keeps the floor of its old policy, with the pin. ERROR_NO_MEMORY, ERROR_LIMIT, and
 * errors of pg_run().
 */
RESULT stored_labels_keep(struct pg *pg, const struct policy_set_change *load, struct error *err);
