/*
 * cmd/sijil_verify_replay.h -- `sijil-verify replay`.
 */
#pragma once

#include "base/bytes.h"
#include "policy/replay_restrictions.h"

#define VERIFY_SETS_MAX 256 /* the most policy sets for one export */

struct replay_request {
    const char *signer; /* PEM file of the approver's public key; NULL: sets without a signature are accepted */
    const char *file;   /* the export; "-" */
    size_t set_count;
    const char *sets[VERIFY_SETS_MAX];
    bool json;
};
/** Appends the results. *is_sound_out: no decision differs and no policy set was missing. */
RESULT replay_file(const struct replay_request *request, struct buffer *answer, bool *is_sound_out, struct error *err);
/** Files of restrictions of organisations, or exported sets with them, whose signers are counted from the root's key on; NULL ends them. *restrictions_out: NULL if there is none. */
RESULT replay_read_restrictions(const char *const *files, const struct ecdsa_key *root,
                                struct replay_restrictions **restrictions_out, struct error *err);
