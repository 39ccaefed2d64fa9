/* Lines of a webhook's answer: whatever they say, the wait is bounded. */
#include <assert.h>

#include "delivery/peer_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    assert(retry_after_of((struct bytes){data, size}) <= PEER_WAIT_MAX_S);
    return 0;
}
