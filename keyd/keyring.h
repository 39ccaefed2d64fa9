/*
 * keyd/keyring.h -- all long-lived keys of an installation: one sealed file, opened once, then only in locked memory.
 *
 * The file is `keyring` in keyd's folder. It says nothing without its passphrase, and is replaced as a whole
 * (temporary file, fsync, rename, fsync of the folder). After opening, a key ring never changes: threads share it.
 */
#pragma once

#include "audit/format/note.h"
#include "crypto/ecdsa.h"
#include "crypto/keyd_client.h"
#include "crypto/password.h"
#include "keyd/hsm.h"
#include "keyd/keyring_format.h"

#define KEYRING_FILE "keyring"

struct keyring;

struct keyring_options {
    const char *origin;          /* of the audit log; fixed from now on */
    struct bytes passphrase;     /* at least one byte */
    struct password_cost cost;   /* PASSWORD_COST_DEFAULT but in tests */
    struct hsm *hsm;             /* the first version is a key in its token; NULL: a root in the file */
};
/**
 * Makes a key ring with fresh keys in the folder `directory`; ERROR_CONFLICT if there is one, ERROR_INVALID for an
 * origin that cannot name a log key. `prepare` makes the ledger: it is called before the file appears, so that a
 * crash never leaves a key ring without one.
 */
RESULT keyring_create(int directory, const struct keyring_options *options,
                      RESULT (*prepare)(int directory, const uint8_t ledger_key[32], struct error *err),
                      struct error *err);
/** ERROR_DENIED for a wrong passphrase (or a changed file), ERROR_NOT_FOUND, ERROR_CORRUPT. */
RESULT keyring_open(int directory, struct bytes passphrase, struct keyring **keyring_out, struct error *err);
/** Adds a version of the key-encryption keys, in a token if there is `hsm`; used from the next start on, the old ones
 *  still unwrap. */
RESULT keyring_add_version(int directory, struct bytes passphrase, struct hsm *hsm, uint32_t *number_out,
                           struct error *err);

/**
 * Forgets a version for good, and when: what is still wrapped under it never opens again. ERROR_CONFLICT for the newest
 * and for one that was destroyed, ERROR_NOT_FOUND. Copies of the key ring elsewhere keep it.
 */
struct keyring_destruction {
    struct bytes passphrase;
    struct hsm *hsm; /* ERROR_INVALID without one, if the version is in a token: it is destroyed there first */
    uint32_t number;
    int64_t now_s;
};
RESULT keyring_destroy_version(int directory, const struct keyring_destruction *what, struct error *err);

/**
 * Gives it the token that some versions are in; borrowed, before any other use. ERROR_INVALID when there are such versions
 * and no token; whatever the token says when it can't be used.
 */
RESULT keyring_use_token(struct keyring *keyring, struct hsm *hsm, struct error *err);
/** The entry of a version. ERROR_CORRUPT for one that is not held. */
RESULT keyring_find_version(const struct keyring *keyring, uint32_t version, const struct keyring_root **root_out,
                            struct error *err);
struct hsm *keyring_token(const struct keyring *keyring);

const char *keyring_origin(const struct keyring *keyring);
/** The token key, loaded once. */
const struct ecdsa_key *keyring_token_key(const struct keyring *keyring);
/** What documents are signed with: derived from the log key's seed, so it is there as long as the log is. */
const struct ecdsa_key *keyring_document_key(const struct keyring *keyring);
/** The public half of the log key, as notes name it. */
const struct note_key *keyring_log_key(const struct keyring *keyring);
/** Signs a checkpoint's text with the log key. */
RESULT keyring_sign_log(const struct keyring *keyring, struct bytes text, uint8_t signature_out[64],
                        struct error *err);
const uint8_t *keyring_index_key(const struct keyring *keyring);
const uint8_t *keyring_ledger_key(const struct keyring *keyring);

/** The versions that new keys are wrapped under. */
uint32_t keyring_version(const struct keyring *keyring);
uint32_t keyring_epoch(const struct keyring *keyring);
/** All versions that there ever were, the newest last. */
const struct keyring_roots *keyring_versions(const struct keyring *keyring);
/**
 * The key-encryption key of a scope: HKDF(root of the version, info "sijil key-encryption key v1" || u32 version ||
 * organisation, project and region, each behind a u32 length). ERROR_CORRUPT for a version that is not held.
 */
RESULT keyring_scope_key(const struct keyring *keyring, const struct key_scope *scope, uint32_t version,
                         uint8_t key_out[32], struct error *err);
/** The key that wraps subjects' keys in an epoch. */
RESULT keyring_subject_key(const struct keyring *keyring, uint32_t epoch, uint8_t key_out[32], struct error *err);

/** Wipes all keys. */
void keyring_free(struct keyring *keyring);
DEFINE_OWNED(keyring);
