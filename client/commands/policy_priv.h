/*
 * client/commands/policy_priv.h -- what `sijil policy ...` shares: sets, and what a new one changes.
 */
#pragma once

#include <jansson.h>

#include "client/commands/command.h"
#include "policy/set.h"

/** Refuses what no set has, because it would be signed unnoticed. */
RESULT policy_check_form(const json_t *document, struct error *err);

/** Says on standard error what `next` changes; `base` NULL: it is the first set. */
RESULT policy_show_changes(const struct policy_set *base, const struct policy_set *next, struct error *err);
