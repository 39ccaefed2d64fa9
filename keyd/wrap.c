#include "keyd/wrap.h"

#include <string.h>

#include "crypto/aead.h"
#include "crypto/hmac.h"
#include "crypto/secret.h"

enum {
    BINDING_MAX = 256, /* two ids, a region, a number, an id and a commitment with their lengths: 199 */
    INDEX_TEXT_MAX = 2 * KEYD_NAME_MAX + 16
};

static struct result write_binding(struct buffer *out, const struct key_binding *binding, uint32_t version, struct error *err)
{
    uint8_t number[4];

    store_u32(number, version);
    TRY(buffer_add_prefixed(out, uuid_bytes(&binding->scope.organisation), err));
    TRY(buffer_add_prefixed(out, uuid_bytes(&binding->scope.project), err));
    TRY(buffer_add_prefixed(out, bytes_of_text(binding->scope.region), err));
    TRY(buffer_add_prefixed(out, (struct bytes){number, sizeof number}, err));
    TRY(buffer_add_prefixed(out, uuid_bytes(&binding->blob), err));
    return buffer_add_prefixed(out, (struct bytes){binding->commitment, sizeof binding->commitment}, err);
}

/* How a wrapped key is sealed: its version's entry, and the data that it is bound to. */
struct sealing {
    const struct keyring_root *root;
    uint8_t memory[BINDING_MAX];
    struct buffer associated;
};

static struct result prepare(const struct keyring *keyring, const struct key_binding *binding, uint32_t version,
                             struct sealing *sealing, struct error *err)
{
    sealing->associated =
        (struct buffer){.data = sealing->memory, .capacity = sizeof sealing->memory, .maximum = sizeof sealing->memory - 1};
    _Static_assert(BINDING_MAX <= HSM_ASSOCIATED_MAX, "a token takes the associated data of a key");
    TRY(keyring_find_version(keyring, version, &sealing->root, err));
    return write_binding(&sealing->associated, binding, version, err);
}

static struct result seal_in_file(const struct keyring *keyring, const struct key_scope *scope, const struct sealing *sealing,
                                  struct bytes data_key, struct wrapped_key *wrapped, struct error *err)
{
    uint8_t key[XCHACHA_KEY_SIZE];

    TRY(keyring_scope_key(keyring, scope, sealing->root->number, key, err));
    box_seal(key, buffer_bytes(&sealing->associated), data_key, wrapped->bytes);
    secret_wipe(key, sizeof key);
    wrapped->length = data_key.length + BOX_OVERHEAD;
    return SUCCESS;
}

/* If the token is missing, locked or lacks the key, this proves nothing about the row, so the error must not be
 * "no such blob". */
static struct result of_token(struct result result, struct error *err)
{
    if (!result.ok && err->kind != ERROR_CORRUPT) err->kind = ERROR_UNAVAILABLE;
    return result;
}

static struct result seal_in_token(const struct keyring *keyring, const struct sealing *sealing, struct bytes data_key,
                                   struct wrapped_key *wrapped, struct error *err)
{
    const struct pkcs11_box box = {.id = sealing->root->bytes, .associated = buffer_bytes(&sealing->associated)};

    wrapped->length = data_key.length + PKCS11_OVERHEAD;
    return of_token(hsm_seal(keyring_token(keyring), &box, data_key, wrapped->bytes, err), err);
}

struct result wrap_data_key(const struct keyring *keyring, const struct key_binding *binding, struct bytes data_key,
                            struct wrapped_key *wrapped_out, struct error *err)
{
    struct wrapped_key wrapped = {.version = keyring_version(keyring)};
    struct sealing sealing;

    _Static_assert(DATA_KEY_SIZE + BOX_OVERHEAD <= WRAPPED_KEY_MAX, "a wrapped key has room");
    TRY(prepare(keyring, binding, wrapped.version, &sealing, err));
    if (sealing.root->kind == KEYRING_TOKEN) TRY(seal_in_token(keyring, &sealing, data_key, &wrapped, err));
    else TRY(seal_in_file(keyring, &binding->scope, &sealing, data_key, &wrapped, err));
    *wrapped_out = wrapped;
    return SUCCESS;
}

static struct result open_in_file(const struct keyring *keyring, const struct key_scope *scope, const struct sealing *sealing,
                                  struct bytes wrapped, uint8_t data_key_out[DATA_KEY_SIZE], struct error *err)
{
    uint8_t key[XCHACHA_KEY_SIZE];

    TRY(keyring_scope_key(keyring, scope, sealing->root->number, key, err));
    const struct result result = box_open(key, buffer_bytes(&sealing->associated), wrapped, data_key_out, err);
    secret_wipe(key, sizeof key);
    if (result.ok) return result;
    return failure(err, ERROR_CORRUPT, "a wrapped data key does not belong to this project, region and blob");
}

struct result unwrap_data_key(const struct keyring *keyring, const struct key_binding *binding, const struct wrapped_key *wrapped,
                              uint8_t data_key_out[DATA_KEY_SIZE], struct error *err)
{
    const struct bytes box = {wrapped->bytes, wrapped->length};
    struct sealing sealing;

    TRY(prepare(keyring, binding, wrapped->version, &sealing, err));
    const bool is_in_token = sealing.root->kind == KEYRING_TOKEN;
    if (wrapped->length != DATA_KEY_SIZE + (is_in_token ? PKCS11_OVERHEAD : BOX_OVERHEAD))
        return failure(err, ERROR_CORRUPT, "a wrapped data key of the wrong length");
    if (!is_in_token) return open_in_file(keyring, &binding->scope, &sealing, box, data_key_out, err);
    const struct pkcs11_box sealed = {.id = sealing.root->bytes, .associated = buffer_bytes(&sealing.associated)};
    return of_token(hsm_unseal(keyring_token(keyring), &sealed, box, data_key_out, err), err);
}

struct result rewrap_data_key(const struct keyring *keyring, const struct key_binding *binding, const struct wrapped_key *wrapped,
                              struct wrapped_key *wrapped_out, struct error *err)
{
    uint8_t key[DATA_KEY_SIZE];

    TRY(unwrap_data_key(keyring, binding, wrapped, key, err));
    const struct result result = wrap_data_key(keyring, binding, (struct bytes){key, sizeof key}, wrapped_out, err);
    secret_wipe(key, sizeof key);
    return result;
}

struct result subject_index(const struct keyring *keyring, struct bytes issuer, struct bytes subject, uint8_t index_out[32],
                            struct error *err)
{
    uint8_t memory[INDEX_TEXT_MAX];
    struct buffer text = {.data = memory, .capacity = sizeof memory, .maximum = sizeof memory - 1};

    TRY(buffer_add_prefixed(&text, issuer, err));
    TRY(buffer_add_prefixed(&text, subject, err));
    hmac_sha256((struct bytes){keyring_index_key(keyring), 32}, buffer_bytes(&text), index_out);
    secret_wipe(memory, sizeof memory); /* this memory names a person */
    return SUCCESS;
}

struct result wrap_subject_key(const struct keyring *keyring, const uint8_t index[32], const uint8_t key[SUBJECT_KEY_SIZE],
                               struct wrapped_key *wrapped_out, struct error *err)
{
    uint8_t wrapping[XCHACHA_KEY_SIZE];
    struct wrapped_key wrapped = {.version = keyring_epoch(keyring), .length = SUBJECT_KEY_SIZE + BOX_OVERHEAD};

    TRY(keyring_subject_key(keyring, wrapped.version, wrapping, err));
    box_seal(wrapping, (struct bytes){index, 32}, (struct bytes){key, SUBJECT_KEY_SIZE}, wrapped.bytes);
    secret_wipe(wrapping, sizeof wrapping);
    *wrapped_out = wrapped;
    return SUCCESS;
}

struct result unwrap_subject_key(const struct keyring *keyring, const uint8_t index[32], const struct wrapped_key *wrapped,
                                 uint8_t key_out[SUBJECT_KEY_SIZE], struct error *err)
{
    uint8_t wrapping[XCHACHA_KEY_SIZE];

    if (wrapped->length != SUBJECT_KEY_SIZE + BOX_OVERHEAD)
        return failure(err, ERROR_CORRUPT, "a wrapped subject key of the wrong length");
    TRY(keyring_subject_key(keyring, wrapped->version, wrapping, err));
    const struct result result =
        box_open(wrapping, (struct bytes){index, 32}, (struct bytes){wrapped->bytes, wrapped->length}, key_out, err);
    secret_wipe(wrapping, sizeof wrapping);
    return result.ok ? SUCCESS : failure(err, ERROR_CORRUPT, "a wrapped subject key does not belong to this subject");
}

struct result rewrap_subject_key(const struct keyring *keyring, const uint8_t index[32], const struct wrapped_key *wrapped,
                                 struct wrapped_key *wrapped_out, struct error *err)
{
    uint8_t key[SUBJECT_KEY_SIZE];

    TRY(unwrap_subject_key(keyring, index, wrapped, key, err));
    const struct result result = wrap_subject_key(keyring, index, key, wrapped_out, err);
    secret_wipe(key, sizeof key);
    return result;
}
