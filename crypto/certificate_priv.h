/*
 * crypto/certificate_priv.h -- reads and makes X.509 inside crypto/.
 */
#pragma once

#include <openssl/x509.h>

#include "crypto/certificate.h"

/** The first certificate of a PEM chain; free with X509_free(). */
RESULT certificate_read(struct bytes pem, X509 **certificate_out, struct error *err);
/** Seconds since 1970; false if the field is malformed. */
bool certificate_time(const ASN1_TIME *time, int64_t *seconds_out);

static inline void certificate_free(X509 **certificate)
{
    X509_free(*certificate);
}
#define OWNED_X509 __attribute__((cleanup(certificate_free))) X509 *

/* Each is false when out of memory. */
bool certificate_set_serial(X509 *certificate);
bool certificate_set_subject(X509 *certificate, const char *common_name);
/** `value` is always one of our own constants: names from outside never pass through OpenSSL's configuration syntax. */
bool certificate_extend(X509 *certificate, X509 *issuer, int nid, const char *value);
