/*
 * keyd/certificate.h -- signs certificates of deletion, with keyd's own knowledge of the key versions (docs/deletion.md).
 */
#pragma once

#include "crypto/keyd_protocol.h"
#include "keyd/keyring.h"

/**
 * Appends the envelope. Stage 2 if this key ring holds neither the version nor an older one: backups may hold copies that
 * were wrapped under older versions before a re-wrap. Else stage 1. ERROR_INVALID for a version that does not exist yet.
 */
RESULT certificate_sign(const struct signed_log *log, const struct keyd_deletion *request, int64_t now_ms,
                        struct buffer *envelope, struct error *err);
/** The same for a key under a version of another sijil-keyd, the `holder` ("": not known): only that the wrapped key is forgotten (stage 1). */
RESULT certificate_sign_elsewhere(const struct signed_log *log, const struct keyd_deletion *request, const char *holder,
                                  int64_t now_ms, struct buffer *envelope, struct error *err);
