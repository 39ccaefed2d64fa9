/*
 * crypto/certificate_priv.h -- reads X.509 inside crypto/.
 */
#pragma once

#include <openssl/x509.h>

#include "crypto/certificate.h"

/** The first certificate of a PEM chain; free with X509_free(). */
RESULT certificate_read(struct bytes pem, X509 **certificate_out, struct error *err);
/** Seconds since 1970; false if the field is malformed. */
bool certificate_time(const ASN1_TIME *time, int64_t *seconds_out);
