/*
 * crypto/pkcs11.h -- AES-256 keys that never leave a hardware token, through its vendor's PKCS#11 module (v2.40).
 *
 * The module is foreign code that may crash or block: use it in a process of its own (keyd/hsm.h). Keys are found by their
 * CKA_ID, made inside the token, and can be neither extracted nor read. One thread at a time.
 *
 * Errors: ERROR_NOT_FOUND (token or key), ERROR_DENIED (the PIN), ERROR_CORRUPT (a box that does not open),
 * ERROR_UNAVAILABLE (anything else: open the token again). Messages name the PKCS#11 code, never the PIN.
 */
#pragma once

#include "base/bytes.h"
#include "base/owned.h"

#define PKCS11_ID_SIZE   16
#define PKCS11_IV_SIZE   12
#define PKCS11_TAG_SIZE  16
#define PKCS11_OVERHEAD  (PKCS11_IV_SIZE + PKCS11_TAG_SIZE)
#define PKCS11_LABEL_MAX 32 /* of a token; the standard pads it to this */

struct pkcs11;

struct pkcs11_options {
    const char *module; /* path of the shared library */
    const char *token;  /* label */
    struct bytes pin;   /* of the user */
};

/** Loads the module, finds the token, logs in. */
RESULT pkcs11_open(const struct pkcs11_options *options, struct pkcs11 **pkcs11_out, struct error *err);
/** Makes a new key in the token, for sealing only. */
RESULT pkcs11_make_key(struct pkcs11 *pkcs11, const uint8_t id[PKCS11_ID_SIZE], const char *label, struct error *err);
RESULT pkcs11_destroy_key(struct pkcs11 *pkcs11, const uint8_t id[PKCS11_ID_SIZE], struct error *err);
/** The key of a box, and its associated data. */
struct pkcs11_box {
    const uint8_t *id;       /* PKCS11_ID_SIZE */
    struct bytes associated; /* AAD */
};
/** AES-256-GCM: iv || ciphertext || tag, plain.length + PKCS11_OVERHEAD bytes into `sealed_out`. */
RESULT pkcs11_seal(struct pkcs11 *pkcs11, const struct pkcs11_box *box, struct bytes plain, uint8_t *sealed_out,
                   struct error *err);
/** sealed.length - PKCS11_OVERHEAD bytes into `plain_out`; zeros on failure. */
RESULT pkcs11_unseal(struct pkcs11 *pkcs11, const struct pkcs11_box *box, struct bytes sealed, uint8_t *plain_out,
                     struct error *err);
void pkcs11_free(struct pkcs11 *pkcs11);
DEFINE_OWNED(pkcs11);
