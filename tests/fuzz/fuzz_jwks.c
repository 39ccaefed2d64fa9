/* Key sets of issuers, through our own parser into liboauth2. */
#include <assert.h>
#include <string.h>

#include "authz/issuer.h"
#include "authz/jwk.h"
#include "base/memory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct issuer_record record = {
        .url = "https://i", .audience = "us", .algorithms = (1U << JOSE_ALGORITHM_COUNT) - 1, .types = 1, .lifetime_max_s = 60};
    OWNED_STRING text = memory_copy_text((const char *)data, size);
    OWNED(issuer) *issuer = NULL;
    struct error err = {0};

    if (text == NULL) return 0;
    record.jwks = text;
    if (issuer_new(&record, &issuer, &err).ok) assert(strlen(issuer_digest(issuer)) == ISSUER_DIGEST_SIZE - 1);
    else assert(err.message[0] != '\0');
    return 0;
}
