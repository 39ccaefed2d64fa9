/*
 * witness/heads.h -- a witness as an auditor: it signs that it has replayed all entries of a log (audit/format/heads.h).
 *
 * Nothing is replayed here: the operator of the witness has made the statement with sijil-verify replay-keys, of its own dump.
 */
#pragma once

#include "witness/identity.h"

/** Appends the statement and the signature. ERROR_INVALID: it is no statement about the heads of keys. */
RESULT witness_cosign_heads(const struct witness_identity *identity, struct bytes statement, uint64_t time_s, struct buffer *note,
                            struct error *err);
