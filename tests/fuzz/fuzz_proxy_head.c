/* The head of a load balancer: it takes only bytes that belong to it, and no more than its limit; pieces do not matter. */
#include <assert.h>
#include <string.h>

#include "gateway/http/proxy_head.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t feed(struct proxy_head *head, const uint8_t *data, size_t size, size_t piece)
{
    size_t taken = 0;

    for (size_t wanted; taken < size && (wanted = proxy_head_wants(head)) > 0;) {
        size_t part = wanted < piece ? wanted : piece;
        if (part > size - taken) part = size - taken;
        proxy_head_take(head, data + taken, part);
        taken += part;
    }
    return taken;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct proxy_head whole = {0}, bytes = {0};
    struct sockaddr_storage client = {0}, other = {0};
    const char *why = NULL, *same = NULL;

    const size_t taken = feed(&whole, data, size, 4096);
    (void)feed(&bytes, data, size, 1);
    const enum proxy_head_end end = proxy_head_end(&whole, &client, &why);
    assert(taken <= PROXY_HEAD_MAX);
    assert(proxy_head_end(&bytes, &other, &same) == end && (why == NULL) == (same == NULL));
    assert(end != PROXY_HEAD_CLIENT || memcmp(&client, &other, sizeof client) == 0);
    assert((end == PROXY_HEAD_WRONG) == (why != NULL));
    return 0;
}
