/* authz/own_keys_priv.h -- the keys of our own tokens, as an issuer like any other; for authenticate.c only. Thread-safe. */
#pragma once

#include "authz/authenticate.h"

struct own_keys;

/** With the one key of the options. */
RESULT own_keys_new(const struct authenticator_options *options, struct own_keys **keys_out, struct error *err);
/** Lives as long as the keys. */
const struct issuer *own_keys_issuer(const struct own_keys *keys);
/** As authenticator_set_keys() and authenticator_jwks(). */
RESULT own_keys_set(struct own_keys *keys, const uint8_t points[][65], size_t count, struct error *err);
RESULT own_keys_write(struct own_keys *keys, struct buffer *jwks, struct error *err);
void own_keys_free(struct own_keys *keys);
DEFINE_OWNED(own_keys);
