/*
 * keyd/token.h -- composes and signs the registry's own tokens (docs/keys.md, "Tokens").
 *
 * Header {"alg":"ES256","kid":<thumbprint>,"typ":"sijil-reg+jwt"}; payload access, aud, exp, iat, iss, jti, nbf, src, sub,
 * and where they apply acr, admin, auth_time, catalog and cnf. jti is the id of the request whose event records the token, a full stop, and
 * 128 random bits from keyd. keyd sets the times by its own clock; no token is valid for longer than TOKEN_LIFETIME_MAX_S.
 */
#pragma once

#include "crypto/keyd_protocol.h"
#include "keyd/keyring.h"

#define TOKEN_LIFETIME_MAX_S 900

/** Appends the first part of each token that this key signs: the header in base64url. */
RESULT token_write_header(const struct ecdsa_key *key, struct buffer *token, struct error *err);

/** Appends the compact JWT. ERROR_INVALID for a lifetime of 0 or a text that is not UTF-8; ERROR_LIMIT. */
RESULT token_sign(const struct keyring *keyring, const struct keyd_token *request, int64_t now_s, struct buffer *token,
                  struct error *err);
