#include "crypto/hkdf.h"

#include <assert.h>
#include <openssl/core_names.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <pthread.h>

#include "base/fault.h"
#include "crypto/secret.h"

/* Fetched once, because a fetch costs more than the derivation. If memory was lacking, the next call tries again. */
static EVP_KDF *algorithm(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static EVP_KDF *known;

    (void)pthread_mutex_lock(&lock);
    if (known == NULL) known = EVP_KDF_fetch(NULL, OSSL_KDF_NAME_HKDF, NULL);
    EVP_KDF *found = known;
    (void)pthread_mutex_unlock(&lock);
    return found;
}

/* OpenSSL 3.0 refuses a parameter whose data is NULL, even if its length is 0. */
static OSSL_PARAM parameter(const char *name, struct bytes value)
{
    static const uint8_t nothing[1];

    return OSSL_PARAM_construct_octet_string(name, (void *)(uintptr_t)(value.length == 0 ? nothing : value.data), value.length);
}

struct result hkdf_sha256(struct bytes key, struct bytes salt, struct bytes info, uint8_t *out, size_t length, struct error *err)
{
    char digest[] = "SHA256";

    assert(key.length > 0 && length > 0 && length <= HKDF_LENGTH_MAX);
    EVP_KDF *kdf = algorithm();
    EVP_KDF_CTX *context = kdf == NULL || fault_is_due(FAULT_MEMORY) ? NULL : EVP_KDF_CTX_new(kdf);
    if (context == NULL) return failure(err, ERROR_NO_MEMORY, "no memory to derive a key");

    const OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
        parameter(OSSL_KDF_PARAM_KEY, key),
        parameter(OSSL_KDF_PARAM_SALT, salt),
        parameter(OSSL_KDF_PARAM_INFO, info),
        OSSL_PARAM_construct_end(),
    };
    const int done = EVP_KDF_derive(context, out, length, parameters);
    EVP_KDF_CTX_free(context);
    if (done == 1) return SUCCESS;
    secret_wipe(out, length);
    return failure(err, ERROR_NO_MEMORY, "a key could not be derived");
}
