/* registry.json of a runner: what is accepted is written as the same bytes each time, and read as the same pins. */
#include <assert.h>
#include <string.h>

#include "documents/format/registry_pins.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buffer OWNED_BUFFER text = BUFFER(REGISTRY_PINS_MAX);
    struct registry_pins pins, again;
    struct error err = {0};

    memset(&pins, 0, sizeof pins);
    memset(&again, 0, sizeof again);
    if (!registry_pins_read((struct bytes){data, size}, &pins, &err).ok) return 0;
    assert(registry_host_is_valid(pins.host) && pins.audience[0] != '\0' && pins.log_key[0] != '\0');
    assert(registry_pins_write(&pins, &text, &err).ok && registry_pins_read(buffer_bytes(&text), &again, &err).ok);
    assert(strcmp(pins.host, again.host) == 0 && strcmp(pins.audience, again.audience) == 0 && pins.has_ca == again.has_ca);
    assert(memcmp(pins.signer, again.signer, sizeof pins.signer) == 0 && memcmp(pins.root, again.root, sizeof pins.root) == 0);
    return 0;
}
