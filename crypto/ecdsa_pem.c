#include <assert.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include "base/fault.h"
#include "base/file.h"
#include "crypto/ecdsa_priv.h"

/* Without this function OpenSSL would ask on the terminal. */
/* NOLINTNEXTLINE(readability-non-const-parameter): OpenSSL calls it with this type */
static int no_password(char *buffer, int size, int writing, void *context)
{
    (void)buffer, (void)size, (void)writing, (void)context;
    return -1;
}

struct result ecdsa_key_from_pem(struct bytes pem, struct ecdsa_key **key_out, struct error *err)
{
    bool is_private = true;

    if (pem.length > ECDSA_PEM_MAX) return failure(err, ERROR_INVALID, "a key in PEM is at most 4096 bytes");
    BIO *input = fault_is_due(FAULT_MEMORY) ? NULL : BIO_new_mem_buf(pem.data, (int)pem.length);
    if (input == NULL) return failure(err, ERROR_NO_MEMORY, "no memory to read a key");
    EVP_PKEY *pkey = PEM_read_bio_PrivateKey(input, NULL, no_password, NULL);
    if (pkey == NULL) {
        is_private = false;
        (void)BIO_reset(input);
        pkey = PEM_read_bio_PUBKEY(input, NULL, no_password, NULL);
    }
    BIO_free(input);
    ERR_clear_error();
    if (pkey == NULL)
        return failure(err, ERROR_INVALID,
                       "not an unencrypted P-256 key in PEM (one is made by: openssl ecparam -name prime256v1 -genkey -noout)");
    return ecdsa_key_adopt(pkey, is_private, key_out, err);
}

/* The buffer gets its full size at once, because growing would leave a copy of the key in memory. */
static struct result reserve(struct buffer *pem, struct error *err)
{
    uint8_t *ignored = NULL;

    return buffer_reserve(pem, ECDSA_PEM_MAX, &ignored, err);
}

static void wipe(struct buffer *pem)
{
    secret_wipe(pem->data, pem->capacity);
}

struct result ecdsa_key_load(const char *path, struct ecdsa_key **key_out, struct error *err)
{
    struct buffer OWNED_BUFFER pem = BUFFER(ECDSA_PEM_MAX);

    TRY(reserve(&pem, err));
    struct result result = file_read(path, &pem, err);
    if (result.ok) result = ecdsa_key_from_pem(buffer_bytes(&pem), key_out, err);
    wipe(&pem);
    return result;
}

struct result pem_take(BIO *output, bool is_written, const char *why, struct buffer *pem, struct error *err)
{
    char *text = NULL;
    struct result result = {.ok = false};

    if (is_written) {
        const long length = BIO_get_mem_data(output, &text);
        result = buffer_add(pem, text, (size_t)length, err);
    } else {
        result = failure(err, ERROR_NO_MEMORY, "%s", why);
    }
    BIO_free(output);
    return result;
}

static struct result private_pem(const struct ecdsa_key *key, struct buffer *pem, struct error *err)
{
    BIO *output = fault_is_due(FAULT_MEMORY) ? NULL : BIO_new(BIO_s_secmem());
    const bool is_written = output != NULL && PEM_write_bio_PKCS8PrivateKey(output, key->pkey, NULL, NULL, 0, NULL, NULL) == 1;

    return pem_take(output, is_written, "no memory to write a key", pem, err);
}

struct result ecdsa_key_save(const struct ecdsa_key *key, const char *path, struct error *err)
{
    struct buffer OWNED_BUFFER pem = BUFFER(ECDSA_PEM_MAX);
    bool is_there = false;

    assert(key->is_private && key->remote.sign == NULL);
    TRY(file_is_there(path, &is_there, err));
    if (is_there) return failure(err, ERROR_CONFLICT, "%s exists; a key is never overwritten", path);
    TRY(reserve(&pem, err));
    struct result result = private_pem(key, &pem, err);
    if (result.ok) result = file_replace(path, buffer_bytes(&pem), 0600, err);
    wipe(&pem);
    return result;
}

struct result ecdsa_key_public_pem(const struct ecdsa_key *key, struct buffer *pem, struct error *err)
{
    BIO *output = fault_is_due(FAULT_MEMORY) ? NULL : BIO_new(BIO_s_mem());
    const bool is_written = output != NULL && PEM_write_bio_PUBKEY(output, key->pkey) == 1;

    return pem_take(output, is_written, "no memory to write a key", pem, err);
}
