/*
 * witness/identity.h -- name and key of a witness, in one sealed file of its folder.
 *
 * The file `key` is sealed as sijil-keyd's key ring is: XChaCha20-Poly1305 under argon2id of a passphrase. It is written once.
 */
#pragma once

#include "audit/format/note.h"
#include "crypto/password.h"
#include "crypto/secret.h"

#define WITNESS_KEY_FILE "key"

struct witness_identity {
    struct note_key key; /* NOTE_COSIGNATURE */
    struct secret *seed;
};

/** Makes a key. ERROR_CONFLICT: there is one; it is never overwritten. ERROR_INVALID: `name` can't be the name of a key. */
RESULT witness_identity_create(int directory, const char *name, struct bytes passphrase, struct password_cost cost,
                               struct error *err);
/** ERROR_DENIED: the passphrase does not open the file, or the file was changed. ERROR_NOT_FOUND, ERROR_CORRUPT. */
RESULT witness_identity_open(int directory, struct bytes passphrase, struct witness_identity **identity_out, struct error *err);
/**
 * Appends the public keys, one a line: as cosigner (algorithm 4), and with the algorithm byte 1, which programs from before April 2026
 * read and convert by themselves.
 */
RESULT witness_identity_print(const struct witness_identity *identity, struct buffer *text, struct error *err);
void witness_identity_free(struct witness_identity *identity);
DEFINE_OWNED(witness_identity);
