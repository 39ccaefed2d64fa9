/*
 * audit/format/proof.h -- an inclusion proof in one file (docs/formats/audit-log.md section 10; C2SP tlog-proof).
 *
 * Self-contained: with the entry and the log's public key anybody can check it, offline. No signature covers the text under
 * "extra".
 */
#pragma once

#include "audit/format/merkle.h"

#define TLOG_PROOF_MAX (1 << 20) /* bytes that are read: a note of NOTE_MAX, and the hashes */

struct tlog_proof {
    struct bytes extra; /* base64 text, not decoded; or empty */
    uint64_t index;
    struct merkle_proof inclusion;
    struct bytes note; /* the signed checkpoint: read it with note_read() */
};

RESULT tlog_proof_write(const struct tlog_proof *proof, struct buffer *text, struct error *err);
/** ERROR_INVALID unless `text` has the form. Checks no hash and no signature. The proof has views into `text`. */
RESULT tlog_proof_read(struct bytes text, struct tlog_proof *proof_out, struct error *err);
