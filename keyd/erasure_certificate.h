/*
 * keyd/erasure_certificate.h -- signs certificates of erasure, with keyd's own knowledge of the epochs (docs/erasure.md).
 */
#pragma once

#include "crypto/keyd_protocol.h"
#include "keyd/keyring.h"

/** Appends the envelope. Stage 2 if this key ring holds neither the epoch nor an older one. ERROR_INVALID for an epoch that does not exist yet. */
RESULT erasure_certificate_sign(const struct signed_log *log, const struct keyd_erasure *request, int64_t now_ms,
                                struct buffer *envelope, struct error *err);
