/* A certificate of erasure, and the bundle around one, from anybody. */
#include <assert.h>
#include <string.h>

#include "audit/format/erased.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct ecdsa_key *signer;
    const struct bytes input = {data, size};
    struct erased_report report;
    struct erased erased;
    struct error err = {0};

    if (signer == NULL && !ecdsa_key_new(&signer, &err).ok) return 0;
    if (erased_read(input, &erased, &err).ok) {
        struct buffer OWNED_BUFFER again = BUFFER(ERASED_PAYLOAD_MAX);
        assert(erased_write(&erased, &again, &err).ok);
        assert(again.length == size && memcmp(again.data, data, size) == 0);
    }
    (void)erased_is_bundle(input);
    const struct proof_trust trust = {.vkey = bytes_of_text("no key")};
    assert(!erased_check(&trust, signer, input, &report, &err).ok); /* signed by nobody */
    return 0;
}
