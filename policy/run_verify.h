/*
 * policy/run_verify.h -- the checks of an outsider: the bundle of a training run, and its decisions made again (docs/formats/run.md).
 *
 * It needs no registry. `sijil-verify run` and `sijil run verify` both call it.
 */
#pragma once

#include "policy/replay_restrictions.h"
#include "training/format/bundle.h"

/** The verifier's own keys. The bundle brings none that counts. */
struct run_verify_keys {
    const char *log_key;                      /* the log's verifier key (C2SP note), and what log_keys_read() takes behind it */
    const struct ecdsa_key *signer;           /* sijil-keyd's key of documents */
    const struct ecdsa_key *root;             /* of approvers */
    const struct witness_policy *policy;      /* whose quorum must have cosigned the checkpoints; NULL: none is demanded */
    struct replay_restrictions *restrictions; /* those that the facts name; the bundle has none. NULL: none is at hand */
};

/** ERROR_DENIED: the bundle does not hold; the message names the rule. ERROR_INVALID: a key of the verifier is none. ERROR_NO_MEMORY. */
RESULT run_verify(struct bytes text, const struct run_verify_keys *keys, struct run_bundle **bundle_out,
                  struct run_repeated *repeated_out, struct error *err);
