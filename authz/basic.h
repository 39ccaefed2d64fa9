/* authz/basic.h -- parses an Authorization header (RFC 9110 11.4, RFC 7617). */
#pragma once

#include "base/bytes.h"

#define AUTHORIZATION_MAX 24576 /* a token of 16 KiB as a password, encoded once more */

enum authorization_scheme { AUTHORIZATION_BEARER, AUTHORIZATION_BASIC, AUTHORIZATION_DPOP };

/** The scheme, and the value after it as a view. ERROR_INVALID for another scheme, and for a value that is empty or too long. */
RESULT authorization_split(const char *header, enum authorization_scheme *scheme_out, struct bytes *value_out, struct error *err);

/**
 * Decodes the value of Basic into `decoded`; the views point into it. It has a secret in it, so the caller wipes it.
 * ERROR_INVALID unless it is base64 of "name:password" with neither of them empty.
 */
RESULT basic_read(struct bytes value, struct buffer *decoded, struct bytes *name_out, struct bytes *password_out,
                  struct error *err);

/**
 * OAuth's clients write both as in a form before base64 (RFC 6749, 2.3.1), those of registries do not (RFC 7617). No name, secret or token
 * that counts here has a percent sign, so one tells which it is. The views point into `decoded`. ERROR_INVALID for a broken escape or a NUL.
 */
RESULT basic_unescape(struct buffer *decoded, struct bytes *name, struct bytes *password, struct error *err);
