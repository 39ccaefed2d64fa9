/* Client certificates of runners, as a gateway gets them in a handshake: the authority's point, then the DER. One that is accepted is made again
 * with the same facts. */
#include <assert.h>
#include <string.h>

#include "crypto/runner_certificate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buffer OWNED_BUFFER der = BUFFER(RUNNER_CERTIFICATE_MAX);
    OWNED(ecdsa_key) *authority = NULL;
    uint8_t point[ECDSA_PUBLIC_SIZE];
    struct runner_certificate read, again;
    struct error err = {0};

    if (size < sizeof point) return 0;
    if (!runner_certificate_read((struct bytes){data + sizeof point, size - sizeof point}, data, &read, &err).ok) {
        assert(err.message[0] != '\0' && (err.kind == ERROR_INVALID || err.kind == ERROR_DENIED));
        return 0;
    }
    assert(ecdsa_key_new(&authority, &err).ok && runner_certificate_issue(&read, authority, &der, &err).ok);
    ecdsa_key_public(authority, point);
    assert(runner_certificate_read(buffer_bytes(&der), point, &again, &err).ok);
    assert(uuid_equal(&read.runner, &again.runner) && read.not_after_ms == again.not_after_ms);
    return 0;
}
