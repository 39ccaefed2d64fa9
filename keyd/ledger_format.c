#include "keyd/ledger_format.h"

#include <assert.h>
#include <string.h>

#include "base/text.h"
#include "crypto/hmac.h"

static const uint8_t magic[5] = {'S', 'J', 'K', 'L', 2};
static const uint8_t magic_1[5] = {'S', 'J', 'K', 'L', 1};

enum { BODY_SIZE_1 = LEDGER_BODY_SIZE - 4 };

static uint8_t *put(uint8_t *at, const void *from, size_t length)
{
    memcpy(at, from, length);
    return at + length;
}

static uint8_t *put_u64(uint8_t *at, uint64_t value)
{
    store_u64(at, value);
    return at + 8;
}

void ledger_copy_write(const struct ledger_state *state, uint64_t sequence, const uint8_t key[LEDGER_KEY_SIZE],
                       uint8_t copy_out[LEDGER_COPY_SIZE])
{
    uint8_t *at = copy_out;

    memset(copy_out, 0, LEDGER_COPY_SIZE);
    at = put(at, magic, sizeof magic);
    at = put_u64(at, sequence);
    at = put_u64(at, state->log_size);
    at = put(at, state->log_root, sizeof state->log_root);
    at = put_u64(at, state->policy_epoch);
    at = put(at, state->policy_digest, sizeof state->policy_digest);
    at = put(at, state->approver, sizeof state->approver);
    at = put_u64(at, state->unwrap_count);
    at = put(at, state->unwrap_chain, sizeof state->unwrap_chain);
    store_u32(at, state->unused_below);
    at += 4;
    assert(at == copy_out + LEDGER_BODY_SIZE);
    hmac_sha256((struct bytes){key, LEDGER_KEY_SIZE}, (struct bytes){copy_out, LEDGER_BODY_SIZE}, at);
}

static void get(struct reader *reader, void *into, size_t length)
{
    memcpy(into, reader_take(reader, length).data, length);
}

static bool is_genuine(const uint8_t copy[LEDGER_COPY_SIZE], size_t size, const uint8_t key[LEDGER_KEY_SIZE])
{
    uint8_t mac[HMAC_SIZE];

    hmac_sha256((struct bytes){key, LEDGER_KEY_SIZE}, (struct bytes){copy, size}, mac);
    return bytes_equal_secret((struct bytes){mac, sizeof mac}, (struct bytes){copy + size, sizeof mac});
}

bool ledger_copy_read(const uint8_t copy[LEDGER_COPY_SIZE], const uint8_t key[LEDGER_KEY_SIZE],
                      struct ledger_state *state_out, uint64_t *sequence_out)
{
    const bool is_format_1 = memcmp(copy, magic_1, sizeof magic_1) == 0;
    const size_t size = is_format_1 ? BODY_SIZE_1 : LEDGER_BODY_SIZE;
    struct reader reader = reader_of((struct bytes){copy, size});

    if (!is_genuine(copy, size, key)) return false;
    if (!is_format_1 && memcmp(copy, magic, sizeof magic) != 0) return false;
    (void)reader_take(&reader, sizeof magic);
    *sequence_out = reader_u64(&reader);
    state_out->log_size = reader_u64(&reader);
    get(&reader, state_out->log_root, sizeof state_out->log_root);
    state_out->policy_epoch = reader_u64(&reader);
    get(&reader, state_out->policy_digest, sizeof state_out->policy_digest);
    get(&reader, state_out->approver, sizeof state_out->approver);
    state_out->unwrap_count = reader_u64(&reader);
    get(&reader, state_out->unwrap_chain, sizeof state_out->unwrap_chain);
    state_out->unused_below = is_format_1 ? 0 : reader_u32(&reader);
    assert(reader_is_done(&reader));
    return true;
}
