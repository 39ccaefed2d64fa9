/*
 * authz/robot_certificate.h -- a robot may have a certificate in place of a secret (RFC 8705, 2).
 *
 * A text says which one, and is hashed as a secret is. Only TLS says this text: no client can send it as a secret.
 */
#pragma once

#include "base/bytes.h"
#include "crypto/digest.h"

#define ROBOT_CERTIFICATE_THUMBPRINT \
    "x5t#S256:" /* and base64url of the SHA-256 of the certificate: also one that the client has signed itself */
#define ROBOT_CERTIFICATE_DNS      "dns:" /* and a name of the certificate, which an authority of clients has signed */
#define ROBOT_CERTIFICATE_URI      "uri:" /* the same */
#define ROBOT_CERTIFICATE_NAME_MAX 200    /* bytes of such a name */
#define ROBOT_CERTIFICATE_SIZE     (ROBOT_CERTIFICATE_NAME_MAX + 5)
/** Whether a text names a certificate. */
bool robot_certificate_is_possible(const char *text);
/** Whether what came as a secret is such a text, whatever follows the prefix. */
bool robot_secret_names_certificate(struct bytes secret);
/** What is stored of a secret: its SHA-256. Of a text that names a certificate it is the complement, which no secret has: also an older gateway lets nobody in by such a text. */
void robot_secret_hash(struct bytes secret, uint8_t hash_out[SHA256_SIZE]);
