/*
 * policy/set_install.h -- the first policy set of a registry.
 *
 * It is installed before anybody has a right to load one, so only embedded/ and cmd/ may include this (tests/lint/layers.sh).
 */
#pragma once

#include "policy/set_load.h"

/**
 * For the first start, as work of the server's own, which is recorded: that the set is loaded, unless it was; then keyd pins it. The
 * sequencer must know policy_set_table.
 */
RESULT policy_set_install(struct policy_set_source *source, struct bytes envelope, struct error *err);
