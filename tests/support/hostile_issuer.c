#include "tests/support/hostile_issuer.h"

#include <stdio.h>
#include <string.h>

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>

#include "base/text.h"

struct hostile_issuer {
    enum hostile_key kind;
    EVP_PKEY *key;
};

#define MUST(condition)                                                                           \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            (void)fprintf(stderr, "hostile_issuer: %s failed (line %d)\n", #condition, __LINE__); \
            abort();                                                                              \
        }                                                                                         \
    } while (0)

struct hostile_issuer *hostile_issuer_new(enum hostile_key kind)
{
    struct hostile_issuer *issuer = calloc(1, sizeof *issuer);

    MUST(issuer != NULL);
    issuer->kind = kind;
    if (kind == HOSTILE_RSA) issuer->key = EVP_RSA_gen(2048);
    else if (kind == HOSTILE_ED25519) issuer->key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    else issuer->key = EVP_EC_gen(kind == HOSTILE_P256 ? "P-256" : "P-384");
    MUST(issuer->key != NULL);
    return issuer;
}

char *hostile_encode(struct bytes bytes)
{
    struct buffer text = BUFFER(1 << 22);
    struct error err = {0};

    MUST(text_base64(&text, BASE64_URL, bytes, &err).ok);
    MUST(text.data != NULL || buffer_add(&text, "", 0, &err).ok);
    if (text.data == NULL) return calloc(1, 1);
    return (char *)text.data;
}

static char *number(const EVP_PKEY *key, const char *name, int size)
{
    uint8_t bytes[512];
    BIGNUM *value = NULL;

    MUST(EVP_PKEY_get_bn_param(key, name, &value));
    if (size == 0) size = BN_num_bytes(value);
    MUST((size_t)size <= sizeof bytes && BN_bn2binpad(value, bytes, size) == size);
    BN_free(value);
    return hostile_encode((struct bytes){bytes, (size_t)size});
}

static char *edwards_jwks(const struct hostile_issuer *issuer, const char *kid, const char *alg)
{
    uint8_t point[32];
    size_t length = sizeof point;
    char *text = NULL;

    MUST(EVP_PKEY_get_raw_public_key(issuer->key, point, &length) == 1 && length == sizeof point);
    char *x = hostile_encode((struct bytes){point, length});
    MUST(asprintf(&text, "{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"%s\"%s%s%s,\"x\":\"%s\"}]}", kid,
                  alg == NULL ? "" : ",\"alg\":\"", alg == NULL ? "" : alg, alg == NULL ? "" : "\"", x) > 0);
    free(x);
    return text;
}

char *hostile_jwks(const struct hostile_issuer *issuer, const char *kid, const char *alg)
{
    if (issuer->kind == HOSTILE_ED25519) return edwards_jwks(issuer, kid, alg);
    const bool rsa = issuer->kind == HOSTILE_RSA;
    const int size = rsa ? 0 : issuer->kind == HOSTILE_P256 ? 32 : 48;
    char *first = number(issuer->key, rsa ? OSSL_PKEY_PARAM_RSA_N : OSSL_PKEY_PARAM_EC_PUB_X, size);
    char *second = number(issuer->key, rsa ? OSSL_PKEY_PARAM_RSA_E : OSSL_PKEY_PARAM_EC_PUB_Y, size);
    char *text = NULL;

    const int length =
        asprintf(&text, "{\"keys\":[{\"kty\":\"%s\",\"kid\":\"%s\"%s%s%s%s,\"%s\":\"%s\",\"%s\":\"%s\"}]}", rsa ? "RSA" : "EC",
                 kid, alg == NULL ? "" : ",\"alg\":\"", alg == NULL ? "" : alg, alg == NULL ? "" : "\"",
                 rsa                            ? ""
                 : issuer->kind == HOSTILE_P256 ? ",\"crv\":\"P-256\""
                                                : ",\"crv\":\"P-384\"",
                 rsa ? "n" : "x", first, rsa ? "e" : "y", second);
    MUST(length > 0);
    free(first);
    free(second);
    return text;
}

void hostile_point(const struct hostile_issuer *issuer, uint8_t point_out[65])
{
    size_t length = 0;

    MUST(EVP_PKEY_get_octet_string_param(issuer->key, OSSL_PKEY_PARAM_ENCODED_PUBLIC_KEY, point_out, 65, &length));
    if (length != 65) { /* compressed by default in some builds: compose it */
        BIGNUM *x = NULL, *y = NULL;
        MUST(EVP_PKEY_get_bn_param(issuer->key, OSSL_PKEY_PARAM_EC_PUB_X, &x));
        MUST(EVP_PKEY_get_bn_param(issuer->key, OSSL_PKEY_PARAM_EC_PUB_Y, &y));
        point_out[0] = 4;
        MUST(BN_bn2binpad(x, point_out + 1, 32) == 32 && BN_bn2binpad(y, point_out + 33, 32) == 32);
        BN_free(x);
        BN_free(y);
    }
}

/* r || s from DER, each of `half` bytes (RFC 7518, 3.4). */
static size_t to_jose(const uint8_t *der, size_t length, int half, uint8_t *out)
{
    ECDSA_SIG *signature = d2i_ECDSA_SIG(NULL, &der, (long)length);

    MUST(signature != NULL);
    MUST(BN_bn2binpad(ECDSA_SIG_get0_r(signature), out, half) == half);
    MUST(BN_bn2binpad(ECDSA_SIG_get0_s(signature), out + half, half) == half);
    ECDSA_SIG_free(signature);
    return (size_t)half * 2;
}

static size_t sign_with_key(const struct hostile_issuer *issuer, const char *alg, struct bytes message, uint8_t *out)
{
    uint8_t raw[512];
    size_t length = sizeof raw;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    EVP_PKEY_CTX *options = NULL;

    const EVP_MD *hash = strcmp(alg, "ES384") == 0 ? EVP_sha384() : EVP_sha256();
    MUST(EVP_DigestSignInit(context, &options, issuer->kind == HOSTILE_ED25519 ? NULL : hash, NULL, issuer->key) == 1);
    if (strcmp(alg, "PS256") == 0)
        MUST(EVP_PKEY_CTX_set_rsa_padding(options, RSA_PKCS1_PSS_PADDING) == 1 &&
             EVP_PKEY_CTX_set_rsa_pss_saltlen(options, RSA_PSS_SALTLEN_DIGEST) == 1);
    MUST(EVP_DigestSign(context, raw, &length, message.data, message.length) == 1);
    EVP_MD_CTX_free(context);
    if (issuer->kind == HOSTILE_P256 || issuer->kind == HOSTILE_P384)
        return to_jose(raw, length, issuer->kind == HOSTILE_P256 ? 32 : 48, out);
    memcpy(out, raw, length);
    return length;
}

/* The oldest attack: signs with the public key, which everybody has, as if it were a shared secret. */
static size_t sign_with_public_key(const struct hostile_issuer *issuer, struct bytes message, uint8_t *out)
{
    BIO *pem = BIO_new(BIO_s_mem());
    char *text = NULL;
    unsigned length = 0;

    MUST(pem != NULL && PEM_write_bio_PUBKEY(pem, issuer->key) == 1);
    const long size = BIO_get_mem_data(pem, &text);
    MUST(HMAC(EVP_sha256(), text, (int)size, message.data, message.length, out, &length) != NULL);
    BIO_free(pem);
    return length;
}

char *hostile_sign(const struct hostile_issuer *issuer, const char *alg, const char *signed_part)
{
    const struct bytes message = bytes_of_text(signed_part);
    uint8_t signature[512];
    char *token = NULL;

    const size_t length = strcmp(alg, "HS256") == 0 ? sign_with_public_key(issuer, message, signature)
                                                    : sign_with_key(issuer, alg, message, signature);
    char *text = hostile_encode((struct bytes){signature, length});
    MUST(asprintf(&token, "%s.%s", signed_part, text) > 0);
    free(text);
    return token;
}

char *hostile_token(const struct hostile_issuer *issuer, const char *alg, const char *header, const char *payload)
{
    char *first = hostile_encode(bytes_of_text(header)), *second = hostile_encode(bytes_of_text(payload));
    char *signed_part = NULL;

    MUST(asprintf(&signed_part, "%s.%s", first, second) > 0);
    char *token = hostile_sign(issuer, alg, signed_part);
    free(first);
    free(second);
    free(signed_part);
    return token;
}

void hostile_issuer_free(struct hostile_issuer *issuer)
{
    if (issuer == NULL) return;
    EVP_PKEY_free(issuer->key);
    free(issuer);
}
