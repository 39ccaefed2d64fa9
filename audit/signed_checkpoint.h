/*
 * audit/signed_checkpoint.h -- a checkpoint that sijil-keyd signed, as this gateway has verified it.
 *
 * Whatever stands in the table audit_checkpoint, anybody with an INSERT may have written. A note counts only when it came
 * through signed_checkpoint_read() with the key that sijil-keyd itself named (docs/formats/audit-log.md section 15).
 */
#pragma once

#include "audit/format/merkle.h"
#include "audit/format/note.h"
#include "crypto/keyd_client.h"

struct signed_checkpoint {
    uint64_t size;
    struct merkle_hash root;
    char note[KEYD_NOTE_MAX + 1]; /* as it was signed */
};

/** ERROR_DENIED unless `note` is a checkpoint of the log that `key` is named after, signed by `key`. */
RESULT signed_checkpoint_read(const struct note_key *key, struct bytes note, struct signed_checkpoint *checkpoint_out,
                              struct error *err);
