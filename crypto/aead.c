#include "crypto/aead.h"

#include <assert.h>
#include <limits.h>
#include <openssl/evp.h>
#include <string.h>

#include "base/fault.h"
#include "base/memory.h"
#include "crypto/sodium_priv.h"

struct gcm {
    EVP_CIPHER_CTX *context; /* keeps the key schedule; only the nonce changes from call to call */
};

struct result gcm_new(const uint8_t key[GCM_KEY_SIZE], struct gcm **gcm_out, struct error *err)
{
    OWNED(gcm) *gcm = memory_zeroed(1, sizeof *gcm);

    if (gcm != NULL && !fault_is_due(FAULT_MEMORY)) gcm->context = EVP_CIPHER_CTX_new();
    if (gcm == NULL || gcm->context == NULL || EVP_EncryptInit_ex(gcm->context, EVP_aes_256_gcm(), NULL, key, NULL) != 1)
        return failure(err, ERROR_NO_MEMORY, "no memory for an AES-256-GCM key");
    *gcm_out = GIVE(gcm);
    return SUCCESS;
}

/* Starts one message in either direction and adds the associated data. */
static bool gcm_begin(struct gcm *gcm, int encrypt, const uint8_t *nonce, struct bytes associated)
{
    int ignored = 0;

    if (EVP_CipherInit_ex(gcm->context, NULL, NULL, NULL, nonce, encrypt) != 1) return false;
    return associated.length == 0 || EVP_CipherUpdate(gcm->context, NULL, &ignored, associated.data, (int)associated.length) == 1;
}

static bool gcm_finish(struct gcm *gcm, struct bytes input, uint8_t *out)
{
    uint8_t nothing[EVP_MAX_BLOCK_LENGTH]; /* GCM writes no bytes at the end */
    int length = 0;

    if (input.length > 0 && EVP_CipherUpdate(gcm->context, out, &length, input.data, (int)input.length) != 1) return false;
    return EVP_CipherFinal_ex(gcm->context, nothing, &length) == 1;
}

struct result gcm_seal(struct gcm *gcm, const uint8_t nonce[GCM_NONCE_SIZE], struct bytes associated, struct bytes plain,
                       uint8_t *sealed_out, struct error *err)
{
    assert(plain.length <= INT_MAX - GCM_TAG_SIZE && associated.length <= INT_MAX);
    if (gcm_begin(gcm, 1, nonce, associated) && gcm_finish(gcm, plain, sealed_out) &&
        EVP_CIPHER_CTX_ctrl(gcm->context, EVP_CTRL_AEAD_GET_TAG, GCM_TAG_SIZE, sealed_out + plain.length) == 1)
        return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "encryption failed");
}

struct result gcm_open(struct gcm *gcm, const uint8_t nonce[GCM_NONCE_SIZE], struct bytes associated, struct bytes sealed,
                       uint8_t *plain_out, struct error *err)
{
    assert(sealed.length <= INT_MAX && associated.length <= INT_MAX);
    if (sealed.length < GCM_TAG_SIZE) return failure(err, ERROR_CORRUPT, "a sealed record is shorter than its tag");

    const size_t length = sealed.length - GCM_TAG_SIZE;
    uint8_t tag[GCM_TAG_SIZE];
    memcpy(tag, sealed.data + length, sizeof tag);
    if (gcm_begin(gcm, 0, nonce, associated) &&
        EVP_CIPHER_CTX_ctrl(gcm->context, EVP_CTRL_AEAD_SET_TAG, GCM_TAG_SIZE, tag) == 1 &&
        gcm_finish(gcm, (struct bytes){sealed.data, length}, plain_out))
        return SUCCESS;
    sodium_memzero(plain_out, length);
    return failure(err, ERROR_CORRUPT, "a sealed record fails its check: changed bytes, or another key");
}

void gcm_free(struct gcm *gcm)
{
    if (gcm != NULL) EVP_CIPHER_CTX_free(gcm->context);
    free(gcm);
}

void xchacha_seal(const uint8_t key[XCHACHA_KEY_SIZE], const uint8_t nonce[XCHACHA_NONCE_SIZE], struct bytes associated,
                  struct bytes plain, uint8_t *sealed_out)
{
    sodium_ready();
    (void)crypto_aead_xchacha20poly1305_ietf_encrypt(sealed_out, NULL, plain.data, plain.length, associated.data,
                                                     associated.length, NULL, nonce, key);
}

struct result xchacha_open(const uint8_t key[XCHACHA_KEY_SIZE], const uint8_t nonce[XCHACHA_NONCE_SIZE], struct bytes associated,
                           struct bytes sealed, uint8_t *plain_out, struct error *err)
{
    sodium_ready();
    if (crypto_aead_xchacha20poly1305_ietf_decrypt(plain_out, NULL, NULL, sealed.data, sealed.length, associated.data,
                                                   associated.length, nonce, key) == 0)
        return SUCCESS;
    if (sealed.length > XCHACHA_TAG_SIZE) sodium_memzero(plain_out, sealed.length - XCHACHA_TAG_SIZE);
    return failure(err, ERROR_CORRUPT, "sealed bytes fail their check: changed bytes, or another key");
}

void box_seal(const uint8_t key[XCHACHA_KEY_SIZE], struct bytes associated, struct bytes plain, uint8_t *box_out)
{
    sodium_ready();
    randombytes_buf(box_out, XCHACHA_NONCE_SIZE);
    xchacha_seal(key, box_out, associated, plain, box_out + XCHACHA_NONCE_SIZE);
}

struct result box_open(const uint8_t key[XCHACHA_KEY_SIZE], struct bytes associated, struct bytes box, uint8_t *plain_out,
                       struct error *err)
{
    if (box.length < BOX_OVERHEAD) return failure(err, ERROR_CORRUPT, "a sealed box is too short");
    return xchacha_open(key, box.data, associated, (struct bytes){box.data + XCHACHA_NONCE_SIZE, box.length - XCHACHA_NONCE_SIZE},
                        plain_out, err);
}
