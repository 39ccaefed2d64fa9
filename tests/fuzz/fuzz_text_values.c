/*
 * Numbers, ids, times and encoded bytes in text: each has one spelling, so an accepted value is written again letter by letter.
 */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/network.h"
#include "base/text.h"
#include "base/uuid.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_number(struct bytes text)
{
    struct buffer OWNED_BUFFER again = BUFFER(64);
    struct error err;
    uint64_t number = 0;

    if (!text_to_u64(text, INT64_MAX, &number)) return;
    assert(number <= INT64_MAX && buffer_format(&again, &err, "%llu", (unsigned long long)number).ok);
    assert(bytes_equal(buffer_bytes(&again), text));
}

static void check_base64(struct bytes text, enum base64_kind kind)
{
    struct buffer OWNED_BUFFER raw = BUFFER((size_t)1 << 20), again = BUFFER((size_t)1 << 20);
    struct error err;

    if (!text_from_base64(&raw, kind, text, &err).ok) return;
    assert(text_base64(&again, kind, buffer_bytes(&raw), &err).ok);
    assert(bytes_equal(buffer_bytes(&again), text));
}

static void check_hex(struct bytes text)
{
    uint8_t raw[64]; /* as long as a SHA-512, the longest that is read */
    char again[2 * sizeof raw + 1];
    const size_t length = text.length / 2;

    if (length > sizeof raw || !text_from_hex(text, raw, length)) return;
    text_hex(raw, length, again);
    assert(bytes_equal(bytes_of_text(again), text));
}

/* It has no bits behind its prefix, holds itself, and is the same when it is written and read again. */
static void check_network(struct bytes text)
{
    char again[NETWORK_TEXT_SIZE];
    struct network network, same, widened;

    if (network_read(text, &network) != NETWORK_GOOD) return;
    network_write(&network, again);
    assert(network_read(bytes_of_text(again), &same) == NETWORK_GOOD);
    assert(same.bits == network.bits && memcmp(same.address, network.address, sizeof same.address) == 0);
    widened = network;
    network_widen(&widened, 24, 64);
    assert(network_holds(&network, &network) && network_holds(&widened, &network));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct bytes text = {data, size};
    char again[UUID_TEXT_SIZE > CLOCK_TEXT_SIZE ? UUID_TEXT_SIZE : CLOCK_TEXT_SIZE];
    struct uuid uuid;
    int64_t wall_ms = 0, same_ms = 0;

    check_number(text);
    check_base64(text, BASE64_STANDARD);
    check_base64(text, BASE64_URL);
    check_hex(text);
    check_network(text);
    if (uuid_parse(text, &uuid)) {
        uuid_format(&uuid, again);
        assert(bytes_equal(bytes_of_text(again), text));
    }
    if (clock_parse(text, &wall_ms)) {
        clock_format(wall_ms, again); /* a day in another zone has another spelling, but is the same moment */
        assert(clock_parse(bytes_of_text(again), &same_ms) && same_ms == wall_ms);
    }
    return 0;
}
