/* Certificates and keys in PEM, of our own listener and of clients: OpenSSL behind our checks. A '~' divides the two. */
#include <assert.h>
#include <string.h>

#include "crypto/certificate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    OWNED(ecdsa_key) *key = NULL;
    struct certificate_facts facts;
    struct error err = {0};
    bool has_uri = false;
    const uint8_t *middle = size == 0 ? NULL : memchr(data, '~', size);
    const size_t first = middle == NULL ? size : (size_t)(middle - data);
    const struct bytes certificate = {data, first};
    const struct bytes pem = middle == NULL ? certificate : (struct bytes){middle + 1, size - first - 1};

    const bool inspected = certificate_inspect(certificate, &facts, &err).ok;
    if (!inspected) assert(err.kind == ERROR_INVALID || err.kind == ERROR_LIMIT);
    const bool is_read = certificate_has_uri(certificate, "sijil:region:aws/x", &has_uri, &err).ok;
    if (inspected) assert(is_read); /* else its period may be none */
    if (certificate_check_pair(certificate, pem, &facts, &err).ok) assert(inspected);
    if (!ecdsa_key_from_pem(pem, &key, &err).ok) {
        assert(key == NULL && err.message[0] != '\0');
        return 0;
    }
    struct buffer OWNED_BUFFER again = BUFFER(ECDSA_PEM_MAX);
    assert(ecdsa_key_public_pem(key, &again, &err).ok);
    return 0;
}
