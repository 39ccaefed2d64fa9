/*
 * keyd/keyring.h -- all long-lived keys of an installation: one sealed file, opened once, then only in locked memory.
 *
 * The file is `keyring` in keyd's folder. Without its passphrase it reveals nothing. It is replaced as a whole (temporary
 * file, fsync, rename, fsync of the folder). After opening, a key ring never changes, so threads may share it.
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
struct token_keys;

struct keyring_options {
    const char *origin;        /* of the audit log; it can't be changed later */
    struct bytes passphrase;   /* at least one byte */
    struct password_cost cost; /* PASSWORD_COST_DEFAULT except in tests */
    struct hsm *hsm;           /* the first version is a key in this token; NULL: a root in the file */
};
/**
 * Makes a key ring with new keys in the folder `directory`. ERROR_CONFLICT if there is one, ERROR_INVALID for an origin
 * that cannot be the name of a log key. `prepare` makes the ledger: it is called before the file appears, so a crash never
 * leaves a key ring without a ledger.
 */
RESULT keyring_create(int directory, const struct keyring_options *options,
                      RESULT (*prepare)(int directory, const uint8_t ledger_key[32], struct error *err), struct error *err);
/** ERROR_DENIED for a wrong passphrase (or a changed file), ERROR_NOT_FOUND, ERROR_CORRUPT. */
RESULT keyring_open(int directory, struct bytes passphrase, struct keyring **keyring_out, struct error *err);
/** Adds a version of the key-encryption keys, in the token if `hsm` is not NULL, and an epoch of subjects' keys with the same number. Both are used from
 *  the next start on; older ones still unwrap. */
RESULT keyring_add_version(int directory, struct bytes passphrase, struct hsm *hsm, uint32_t *number_out, struct error *err);

/** Adds a key of the log, which signs once the root of approvers says so (keyd/log_rotation.h). ERROR_LIMIT beyond KEYRING_FURTHER_MAX. */
RESULT keyring_add_log_key(int directory, struct bytes passphrase, struct error *err);

/**
 * Destroys a version, and records the time. Epochs of subjects' keys up to this number go with it, if `unused_below` says that nothing is wrapped under them; the
 * newest one stays. The others stay, because without its key no subject could act: the log could not record it. A key that is still wrapped under this version can never be opened again.
 * ERROR_CONFLICT for the newest version and for a destroyed one; ERROR_NOT_FOUND. Other copies of the key ring keep the
 * version.
 */
struct keyring_destruction {
    struct bytes passphrase;
    struct hsm *hsm; /* the token, if one holds this version. The key there is destroyed first. Missing: ERROR_INVALID */
    uint32_t number;
    uint32_t unused_below; /* no key is under a version or an epoch below this one */
    int64_t now_s;
};
RESULT keyring_destroy_version(int directory, const struct keyring_destruction *what, struct error *err);

/**
 * Sets the token that holds some versions; borrowed. Call it before any other use. ERROR_INVALID if versions are in a token
 * and `hsm` is NULL; the token's own errors if it can't be used.
 */
RESULT keyring_use_token(struct keyring *keyring, struct hsm *hsm, struct error *err);
/** The entry of a version. ERROR_CORRUPT for one that the key ring does not hold. */
RESULT keyring_find_version(const struct keyring *keyring, uint32_t version, const struct keyring_root **root_out,
                            struct error *err);
struct hsm *keyring_token(const struct keyring *keyring);

const char *keyring_origin(const struct keyring *keyring);
/** The keys of tokens. They are derived when the key ring is opened. */
const struct token_keys *keyring_token_keys(const struct keyring *keyring);
/** The nonce of a period: HKDF(token key of the ring, "sijil nonce v1" || u64 period). Every copy of the key ring has the same ones. */
RESULT keyring_nonce(const struct keyring *keyring, uint64_t period, uint8_t nonce_out[KEYD_NONCE_SIZE], struct error *err);
/** The key that signs documents. It is derived from the seed of the first log key, so it exists as long as the log. */
const struct ecdsa_key *keyring_document_key(const struct keyring *keyring);
/** The key that signs certificates of runners. It is derived from the same seed. */
const struct ecdsa_key *keyring_runner_key(const struct keyring *keyring);
/** One of the logs of a registry: each recovery begins the next one. */
struct signed_log {
    const struct keyring *keyring;
    uint32_t number; /* from 1 */
};
/** How many keys of the log there are, the first included. keyd/log_rotation.h knows which of them sign. */
size_t keyring_log_key_count(const struct keyring *keyring);
/** The public half of a log key, in the form of notes. */
const struct note_key *keyring_log_key(const struct keyring *keyring, size_t index);
/** Appends the newest log key, under the origin of this log. */
RESULT keyring_newest_log_key(const struct signed_log *log, struct buffer *vkey, struct error *err);
/** Signs a text with a log key. */
RESULT keyring_sign_log(const struct keyring *keyring, size_t index, struct bytes text, uint8_t signature_out[64],
                        struct error *err);
const uint8_t *keyring_index_key(const struct keyring *keyring);
const uint8_t *keyring_ledger_key(const struct keyring *keyring);

/** The version that new keys are wrapped under. */
uint32_t keyring_version(const struct keyring *keyring);
uint32_t keyring_epoch(const struct keyring *keyring);
uint32_t keyring_oldest_epoch(const struct keyring *keyring);
/** All versions that ever existed, the newest last. */
const struct keyring_roots *keyring_versions(const struct keyring *keyring);
/**
 * The key-encryption key of a scope: HKDF(root of the version, info "sijil key-encryption key v1" || u32 version ||
 * organisation, project and region, each after a u32 length). ERROR_CORRUPT for a version that the key ring does not hold.
 */
RESULT keyring_scope_key(const struct keyring *keyring, const struct key_scope *scope, uint32_t version, uint8_t key_out[32],
                         struct error *err);
/** The key that wraps subjects' keys in an epoch. */
RESULT keyring_subject_key(const struct keyring *keyring, uint32_t epoch, uint8_t key_out[32], struct error *err);

/** Wipes all keys. */
void keyring_free(struct keyring *keyring);
DEFINE_OWNED(keyring);
