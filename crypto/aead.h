/*
 * crypto/aead.h -- authenticated encryption.
 *
 * A nonce may be used only once with each key. For AES-256-GCM (records; NIST SP 800-38D) the caller must ensure that; a box
 * (XChaCha20-Poly1305, draft-irtf-cfrg-xchacha-03) draws a random nonce of 24 bytes itself. If the tag is wrong, opening
 * writes only zeros: ERROR_CORRUPT. In-place use (output = input) is allowed; any other overlap is not.
 */
#pragma once

#include "base/bytes.h"
#include "base/owned.h"

#define GCM_KEY_SIZE   32
#define GCM_NONCE_SIZE 12
#define GCM_TAG_SIZE   16

/** AES-256-GCM under one key. For one thread at a time; sealing and opening may alternate; no allocation per call. */
struct gcm;

/** The caller wipes its copy of the key. */
RESULT gcm_new(const uint8_t key[GCM_KEY_SIZE], struct gcm **gcm_out, struct error *err);
/** Writes plain.length + GCM_TAG_SIZE bytes: ciphertext, then tag. */
RESULT gcm_seal(struct gcm *gcm, const uint8_t nonce[GCM_NONCE_SIZE], struct bytes associated, struct bytes plain,
                uint8_t *sealed_out, struct error *err);
/** Writes sealed.length - GCM_TAG_SIZE bytes. */
RESULT gcm_open(struct gcm *gcm, const uint8_t nonce[GCM_NONCE_SIZE], struct bytes associated, struct bytes sealed,
                uint8_t *plain_out, struct error *err);
/** Wipes the key. */
void gcm_free(struct gcm *gcm);
DEFINE_OWNED(gcm);

#define XCHACHA_KEY_SIZE   32
#define XCHACHA_NONCE_SIZE 24
#define XCHACHA_TAG_SIZE   16

/** Writes plain.length + XCHACHA_TAG_SIZE bytes. */
void xchacha_seal(const uint8_t key[XCHACHA_KEY_SIZE], const uint8_t nonce[XCHACHA_NONCE_SIZE], struct bytes associated,
                  struct bytes plain, uint8_t *sealed_out);
/** Writes sealed.length - XCHACHA_TAG_SIZE bytes. */
RESULT xchacha_open(const uint8_t key[XCHACHA_KEY_SIZE], const uint8_t nonce[XCHACHA_NONCE_SIZE], struct bytes associated,
                    struct bytes sealed, uint8_t *plain_out, struct error *err);

/** A box is a random nonce, the ciphertext and the tag. */
#define BOX_OVERHEAD (XCHACHA_NONCE_SIZE + XCHACHA_TAG_SIZE)

/** Writes plain.length + BOX_OVERHEAD bytes; not in place. */
void box_seal(const uint8_t key[XCHACHA_KEY_SIZE], struct bytes associated, struct bytes plain, uint8_t *box_out);
/** Writes box.length - BOX_OVERHEAD bytes; not in place. */
RESULT box_open(const uint8_t key[XCHACHA_KEY_SIZE], struct bytes associated, struct bytes box, uint8_t *plain_out,
                struct error *err);
