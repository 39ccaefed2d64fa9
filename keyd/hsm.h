/*
 * keyd/hsm.h -- key-encryption keys in a PKCS#11 token, used through separate processes.
 *
 * The vendor's module is foreign code that opens files and sockets, and may crash or block. None of this may happen in keyd.
 * So before keyd reads its passphrase it starts a supervisor process, which holds the PIN and keeps a few workers running,
 * each with the module loaded. keyd sends them requests over socket pairs. A worker that takes too long is killed by its own
 * timer and replaced. A worker sees one data key at a time, because the token must seal or open it; it never sees the key
 * ring. After a wrong PIN no worker tries again, because tokens lock themselves. docs/decisions/0017-keys-in-a-token.md.
 *
 * Thread-safe. Errors as crypto/pkcs11.h; ERROR_UNAVAILABLE also after the time limit.
 */
#pragma once

#include "crypto/pkcs11.h"

struct hsm;

#define HSM_ASSOCIATED_MAX 256 /* BINDING_MAX of keyd/wrap.c */

struct hsm_options {
    const char *module, *token, *pin_file; /* the PIN is the file's first line */
    unsigned timeout_ms;                   /* for one operation: 1500, less than a gateway's time limit */
};
/**
 * Starts the supervisor. Call it before any secret is in memory, and while there is one thread. ERROR_DENIED if other users
 * may read the PIN's file.
 */
RESULT hsm_start(const struct hsm_options *options, struct hsm **hsm_out, struct error *err);
/** Loads the module, finds the token and logs in: called at the start, so that problems show then. */
RESULT hsm_check(struct hsm *hsm, struct error *err);
RESULT hsm_make_key(struct hsm *hsm, const uint8_t id[PKCS11_ID_SIZE], uint32_t version, struct error *err);
/** ERROR_NOT_FOUND if the token has no key of this id. */
RESULT hsm_destroy_key(struct hsm *hsm, const uint8_t id[PKCS11_ID_SIZE], struct error *err);
/** `sealed_out` has room for plain.length + PKCS11_OVERHEAD bytes. */
RESULT hsm_seal(struct hsm *hsm, const struct pkcs11_box *box, struct bytes plain, uint8_t *sealed_out, struct error *err);
RESULT hsm_unseal(struct hsm *hsm, const struct pkcs11_box *box, struct bytes sealed, uint8_t *plain_out, struct error *err);
/** Ends the workers and the supervisor. */
void hsm_free(struct hsm *hsm);
DEFINE_OWNED(hsm);
