/*
 * keyd/wrap.h -- seals data keys and subjects' keys so that they open only for their own scope and blob
 * (docs/formats/sjb1.md, "Keys").
 *
 * A wrapped key is a box (XChaCha20-Poly1305 with a random nonce) under the key-encryption key of its scope. The associated
 * data are organisation, project, region, key version, blob and commitment, each after a u32 length.
 */
#pragma once

#include "crypto/keyd_protocol.h"
#include "keyd/keyring.h"

RESULT wrap_data_key(const struct keyring *keyring, const struct key_binding *binding, struct bytes data_key,
                     struct wrapped_key *wrapped_out, struct error *err);
/** ERROR_CORRUPT unless the key was wrapped for exactly this binding. */
RESULT unwrap_data_key(const struct keyring *keyring, const struct key_binding *binding, const struct wrapped_key *wrapped,
                       uint8_t data_key_out[DATA_KEY_SIZE], struct error *err);

/** Wraps the same key under the newest version. Errors of unwrap_data_key(). */
RESULT rewrap_data_key(const struct keyring *keyring, const struct key_binding *binding, const struct wrapped_key *wrapped,
                       struct wrapped_key *wrapped_out, struct error *err);

#define SUBJECT_KEY_SIZE 32
/** HMAC under the index key over issuer and subject, each after a u32 length. */
RESULT subject_index(const struct keyring *keyring, struct bytes issuer, struct bytes subject, uint8_t index_out[32],
                     struct error *err);
RESULT wrap_subject_key(const struct keyring *keyring, const uint8_t index[32], const uint8_t key[SUBJECT_KEY_SIZE],
                        struct wrapped_key *wrapped_out, struct error *err);
RESULT unwrap_subject_key(const struct keyring *keyring, const uint8_t index[32], const struct wrapped_key *wrapped,
                          uint8_t key_out[SUBJECT_KEY_SIZE], struct error *err);
/** The same key wrapped under the newest epoch. */
RESULT rewrap_subject_key(const struct keyring *keyring, const uint8_t index[32], const struct wrapped_key *wrapped,
                          struct wrapped_key *wrapped_out, struct error *err);
