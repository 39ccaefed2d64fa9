/* A body for a witness that is read is written again to the byte, within its limits. */
#include <assert.h>

#include "audit/format/add_checkpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buffer OWNED_BUFFER again = BUFFER(2 * ADD_CHECKPOINT_MAX);
    struct add_checkpoint request;
    struct error err;
    const struct bytes body = {data, size};

    if (!add_checkpoint_read(body, &request, &err).ok) return 0;
    assert(request.proof.count <= MERKLE_PROOF_MAX && request.old_size <= MERKLE_SIZE_MAX);
    assert(add_checkpoint_write(&request, &again, &err).ok);
    assert(bytes_equal(buffer_bytes(&again), body));
    return 0;
}
