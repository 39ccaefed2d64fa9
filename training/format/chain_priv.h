/*
 * training/format/chain_priv.h -- checks that several envelopes have in common.
 */
#pragma once

#include "training/format/chain.h"

/** The digest at `path` must be that of the envelope `before`. */
RESULT chain_names(const struct run_envelope *envelope, const char *path, const struct run_envelope *before, struct error *err);
/** Whether the text at `path` is `prefix` and `text`. */
bool chain_is_text(const struct run_envelope *envelope, const char *path, const char *prefix, const char *text);

/** Step 5, of any node. */
RESULT chain_check_lease(const struct run_chain *chain, struct error *err);
RESULT chain_check_peers(const struct run_chain *chain, struct error *err);
RESULT chain_check_result(const struct run_chain *chain, struct error *err);
RESULT chain_check_admission(const struct run_chain *chain, struct error *err);
