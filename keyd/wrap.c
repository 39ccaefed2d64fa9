#include "keyd/wrap.h"

#include <string.h>

#include "crypto/aead.h"
#include "crypto/hmac.h"
#include "crypto/secret.h"

enum { BINDING_MAX = 256, /* two ids, a region, a number, an id and a commitment behind lengths: 199 */
       INDEX_TEXT_MAX = 2 * KEYD_NAME_MAX + 16 };

static struct result write_binding(struct buffer *out, const struct key_binding *binding, uint32_t version,
                                   struct error *err)
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

struct result wrap_data_key(const struct keyring *keyring, const struct key_binding *binding,
                            struct bytes data_key, struct wrapped_key *wrapped_out, struct error *err)
{
    uint8_t memory[BINDING_MAX], key[XCHACHA_KEY_SIZE];
    struct buffer associated = {.data = memory, .capacity = sizeof memory, .maximum = sizeof memory - 1};
    struct wrapped_key wrapped = {.version = keyring_version(keyring), .length = data_key.length + BOX_OVERHEAD};

    _Static_assert(DATA_KEY_SIZE + BOX_OVERHEAD <= WRAPPED_KEY_MAX, "a wrapped key has room");
    TRY(write_binding(&associated, binding, wrapped.version, err));
    TRY(keyring_scope_key(keyring, &binding->scope, wrapped.version, key, err));
    box_seal(key, buffer_bytes(&associated), data_key, wrapped.bytes);
    secret_wipe(key, sizeof key);
    *wrapped_out = wrapped;
    return SUCCESS;
}

struct result unwrap_data_key(const struct keyring *keyring, const struct key_binding *binding,
                              const struct wrapped_key *wrapped, uint8_t data_key_out[DATA_KEY_SIZE],
                              struct error *err)
{
    uint8_t memory[BINDING_MAX], key[XCHACHA_KEY_SIZE];
    struct buffer associated = {.data = memory, .capacity = sizeof memory, .maximum = sizeof memory - 1};

    if (wrapped->length != DATA_KEY_SIZE + BOX_OVERHEAD)
        return failure(err, ERROR_CORRUPT, "a wrapped data key of the wrong length");
    TRY(write_binding(&associated, binding, wrapped->version, err));
    TRY(keyring_scope_key(keyring, &binding->scope, wrapped->version, key, err));
    const struct result result = box_open(key, buffer_bytes(&associated),
                                          (struct bytes){wrapped->bytes, wrapped->length}, data_key_out, err);
    secret_wipe(key, sizeof key);
    if (!result.ok)
        return failure(err, ERROR_CORRUPT, "a wrapped data key does not belong to this project, region and blob");
    return SUCCESS;
}

struct result rewrap_data_key(const struct keyring *keyring, const struct key_binding *binding,
                              const struct wrapped_key *wrapped, struct wrapped_key *wrapped_out, struct error *err)
{
    uint8_t key[DATA_KEY_SIZE];

    TRY(unwrap_data_key(keyring, binding, wrapped, key, err));
    const struct result result = wrap_data_key(keyring, binding, (struct bytes){key, sizeof key}, wrapped_out, err);
    secret_wipe(key, sizeof key);
    return result;
}

struct result subject_index(const struct keyring *keyring, struct bytes issuer, struct bytes subject,
                            uint8_t index_out[32], struct error *err)
{
    uint8_t memory[INDEX_TEXT_MAX];
    struct buffer text = {.data = memory, .capacity = sizeof memory, .maximum = sizeof memory - 1};

    TRY(buffer_add_prefixed(&text, issuer, err));
    TRY(buffer_add_prefixed(&text, subject, err));
    hmac_sha256((struct bytes){keyring_index_key(keyring), 32}, buffer_bytes(&text), index_out);
    secret_wipe(memory, sizeof memory); /* it names a person */
    return SUCCESS;
}

struct result wrap_subject_key(const struct keyring *keyring, const uint8_t index[32],
                               const uint8_t key[SUBJECT_KEY_SIZE], struct wrapped_key *wrapped_out,
                               struct error *err)
{
    uint8_t wrapping[XCHACHA_KEY_SIZE];
    struct wrapped_key wrapped = {.version = keyring_epoch(keyring), .length = SUBJECT_KEY_SIZE + BOX_OVERHEAD};

    TRY(keyring_subject_key(keyring, wrapped.version, wrapping, err));
    box_seal(wrapping, (struct bytes){index, 32}, (struct bytes){key, SUBJECT_KEY_SIZE}, wrapped.bytes);
    secret_wipe(wrapping, sizeof wrapping);
    *wrapped_out = wrapped;
    return SUCCESS;
}

struct result unwrap_subject_key(const struct keyring *keyring, const uint8_t index[32],
                                 const struct wrapped_key *wrapped, uint8_t key_out[SUBJECT_KEY_SIZE],
                                 struct error *err)
{
    uint8_t wrapping[XCHACHA_KEY_SIZE];

    if (wrapped->length != SUBJECT_KEY_SIZE + BOX_OVERHEAD)
        return failure(err, ERROR_CORRUPT, "a wrapped subject key of the wrong length");
    TRY(keyring_subject_key(keyring, wrapped->version, wrapping, err));
    const struct result result = box_open(wrapping, (struct bytes){index, 32},
                                          (struct bytes){wrapped->bytes, wrapped->length}, key_out, err);
    secret_wipe(wrapping, sizeof wrapping);
    return result.ok ? SUCCESS : failure(err, ERROR_CORRUPT, "a wrapped subject key does not belong to this subject");
}
