/* policy/stored_label_priv.h -- labels that stay with stored content after their policy set was replaced: docs/policies.md. */
#pragma once

#include "policy/set_load.h"

/**
 * Call it in the transaction that replaces `load->before`. If `load->set` gives a repository a less strict label than
 * `load->before`, or none, the repository keeps the floor of its old policy, with the pin. ERROR_NO_MEMORY, ERROR_LIMIT, and
 * errors of pg_run().
 */
RESULT stored_labels_keep(struct pg *pg, const struct policy_set_change *load, struct error *err);
