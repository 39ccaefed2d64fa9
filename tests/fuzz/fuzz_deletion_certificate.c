/* A certificate of deletion, and the bundle around one, from anybody. */
#include <assert.h>
#include <string.h>

#include "audit/format/deletion.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct ecdsa_key *signer;
    const struct bytes input = {data, size};
    struct deletion deletion;
    struct deletion_report report;
    struct error err = {0};

    if (signer == NULL && !ecdsa_key_new(&signer, &err).ok) return 0;
    if (deletion_read(input, &deletion, &err).ok) {
        struct buffer OWNED_BUFFER again = BUFFER(DELETION_PAYLOAD_MAX);
        assert(deletion_write(&deletion, &again, &err).ok);
        assert(again.length == size && memcmp(again.data, data, size) == 0);
    }
    assert(!deletion_check(&(struct proof_trust){.vkey = bytes_of_text("no key")}, signer, input, &report, &err)
                .ok); /* signed by nobody */
    return 0;
}
