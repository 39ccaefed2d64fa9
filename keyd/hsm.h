/*
 * keyd/hsm.h -- key-encryption keys in a PKCS#11 token, behind processes of their own.
 *
 * The vendor's module is foreign code that opens files and sockets, and may crash or block; keyd itself may do none of that.
 * So before keyd reads its passphrase it starts a supervisor, which holds the PIN and keeps a few workers running, each
 * with the module loaded; keyd asks them over socket pairs. A worker that takes too long is killed by its own timer and
 * replaced. What a worker sees is a data key at a time, as any use of a token must; it never sees the key ring. A wrong
 * PIN is tried once, by one worker, because tokens lock themselves. docs/decisions/0017-keys-in-a-token.md.
 *
 * For any number of threads. Errors as crypto/pkcs11.h; ERROR_UNAVAILABLE also when the time is over.
 */
#pragma once

#include "crypto/pkcs11.h"

struct hsm;

#define HSM_ASSOCIATED_MAX 256 /* as in keyd/wrap.c */

struct hsm_options {
    const char *module, *token, *pin_file; /* the PIN is the file's first line */
    unsigned timeout_ms;                   /* for one operation: 1500, within what a gateway waits */
};
/**
 * Starts the supervisor. Call it before any secret is in memory, and while there is one thread. ERROR_DENIED when others
 * may read the PIN's file.
 */
RESULT hsm_start(const struct hsm_options *options, struct hsm **hsm_out, struct error *err);
/** Loads the module, finds the token and logs in: for the start, so that what is wrong is said then. */
RESULT hsm_check(struct hsm *hsm, struct error *err);
RESULT hsm_make_key(struct hsm *hsm, const uint8_t id[PKCS11_ID_SIZE], uint32_t version, struct error *err);
/** ERROR_NOT_FOUND if the token has none of that id. */
RESULT hsm_destroy_key(struct hsm *hsm, const uint8_t id[PKCS11_ID_SIZE], struct error *err);
/** Room for plain.length + PKCS11_OVERHEAD bytes. */
RESULT hsm_seal(struct hsm *hsm, const struct pkcs11_box *box, struct bytes plain, uint8_t *sealed_out, struct error *err);
RESULT hsm_unseal(struct hsm *hsm, const struct pkcs11_box *box, struct bytes sealed, uint8_t *plain_out, struct error *err);
/** Ends the workers and the supervisor. */
void hsm_free(struct hsm *hsm);
DEFINE_OWNED(hsm);
