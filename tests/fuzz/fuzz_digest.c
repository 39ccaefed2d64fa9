/* Digests in text, and stored states of a hasher: one spelling each. */
#include <assert.h>
#include <string.h>

#include "crypto/digest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    OWNED(hasher) *hasher = NULL;
    struct digest digest;
    struct error err = {0};
    char text[DIGEST_TEXT_SIZE];
    uint8_t state[HASHER_STATE_MAX]; /* of whichever algorithm */

    if (digest_parse((struct bytes){data, size}, &digest, &err).ok) {
        digest_format(&digest, text);
        assert(strlen(text) == size && memcmp(text, data, size) == 0);
    }
    if (hasher_import((struct bytes){data, size}, &hasher, &err).ok) {
        assert(hasher_export(hasher, state) == size && memcmp(state, data, size) == 0);
        hasher_add(hasher, (struct bytes){data, size});
        (void)hasher_digest(hasher);
    }
    return 0;
}
