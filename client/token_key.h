/*
 * client/token_key.h -- a P-256 key in a PKCS#11 token that signs, named by a URI of RFC 7512.
 *
 * The private half never leaves the token. The module is foreign code and runs in this process, so only a program that a person
 * runs may use this header: a server keeps such modules in processes of their own (keyd/hsm.h).
 *
 * Which module: the URI's `module-path`, an absolute path; without it, the modules that p11-kit is configured with.
 *
 * Errors: ERROR_NOT_FOUND (module, token or key), ERROR_DENIED (the PIN), ERROR_INVALID (anything else that a person must change). No
 * message has the PIN or the URI.
 */
#pragma once

#include "crypto/ecdsa.h"

struct token_key_options {
    const char *uri;
    void *context;
    /** Gets the PIN of the token with this label. `source` is the URI's `pin-source`, NULL without one. Called at most once. */
    struct result (*read_pin)(void *context, const char *label, const char *source, struct secret **pin_out, struct error *err);
};

/**
 * Finds the one key that fits the URI, and logs in. The result signs with the token, by one thread; its release logs out. The token must hold the
 * public half too, under the same CKA_ID.
 */
RESULT token_key_open(const struct token_key_options *options, struct ecdsa_key **key_out, struct error *err);
