/*
 * keyd/certificate.h -- certificates of deletion: what this process knows of the versions, signed (docs/deletion.md).
 */
#pragma once

#include "crypto/keyd_protocol.h"
#include "keyd/keyring.h"

/**
 * Appends the envelope. Stage 2 when this key ring holds neither the version nor an older one, since a re-wrap leaves
 * copies under older versions in backups; else stage 1. ERROR_INVALID for a version that is to come.
 */
RESULT certificate_sign(const struct keyring *keyring, const struct keyd_deletion *request, int64_t now_ms,
                        struct buffer *envelope, struct error *err);
