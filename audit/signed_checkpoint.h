/*
 * audit/signed_checkpoint.h -- a checkpoint that sijil-keyd signed and this gateway verified.
 *
 * Any role with INSERT may have written a row of the table audit_checkpoint. A note counts only if signed_checkpoint_read()
 * accepted it, with the keys that sijil-keyd itself named (docs/formats/audit-log.md section 15).
 */
#pragma once

#include "audit/format/log_keys.h"
#include "crypto/keyd_client.h"

#define SIGNED_NOTE_MAX 12288 /* bytes: sijil-keyd's note, and the cosignatures of 32 witnesses with the longest names */

struct signed_checkpoint {
    uint64_t size;
    struct merkle_hash root;
    char note[SIGNED_NOTE_MAX + 1]; /* the signed note; of a cosigned checkpoint with the cosignatures */
};

/** ERROR_DENIED unless `note` is a checkpoint of the log of `keys`, signed by the key that counts for its size. */
RESULT signed_checkpoint_read(const struct log_keys *keys, struct bytes note, struct signed_checkpoint *checkpoint_out,
                              struct error *err);
