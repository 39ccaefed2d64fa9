#include "keyd/ledger_format.h"

#include <assert.h>
#include <string.h>

#include "base/text.h"
#include "crypto/hmac.h"

static const uint8_t magic[5] = {'S', 'J', 'K', 'L', 5};
static const uint8_t magic_4[5] = {'S', 'J', 'K', 'L', 4};
static const uint8_t magic_3[5] = {'S', 'J', 'K', 'L', 3};
static const uint8_t magic_2[5] = {'S', 'J', 'K', 'L', 2};
static const uint8_t magic_1[5] = {'S', 'J', 'K', 'L', 1};

enum { BODY_SIZE_1 = 198, BODY_SIZE_2 = 202, BODY_SIZE_4 = LEDGER_BODY_SIZE - LEDGER_DOCUMENTS_SIZE, BODY_SIZE_3 = BODY_SIZE_4 - KEYD_FINDING_MAX };

_Static_assert(LEDGER_USED_SIZE <= LEDGER_COPY_SIZE, "a copy has room");

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

static uint8_t *put_mints(uint8_t *at, const struct ledger_state *state)
{
    for (size_t i = 0; i < MINT_SCOPES; i++) at = put_u64(at, state->mints[i]);
    at = put_u64(at, state->mints_lost);
    at = put_u64(at, state->mints_reserved);
    for (size_t i = 0; i < MINTERS_MAX; i++) {
        at = put(at, state->minters[i].credential, MINTER_ID_SIZE);
        at = put_u64(at, state->minters[i].count);
    }
    return at;
}

static uint8_t *put_pin(uint8_t *at, const struct document_pin *pin)
{
    return put(put_u64(at, pin->epoch), pin->digest, sizeof pin->digest);
}

static uint8_t *put_documents(uint8_t *at, const struct ledger_state *state)
{
    for (size_t i = 1; i < DOCUMENT_KINDS_MAX; i++) at = put_pin(at, &state->pins[i]);
    for (size_t i = 0; i < DOCUMENT_APPROVERS_MAX; i++) {
        const struct document_approver *approver = &state->approvers[i];
        at = put(at, approver->point, sizeof approver->point);
        at = put(at, approver->principal, sizeof approver->principal);
        at = put_u64(at, (uint64_t)approver->expires_ms);
        *at++ = approver->is_revoked ? 1 : 0;
    }
    return at;
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
    at = put_pin(at, &state->pins[0]);
    at = put(at, state->approver, sizeof state->approver);
    at = put_u64(at, state->unwrap_count);
    at = put(at, state->unwrap_chain, sizeof state->unwrap_chain);
    store_u32(at, state->unused_below);
    at = put_mints(at + 4, state);
    at = put(at, state->finding, KEYD_FINDING_MAX);
    at = put_documents(at, state);
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

static void get_mints(struct reader *reader, struct ledger_state *state)
{
    for (size_t i = 0; i < MINT_SCOPES; i++) state->mints[i] = reader_u64(reader);
    state->mints_lost = reader_u64(reader);
    state->mints_reserved = reader_u64(reader);
    for (size_t i = 0; i < MINTERS_MAX; i++) {
        get(reader, state->minters[i].credential, MINTER_ID_SIZE);
        state->minters[i].count = reader_u64(reader);
    }
}

static void get_pin(struct reader *reader, struct document_pin *pin)
{
    pin->epoch = reader_u64(reader);
    get(reader, pin->digest, sizeof pin->digest);
}

static void get_documents(struct reader *reader, struct ledger_state *state)
{
    for (size_t i = 1; i < DOCUMENT_KINDS_MAX; i++) get_pin(reader, &state->pins[i]);
    for (size_t i = 0; i < DOCUMENT_APPROVERS_MAX; i++) {
        struct document_approver *approver = &state->approvers[i];
        get(reader, approver->point, sizeof approver->point);
        get(reader, approver->principal, sizeof approver->principal);
        approver->expires_ms = (int64_t)reader_u64(reader);
        approver->is_revoked = reader_u8(reader) != 0;
    }
}

/* 0 for what is no copy. */
static size_t size_of_body(const uint8_t copy[LEDGER_COPY_SIZE])
{
    if (memcmp(copy, magic, sizeof magic) == 0) return LEDGER_BODY_SIZE;
    if (memcmp(copy, magic_4, sizeof magic_4) == 0) return BODY_SIZE_4;
    if (memcmp(copy, magic_3, sizeof magic_3) == 0) return BODY_SIZE_3;
    if (memcmp(copy, magic_2, sizeof magic_2) == 0) return BODY_SIZE_2;
    return memcmp(copy, magic_1, sizeof magic_1) == 0 ? BODY_SIZE_1 : 0;
}

bool ledger_copy_read(const uint8_t copy[LEDGER_COPY_SIZE], const uint8_t key[LEDGER_KEY_SIZE],
                      struct ledger_state *state_out, uint64_t *sequence_out)
{
    const size_t size = size_of_body(copy);
    struct reader reader = reader_of((struct bytes){copy, size});
    struct ledger_state state = {0};

    if (size == 0 || !is_genuine(copy, size, key)) return false;
    (void)reader_take(&reader, sizeof magic);
    *sequence_out = reader_u64(&reader);
    state.log_size = reader_u64(&reader);
    get(&reader, state.log_root, sizeof state.log_root);
    get_pin(&reader, &state.pins[0]);
    get(&reader, state.approver, sizeof state.approver);
    state.unwrap_count = reader_u64(&reader);
    get(&reader, state.unwrap_chain, sizeof state.unwrap_chain);
    if (size != BODY_SIZE_1) state.unused_below = reader_u32(&reader);
    if (size >= BODY_SIZE_3) get_mints(&reader, &state);
    if (size >= BODY_SIZE_4) get(&reader, state.finding, KEYD_FINDING_MAX);
    if (size == LEDGER_BODY_SIZE) get_documents(&reader, &state);
    assert(reader_is_done(&reader));
    *state_out = state;
    return true;
}
