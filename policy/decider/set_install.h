/*
 * policy/decider/set_install.h -- the first policy set of a registry.
 *
 * It is installed before any principal has the right to load one, so only embedded/ and cmd/ may include this
 * (tests/lint/layers.sh).
 */
#pragma once

#include "policy/decider/set_load.h"

/**
 * For the first start. Records the load of the set as the server's own work, unless it is recorded already; then
 * sijil-keyd pins it. The sequencer must know policy_set_table.
 */
RESULT policy_set_install(struct policy_set_source *source, struct bytes envelope, struct error *err);

/**
 * For a repetition of the first start: the envelope must have the set in force, or one that the log says was loaded before. ERROR_CONFLICT
 * for another set, ERROR_DENIED for one of another signer.
 */
RESULT policy_set_check_repeated(const struct policy_set_source *source, struct bytes envelope, const struct policy_set *in_force,
                                 struct error *err);
