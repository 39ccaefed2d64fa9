/*
 * audit/format/add_checkpoint.h -- a checkpoint with the proof that it continues an older one: the body of a request to a witness
 * (docs/formats/audit-log.md section 9; C2SP tlog-witness v1.0.0).
 */
#pragma once

#include "audit/format/merkle.h"

#define ADD_CHECKPOINT_MAX (64 << 10) /* bytes that are read: 63 hashes of 45, and a note with many cosignatures */

struct add_checkpoint {
    uint64_t old_size;
    struct merkle_proof proof; /* from old_size to the size of the checkpoint */
    struct bytes note;         /* the signed checkpoint: read it with note_read() */
};
RESULT add_checkpoint_write(const struct add_checkpoint *request, struct buffer *body, struct error *err);
/** ERROR_INVALID unless `body` has the form, ERROR_LIMIT if it is too long. Checks no hash and no signature. A view into `body`. */
RESULT add_checkpoint_read(struct bytes body, struct add_checkpoint *request_out, struct error *err);
