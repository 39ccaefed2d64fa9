#include "keyd/keyring.h"

#include <assert.h>
#include <string.h>

#include "audit/format/succession.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "crypto/ed25519.h"
#include "crypto/hkdf.h"
#include "crypto/random.h"
#include "crypto/secret.h"
#include "keyd/keyring_priv.h"
#include "keyd/token_keys.h"

struct keyring {
    struct secret *body; /* a struct keyring_body */
    struct token_keys *token_keys;
    struct ecdsa_key *document_key, *runner_key;
    struct note_key log_keys[1 + KEYRING_FURTHER_MAX];
    struct hsm *hsm; /* borrowed; NULL if no version is in a token */
};

static const struct keyring_body *body_of(const struct keyring *keyring)
{
    return (const struct keyring_body *)(const void *)keyring->body->bytes;
}

/* HKDF(seed of the log key, info label || u8 counter), with a growing counter until the result is a scalar of the curve: the first is,
 * except for one seed in four billion. */
static struct result derive_key(const struct keyring *keyring, const char *label, struct ecdsa_key **key_out, struct error *err)
{
    const struct keyring_body *body = body_of(keyring);
    struct buffer OWNED_BUFFER info = BUFFER(64);
    OWNED(secret) *scalar = NULL;

    TRY(secret_new(ECDSA_SCALAR_SIZE, &scalar, err));
    for (uint8_t counter = 0; counter < 8; counter++) {
        buffer_clear(&info);
        TRY(buffer_add_text(&info, label, err));
        TRY(buffer_add_u8(&info, counter, err));
        TRY(hkdf_sha256((struct bytes){body->log_seed, sizeof body->log_seed}, (struct bytes){0}, buffer_bytes(&info),
                        scalar->bytes, ECDSA_SCALAR_SIZE, err));
        const struct result made = ecdsa_key_from_scalar(scalar, key_out, err);
        if (made.ok || err->kind != ERROR_INVALID) return made;
    }
    return failure(err, ERROR_CORRUPT, "no key with the label \"%s\" can be derived from this key ring", label);
}

static const uint8_t *seed_of(const struct keyring_body *body, size_t index)
{
    assert(index <= body->further_count);
    return index == 0 ? body->log_seed : body->further_seeds[index - 1];
}

static struct result prepare_log_key(struct keyring *keyring, size_t index, struct error *err)
{
    const struct keyring_body *body = body_of(keyring);
    OWNED(secret) *seed = NULL;
    uint8_t public[ED25519_PUBLIC_SIZE];

    TRY(secret_copy((struct bytes){seed_of(body, index), sizeof body->log_seed}, &seed, err));
    TRY(ed25519_public(seed, public, err));
    return note_key_make(body->origin, NOTE_ED25519, public, &keyring->log_keys[index], err);
}

/* Computes the parts that are derived from the secrets, once. */
static struct result prepare(struct keyring *keyring, struct error *err)
{
    const struct keyring_body *body = body_of(keyring);

    TRY(token_keys_new(body->token_scalar, clock_wall_ms() / 1000, &keyring->token_keys, err));
    TRY(derive_key(keyring, "sijil document key v1", &keyring->document_key, err));
    TRY(derive_key(keyring, "sijil runner authority v1", &keyring->runner_key, err));
    for (size_t i = 0; i <= body->further_count; i++) TRY(prepare_log_key(keyring, i, err));
    return SUCCESS;
}

struct result keyring_open(int directory, struct bytes passphrase, struct keyring **keyring_out, struct error *err)
{
    OWNED(keyring) *keyring = memory_zeroed(1, sizeof *keyring);

    if (keyring == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the key ring");
    TRY(keyring_unseal(directory, passphrase, &keyring->body, err));
    TRY(prepare(keyring, err));
    *keyring_out = GIVE(keyring);
    return SUCCESS;
}

const char *keyring_origin(const struct keyring *keyring)
{
    return body_of(keyring)->origin;
}

const struct token_keys *keyring_token_keys(const struct keyring *keyring)
{
    return keyring->token_keys;
}

struct result keyring_nonce(const struct keyring *keyring, uint64_t period, uint8_t nonce_out[KEYD_NONCE_SIZE], struct error *err)
{
    struct buffer OWNED_BUFFER info = BUFFER(32);
    const struct keyring_body *body = body_of(keyring);

    TRY(buffer_add_text(&info, "sijil nonce v1", err));
    TRY(buffer_add_u64(&info, period, err));
    return hkdf_sha256((struct bytes){body->token_scalar, sizeof body->token_scalar}, (struct bytes){0}, buffer_bytes(&info),
                       nonce_out, KEYD_NONCE_SIZE, err);
}

const struct ecdsa_key *keyring_document_key(const struct keyring *keyring)
{
    return keyring->document_key;
}

const struct ecdsa_key *keyring_runner_key(const struct keyring *keyring)
{
    return keyring->runner_key;
}

size_t keyring_log_key_count(const struct keyring *keyring)
{
    return 1 + body_of(keyring)->further_count;
}

const struct note_key *keyring_log_key(const struct keyring *keyring, size_t index)
{
    assert(index < keyring_log_key_count(keyring));
    return &keyring->log_keys[index];
}

struct result keyring_newest_log_key(const struct signed_log *log, struct buffer *vkey, struct error *err)
{
    const struct note_key *newest = keyring_log_key(log->keyring, keyring_log_key_count(log->keyring) - 1);
    char origin[CHECKPOINT_ORIGIN_MAX + 1];
    struct note_key key;

    TRY(succession_origin(keyring_origin(log->keyring), log->number, origin, err));
    TRY(note_key_make(origin, NOTE_ED25519, newest->public_key, &key, err));
    return note_key_write(&key, vkey, err);
}

struct result keyring_sign_log(const struct keyring *keyring, size_t index, struct bytes text, uint8_t signature_out[64],
                               struct error *err)
{
    OWNED(secret) *seed = NULL;
    const struct keyring_body *body = body_of(keyring);

    TRY(secret_copy((struct bytes){seed_of(body, index), sizeof body->log_seed}, &seed, err));
    return ed25519_sign(seed, text, signature_out, err);
}

const uint8_t *keyring_index_key(const struct keyring *keyring)
{
    return body_of(keyring)->index_key;
}

const uint8_t *keyring_ledger_key(const struct keyring *keyring)
{
    return body_of(keyring)->ledger_key;
}

uint32_t keyring_version(const struct keyring *keyring)
{
    const struct keyring_roots *versions = &body_of(keyring)->versions;

    return versions->each[versions->count - 1].number;
}

uint32_t keyring_epoch(const struct keyring *keyring)
{
    const struct keyring_roots *epochs = &body_of(keyring)->epochs;

    return epochs->each[epochs->count - 1].number;
}

uint32_t keyring_oldest_epoch(const struct keyring *keyring)
{
    return body_of(keyring)->epochs.each[0].number;
}

const struct keyring_roots *keyring_versions(const struct keyring *keyring)
{
    return &body_of(keyring)->versions;
}

static struct result find_root(const struct keyring_roots *roots, uint32_t number, const struct keyring_root **root_out,
                               struct error *err)
{
    for (uint32_t i = 0; i < roots->count; i++) {
        const struct keyring_root *root = &roots->each[i];
        if (root->number != number) continue;
        if (root->kind == KEYRING_DESTROYED)
            return failure(err, ERROR_CORRUPT, "a key is wrapped under version %u, which was destroyed", number);
        *root_out = root;
        return SUCCESS;
    }
    return failure(err, ERROR_CORRUPT, "a key is wrapped under version %u, which the key ring does not hold", number);
}

struct result keyring_find_version(const struct keyring *keyring, uint32_t version, const struct keyring_root **root_out,
                                   struct error *err)
{
    return find_root(&body_of(keyring)->versions, version, root_out, err);
}

struct hsm *keyring_token(const struct keyring *keyring)
{
    return keyring->hsm;
}

struct result keyring_use_token(struct keyring *keyring, struct hsm *hsm, struct error *err)
{
    const struct keyring_roots *versions = &body_of(keyring)->versions;

    for (uint32_t i = 0; i < versions->count; i++) {
        if (versions->each[i].kind != KEYRING_TOKEN) continue;
        if (hsm == NULL)
            return failure(err, ERROR_INVALID,
                           "version %u of the key-encryption keys is in a token: give --token-module, "
                           "--token-label and --token-pin-file",
                           versions->each[i].number);
    }
    keyring->hsm = hsm;
    return hsm == NULL ? SUCCESS : hsm_check(hsm, err);
}

struct result keyring_scope_key(const struct keyring *keyring, const struct key_scope *scope, uint32_t version,
                                uint8_t key_out[32], struct error *err)
{
    uint8_t memory[256]; /* 27 letters, a number, two ids and a region with their lengths are 150 */
    struct buffer info = {.data = memory, .capacity = sizeof memory, .maximum = sizeof memory - 1};
    const struct keyring_root *root = NULL;

    TRY(keyring_find_version(keyring, version, &root, err));
    if (root->kind != KEYRING_ROOT) return failure(err, ERROR_INVALID, "version %u is in a token", version);
    TRY(buffer_add_text(&info, "sijil key-encryption key v1", err));
    TRY(buffer_add_u32(&info, version, err));
    TRY(buffer_add_prefixed(&info, uuid_bytes(&scope->organisation), err));
    TRY(buffer_add_prefixed(&info, uuid_bytes(&scope->project), err));
    TRY(buffer_add_prefixed(&info, bytes_of_text(scope->region), err));
    return hkdf_sha256((struct bytes){root->bytes, sizeof root->bytes}, (struct bytes){0}, buffer_bytes(&info), key_out, 32, err);
}

struct result keyring_subject_key(const struct keyring *keyring, uint32_t epoch, uint8_t key_out[32], struct error *err)
{
    uint8_t memory[64]; /* 24 letters and a number */
    struct buffer info = {.data = memory, .capacity = sizeof memory, .maximum = sizeof memory - 1};
    const struct keyring_root *root = NULL;

    TRY(find_root(&body_of(keyring)->epochs, epoch, &root, err));
    TRY(buffer_add_text(&info, "sijil subject keys v1", err));
    TRY(buffer_add_u32(&info, epoch, err));
    return hkdf_sha256((struct bytes){root->bytes, sizeof root->bytes}, (struct bytes){0}, buffer_bytes(&info), key_out, 32, err);
}

void keyring_free(struct keyring *keyring)
{
    if (keyring == NULL) return;
    secret_free(keyring->body);
    token_keys_free(keyring->token_keys);
    ecdsa_key_free(keyring->document_key);
    ecdsa_key_free(keyring->runner_key);
    free(keyring);
}
