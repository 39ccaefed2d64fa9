#include <assert.h>
#include <openssl/bn.h>
#include <openssl/ecdsa.h>
#include <string.h>

#include "base/fault.h"
#include "crypto/digest.h"
#include "crypto/ecdsa_priv.h"

bool ecdsa_verify_der(const struct ecdsa_key *key, struct bytes message, struct bytes signature)
{
    if (signature.length == 0 || signature.length > ECDSA_DER_MAX) return false;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    const bool ok = context != NULL && EVP_DigestVerifyInit(context, NULL, EVP_sha256(), NULL, key->pkey) == 1 &&
                    EVP_DigestVerify(context, signature.data, signature.length, message.data, message.length) == 1;
    EVP_MD_CTX_free(context);
    return ok;
}

/* The DER encoding of r and s; 0 on failure. */
static size_t encode(const uint8_t signature[ECDSA_JOSE_SIZE], uint8_t der_out[ECDSA_DER_MAX])
{
    ECDSA_SIG *pair = ECDSA_SIG_new();
    BIGNUM *r = BN_bin2bn(signature, 32, NULL), *s = BN_bin2bn(signature + 32, 32, NULL);
    uint8_t *at = der_out;
    int length = 0;

    if (pair != NULL && r != NULL && s != NULL && ECDSA_SIG_set0(pair, r, s) == 1) {
        r = s = NULL; /* the pair owns them now */
        length = i2d_ECDSA_SIG(pair, &at);
    }
    BN_free(r);
    BN_free(s);
    ECDSA_SIG_free(pair);
    return length > 0 ? (size_t)length : 0;
}

static struct result sign_here(const struct ecdsa_key *key, struct bytes message, uint8_t der_out[ECDSA_DER_MAX],
                               size_t *length_out, struct error *err)
{
    size_t length = ECDSA_DER_MAX;

    EVP_MD_CTX *context = fault_is_due(FAULT_MEMORY) ? NULL : EVP_MD_CTX_new();
    const bool ok = context != NULL && EVP_DigestSignInit(context, NULL, EVP_sha256(), NULL, key->pkey) == 1 &&
                    EVP_DigestSign(context, der_out, &length, message.data, message.length) == 1;
    EVP_MD_CTX_free(context);
    if (!ok) return failure(err, ERROR_NO_MEMORY, "nothing could be signed");
    *length_out = length;
    return SUCCESS;
}

/* A token may be broken, or the public half may be another key's. */
static struct result sign_elsewhere(const struct ecdsa_key *key, struct bytes message, uint8_t der_out[ECDSA_DER_MAX],
                                    size_t *length_out, struct error *err)
{
    uint8_t digest[ECDSA_DIGEST_SIZE], pair[ECDSA_JOSE_SIZE] = {0};

    sha256_of(message, digest);
    TRY(key->remote.sign(key->remote.context, digest, pair, err));
    const size_t length = encode(pair, der_out);
    if (length == 0) return failure(err, ERROR_NO_MEMORY, "nothing could be signed");
    if (!ecdsa_verify_der(key, message, (struct bytes){der_out, length}))
        return failure(err, ERROR_CORRUPT,
                       "the signature does not fit the public key: it is another key's, or the token is broken");
    *length_out = length;
    return SUCCESS;
}

static struct result sign(const struct ecdsa_key *key, struct bytes message, uint8_t der_out[ECDSA_DER_MAX], size_t *length_out,
                          struct error *err)
{
    assert(key->is_private);
    return (key->remote.sign == NULL ? sign_here : sign_elsewhere)(key, message, der_out, length_out, err);
}

struct result ecdsa_sign_der(const struct ecdsa_key *key, struct bytes message, struct buffer *signature, struct error *err)
{
    uint8_t der[ECDSA_DER_MAX];
    size_t length = 0;

    TRY(sign(key, message, der, &length, err));
    return buffer_add(signature, der, length, err);
}

struct result ecdsa_sign_jose(const struct ecdsa_key *key, struct bytes message, uint8_t signature_out[ECDSA_JOSE_SIZE],
                              struct error *err)
{
    uint8_t der[ECDSA_DER_MAX];
    const uint8_t *at = der;
    size_t length = 0;

    TRY(sign(key, message, der, &length, err));
    ECDSA_SIG *pair = d2i_ECDSA_SIG(NULL, &at, (long)length);
    const bool ok = pair != NULL && BN_bn2binpad(ECDSA_SIG_get0_r(pair), signature_out, 32) == 32 &&
                    BN_bn2binpad(ECDSA_SIG_get0_s(pair), signature_out + 32, 32) == 32;
    ECDSA_SIG_free(pair);
    return ok ? SUCCESS : failure(err, ERROR_NO_MEMORY, "nothing could be signed");
}

bool ecdsa_verify_jose(const struct ecdsa_key *key, struct bytes message, struct bytes signature)
{
    uint8_t der[ECDSA_DER_MAX];

    if (signature.length != ECDSA_JOSE_SIZE) return false;
    const size_t length = encode(signature.data, der);
    return ecdsa_verify_der(key, message, (struct bytes){der, length});
}
