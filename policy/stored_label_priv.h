/*
 * policy/stored_label_priv.h -- labels that stay with what was stored, whatever later sets say: docs/policies.md.
 */
#pragma once

#include "policy/set_load.h"

/**
 * In the transaction that replaces `load->before`: what that set labels, and `load->set` labels less or not at all,
 * keeps the floor of its policy, with the pin. ERROR_NO_MEMORY, ERROR_LIMIT, and those of pg_run().
 */
RESULT stored_labels_keep(struct pg *pg, const struct policy_set_change *load, struct error *err);
