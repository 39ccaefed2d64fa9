/* Signed documents of strangers: read within bounds, and never trusted. */
#include <assert.h>

#include "crypto/dsse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct ecdsa_key *key; /* a fresh one: no seed can be signed by it */
    OWNED(dsse) *dsse = NULL;
    struct error err = {0};

    if (key == NULL) assert(ecdsa_key_new(&key, &err).ok);
    if (!dsse_read((struct bytes){data, size}, 65536, &dsse, &err).ok) return 0;
    assert(dsse->signature_count > 0 && dsse->signature_count <= DSSE_SIGNATURE_COUNT);
    assert(!dsse_check_signer(dsse, key, &err).ok && err.kind == ERROR_DENIED);
    return 0;
}
