/*
 * crypto/tls_priv.h -- shared by the sources that use TLS.
 */
#pragma once

#include <openssl/ssl.h>

#include "base/result.h"

/** TLS 1.3 alone, without sessions. NULL: no memory. */
SSL_CTX *tls_context_new(const SSL_METHOD *method);
/** A certificate that nobody reads but for its key, signed with that key. */
bool tls_certificate_fill(X509 *certificate, EVP_PKEY *key);
