/*
 * audit/format/witness_answer.h -- the cosignature in the answer of a witness (C2SP tlog-witness v1.0.0; docs/formats/audit-log.md section 9).
 *
 * An answer may have several lines. Only those by the key that the policy has are taken, and only if they cosign our checkpoint.
 */
#pragma once

#include "audit/format/note.h"

#define WITNESS_ANSWER_BYTES_MAX (16 << 10) /* of an answer: lines with a few cosignatures; with ML-DSA-44 one has 3,400 */
#define COSIGNATURE_LINE_MAX     (NOTE_NAME_MAX + 128)

/**
 * Appends the line by `key` to `line`. `note` is the signed checkpoint that the witness was given. ERROR_DENIED unless the
 * answer has a good cosignature of this checkpoint by `key`, and no bad one.
 */
RESULT witness_answer_read(struct bytes note, struct bytes answer, const struct note_key *key, struct buffer *line,
                           uint64_t *time_s_out, struct error *err);
