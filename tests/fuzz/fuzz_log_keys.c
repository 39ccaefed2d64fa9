/* Accepted keys of a log have one order, and the key that was given first is among them. */
#include <assert.h>
#include <string.h>

#include "audit/format/log_keys.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buffer OWNED_BUFFER again = BUFFER(4096);
    struct log_rotation_order order;
    struct log_keys keys;
    struct error err;

    if (log_rotation_order_read((struct bytes){data, size}, &order, &err).ok) {
        assert(log_rotation_order_write(&order, &again, &err).ok);
        assert(strcmp(order.old.name, order.new.name) == 0);
    }
    if (!log_keys_read((struct bytes){data, size}, &keys, &err).ok) return 0;
    assert(keys.count >= 1 && keys.count <= LOG_KEYS_MAX);
    for (size_t i = 1; i < keys.count; i++) {
        assert(keys.starts[i].size > keys.starts[i - 1].size && strcmp(keys.keys[i].name, keys.keys[0].name) == 0);
        assert(log_keys_at(&keys, keys.starts[i].size) == &keys.keys[i - 1]);
    }
    assert(log_keys_at(&keys, UINT64_MAX) == log_keys_newest(&keys));
    return 0;
}
