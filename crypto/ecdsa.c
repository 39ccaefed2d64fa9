#include "crypto/ecdsa.h"

#include <assert.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/param_build.h>
#include <string.h>

#include "base/fault.h"
#include "base/memory.h"
#include "base/text.h"
#include "crypto/digest.h"
#include "crypto/ecdsa_priv.h"

enum { COORDINATE_SIZE = 32, COORDINATE_TEXT = 43 };

static bool is_p256(EVP_PKEY *pkey)
{
    char group[32] = ""; /* OpenSSL's longest name of a curve has 22 characters */

    return EVP_PKEY_is_a(pkey, "EC") == 1 && EVP_PKEY_get_group_name(pkey, group, sizeof group, NULL) == 1 &&
           strcmp(group, SN_X9_62_prime256v1) == 0;
}

static bool read_coordinate(EVP_PKEY *pkey, const char *name, uint8_t out[COORDINATE_SIZE])
{
    BIGNUM *number = NULL;

    const bool ok =
        EVP_PKEY_get_bn_param(pkey, name, &number) == 1 && BN_bn2binpad(number, out, COORDINATE_SIZE) == COORDINATE_SIZE;
    BN_free(number);
    return ok;
}

struct result ecdsa_key_adopt(EVP_PKEY *pkey, bool is_private, struct ecdsa_key **key_out, struct error *err)
{
    OWNED(ecdsa_key) *key = memory_zeroed(1, sizeof *key);

    if (key == NULL) {
        EVP_PKEY_free(pkey);
        return failure(err, ERROR_NO_MEMORY, "no memory for a key");
    }
    key->pkey = pkey;
    key->is_private = is_private;
    key->point[0] = POINT_CONVERSION_UNCOMPRESSED;
    if (!is_p256(pkey)) return failure(err, ERROR_INVALID, "the key is not an ECDSA key on P-256");
    if (!read_coordinate(pkey, OSSL_PKEY_PARAM_EC_PUB_X, key->point + 1) ||
        !read_coordinate(pkey, OSSL_PKEY_PARAM_EC_PUB_Y, key->point + 1 + COORDINATE_SIZE))
        return failure(err, ERROR_NO_MEMORY, "no memory to read a key");
    *key_out = GIVE(key);
    return SUCCESS;
}

struct result ecdsa_key_new(struct ecdsa_key **key_out, struct error *err)
{
    EVP_PKEY *pkey = fault_is_due(FAULT_MEMORY) ? NULL : EVP_EC_gen(SN_X9_62_prime256v1);

    if (pkey == NULL) return failure(err, ERROR_NO_MEMORY, "no key could be made");
    return ecdsa_key_adopt(pkey, true, key_out, err);
}

/* `scalar` may be NULL: then the public half alone. Returns NULL when out of memory. */
static OSSL_PARAM *parameters_of(const uint8_t *point, const BIGNUM *scalar)
{
    OSSL_PARAM_BLD *builder = fault_is_due(FAULT_MEMORY) ? NULL : OSSL_PARAM_BLD_new();
    OSSL_PARAM *parameters = NULL;

    if (builder != NULL && OSSL_PARAM_BLD_push_utf8_string(builder, OSSL_PKEY_PARAM_GROUP_NAME, SN_X9_62_prime256v1, 0) == 1 &&
        OSSL_PARAM_BLD_push_octet_string(builder, OSSL_PKEY_PARAM_PUB_KEY, point, ECDSA_PUBLIC_SIZE) == 1 &&
        (scalar == NULL || OSSL_PARAM_BLD_push_BN(builder, OSSL_PKEY_PARAM_PRIV_KEY, scalar) == 1))
        parameters = OSSL_PARAM_BLD_to_param(builder);
    OSSL_PARAM_BLD_free(builder);
    return parameters;
}

/* Lack of memory must not look like a bad key, because the owner of the key would be blamed. */
static struct result pkey_from(const uint8_t *point, const BIGNUM *scalar, EVP_PKEY **pkey_out, struct error *err)
{
    OSSL_PARAM *parameters = parameters_of(point, scalar);
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, "EC", NULL);
    EVP_PKEY *pkey = NULL;
    struct result result = SUCCESS;

    if (parameters == NULL || context == NULL || EVP_PKEY_fromdata_init(context) != 1)
        result = failure(err, ERROR_NO_MEMORY, "no memory for a key");
    else if (EVP_PKEY_fromdata(context, &pkey, scalar == NULL ? EVP_PKEY_PUBLIC_KEY : EVP_PKEY_KEYPAIR, parameters) != 1)
        result = failure(err, ERROR_INVALID, "these bytes are no point of P-256");
    else *pkey_out = pkey;
    OSSL_PARAM_free(parameters);
    EVP_PKEY_CTX_free(context);
    return result;
}

struct result ecdsa_key_from_public(const uint8_t point[ECDSA_PUBLIC_SIZE], struct ecdsa_key **key_out, struct error *err)
{
    EVP_PKEY *pkey = NULL;

    if (point[0] != POINT_CONVERSION_UNCOMPRESSED) return failure(err, ERROR_INVALID, "these bytes are no point of P-256");
    TRY(pkey_from(point, NULL, &pkey, err));
    return ecdsa_key_adopt(pkey, false, key_out, err);
}

struct result ecdsa_key_from_remote(const uint8_t point[ECDSA_PUBLIC_SIZE], const struct ecdsa_remote *remote,
                                    struct ecdsa_key **key_out, struct error *err)
{
    struct ecdsa_key *key = NULL;

    TRY(ecdsa_key_from_public(point, &key, err));
    key->is_private = true;
    key->remote = *remote;
    *key_out = key;
    return SUCCESS;
}

/* scalar * G in constant time. 0 and numbers not below the order are not keys. */
static struct result multiply(const BIGNUM *scalar, uint8_t point_out[ECDSA_PUBLIC_SIZE], struct error *err)
{
    EC_GROUP *group = fault_is_due(FAULT_MEMORY) ? NULL : EC_GROUP_new_by_curve_name(NID_X9_62_prime256v1);
    EC_POINT *point = group == NULL ? NULL : EC_POINT_new(group);
    struct result result = SUCCESS;

    if (point != NULL && (BN_is_zero(scalar) || BN_cmp(scalar, EC_GROUP_get0_order(group)) >= 0))
        result = failure(err, ERROR_INVALID, "these bytes are no private key of P-256");
    else if (point == NULL || EC_POINT_mul(group, point, scalar, NULL, NULL, NULL) != 1 ||
             EC_POINT_point2oct(group, point, POINT_CONVERSION_UNCOMPRESSED, point_out, ECDSA_PUBLIC_SIZE, NULL) !=
                 ECDSA_PUBLIC_SIZE)
        result = failure(err, ERROR_NO_MEMORY, "no memory for a key");
    EC_POINT_free(point);
    EC_GROUP_free(group);
    return result;
}

static struct result pair_from(BIGNUM *number, EVP_PKEY **pkey_out, struct error *err)
{
    uint8_t point[ECDSA_PUBLIC_SIZE];

    BN_set_flags(number, BN_FLG_CONSTTIME);
    TRY(multiply(number, point, err));
    return pkey_from(point, number, pkey_out, err);
}

struct result ecdsa_key_from_scalar(const struct secret *scalar, struct ecdsa_key **key_out, struct error *err)
{
    EVP_PKEY *pkey = NULL;

    assert(scalar->length == ECDSA_SCALAR_SIZE);
    BIGNUM *number = BN_secure_new();
    const bool is_read = number != NULL && BN_bin2bn(scalar->bytes, ECDSA_SCALAR_SIZE, number) != NULL;
    const struct result made = is_read ? pair_from(number, &pkey, err) : failure(err, ERROR_NO_MEMORY, "no memory for a key");
    BN_clear_free(number);
    TRY(made);
    return ecdsa_key_adopt(pkey, true, key_out, err);
}

bool ecdsa_key_is_private(const struct ecdsa_key *key)
{
    return key->is_private;
}

struct result ecdsa_key_scalar(const struct ecdsa_key *key, struct secret **scalar_out, struct error *err)
{
    OWNED(secret) *scalar = NULL;
    BIGNUM *number = NULL;

    assert(key->is_private && key->remote.sign == NULL);
    TRY(secret_new(ECDSA_SCALAR_SIZE, &scalar, err));
    const bool ok = EVP_PKEY_get_bn_param(key->pkey, OSSL_PKEY_PARAM_PRIV_KEY, &number) == 1 &&
                    BN_bn2binpad(number, scalar->bytes, ECDSA_SCALAR_SIZE) == ECDSA_SCALAR_SIZE;
    BN_clear_free(number);
    if (!ok) return failure(err, ERROR_NO_MEMORY, "a private key could not be read out");
    *scalar_out = GIVE(scalar);
    return SUCCESS;
}

void ecdsa_key_public(const struct ecdsa_key *key, uint8_t point_out[ECDSA_PUBLIC_SIZE])
{
    memcpy(point_out, key->point, ECDSA_PUBLIC_SIZE);
}

void ecdsa_key_free(struct ecdsa_key *key)
{
    if (key != NULL) EVP_PKEY_free(key->pkey);
    if (key != NULL && key->remote.sign != NULL) key->remote.free(key->remote.context);
    free(key);
}
