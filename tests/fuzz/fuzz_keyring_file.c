/* The key ring's header, as found on disk, and its body, as it would be after a passphrase that opens it. */
#include <assert.h>
#include <string.h>

#include "keyd/keyring_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct keyring_body body;
    struct keyring_header header;
    uint8_t again[KEYRING_HEADER_SIZE];
    struct error err = {0};

    if (keyring_header_read((struct bytes){data, size}, &header, &err).ok) {
        keyring_header_write(&header, again);
        assert(header.format == 1 || memcmp(again, data, sizeof again) == 0);
    }
    memset(&body, 0, sizeof body);
    (void)keyring_body_read((struct bytes){data, size}, 1, &body, &err).ok; /* is read, never written */
    for (uint8_t format = KEYRING_FORMAT; format <= KEYRING_FORMAT_FURTHER; format++) {
        memset(&body, 0, sizeof body);
        if (!keyring_body_read((struct bytes){data, size}, format, &body, &err).ok) continue;
        struct buffer OWNED_BUFFER written = BUFFER(KEYRING_BODY_MAX);
        assert(keyring_body_format(&body) == format && keyring_body_write(&body, &written, &err).ok);
        assert(written.length == size && memcmp(written.data, data, size) == 0);
    }
    return 0;
}
