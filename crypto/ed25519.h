/*
 * crypto/ed25519.h -- signatures of the log and of its witnesses (RFC 8032).
 *
 * One library (libsodium) makes and verifies all of them. Libraries differ on points of small order; if two disagreed, one
 * side would accept a log that the other refuses.
 */
#pragma once

#include "base/bytes.h"
#include "crypto/secret.h"

#define ED25519_SEED_SIZE      32
#define ED25519_PUBLIC_SIZE    32
#define ED25519_SIGNATURE_SIZE 64

/** The public key of a seed (a struct secret of ED25519_SEED_SIZE). */
RESULT ed25519_public(const struct secret *seed, uint8_t public_out[ED25519_PUBLIC_SIZE], struct error *err);
RESULT ed25519_sign(const struct secret *seed, struct bytes message, uint8_t signature_out[ED25519_SIGNATURE_SIZE],
                    struct error *err);
bool ed25519_verify(const uint8_t public_key[ED25519_PUBLIC_SIZE], struct bytes message,
                    const uint8_t signature[ED25519_SIGNATURE_SIZE]);
