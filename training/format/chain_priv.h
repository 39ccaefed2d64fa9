/*
 * training/format/chain_priv.h -- checks that several envelopes have in common.
 */
#pragma once

#include "training/format/chain.h"

/** The digest at `path` must be that of the envelope `before`. */
RESULT chain_names(const struct run_envelope *envelope, const char *path, const struct run_envelope *before, struct error *err);
/** Whether the text at `path` is `prefix` and `text`. */
bool chain_is_text(const struct run_envelope *envelope, const char *path, const char *prefix, const char *text);

/** The members `names` are those of the envelope `before`; NULL ends `names`. */
RESULT chain_check_same(const struct run_envelope *envelope, const struct run_envelope *before, const char *const *names,
                        struct error *err);
/** From the time `from` to `expires` are at most 30 days. */
RESULT chain_check_life(const struct run_envelope *envelope, const char *from, struct error *err);

/** Step 5, of any node. */
RESULT chain_check_lease(const struct run_chain *chain, struct error *err);
RESULT chain_check_peers(const struct run_chain *chain, struct error *err);
RESULT chain_check_result(const struct run_chain *chain, struct error *err);
RESULT chain_check_admission(const struct run_chain *chain, struct error *err);
