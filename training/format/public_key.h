/*
 * training/format/public_key.h -- a public key as a text: standard base64 of its SubjectPublicKeyInfo in DER (RFC 5480), so that openssl reads it as it is.
 */
#pragma once

#include "crypto/ecdsa.h"

#define PUBLIC_KEY_SIZE 125 /* of 91 bytes, and '\0' */

/** ERROR_NO_MEMORY. */
RESULT public_key_text(const uint8_t point[ECDSA_PUBLIC_SIZE], char text_out[PUBLIC_KEY_SIZE], struct error *err);
/** False: the text is no such key in its one spelling. The point may not be on the curve. */
bool public_key_point(const char *text, uint8_t point_out[ECDSA_PUBLIC_SIZE]);
