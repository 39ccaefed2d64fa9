#include "keyd/ledger_format.h"

#include <assert.h>
#include <string.h>

#include "base/text.h"

/* Bytes of a copy, with the header and without the HMAC. */
enum {
    BODY_SIZE_1 = 198,
    BODY_SIZE_2 = 202,
    BODY_SIZE_8 = LEDGER_BODY_SIZE - LEDGER_TERMS_SIZE,
    BODY_SIZE_7 = BODY_SIZE_8 - LEDGER_NUMBER_SIZE,
    BODY_SIZE_6 = BODY_SIZE_7 - LEDGER_WITNESSES_SIZE,
    BODY_SIZE_5 = BODY_SIZE_6 - LEDGER_ASKED_SIZE,
    BODY_SIZE_4 = BODY_SIZE_5 - LEDGER_DOCUMENTS_SIZE,
    BODY_SIZE_3 = BODY_SIZE_4 - KEYD_FINDING_MAX
};

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
    for (size_t i = 0; i < DOCUMENT_KINDS_MAX; i++) at = put_u64(at, state->asked[i]);
    return at;
}

static uint8_t *put_terms(uint8_t *at, const struct root_terms *terms)
{
    at[0] = terms->policies;
    at[1] = terms->root;
    at[2] = terms->officers;
    return put(at + 3, terms->holder, sizeof terms->holder);
}

static void write_body(const void *context, uint8_t *body_out)
{
    const struct ledger_state *state = context;
    uint8_t *at = put_u64(body_out, state->log_size);

    at = put(at, state->log_root, sizeof state->log_root);
    at = put_pin(at, &state->pins[0]);
    at = put(at, state->approver, sizeof state->approver);
    at = put_u64(at, state->unwrap_count);
    at = put(at, state->unwrap_chain, sizeof state->unwrap_chain);
    store_u32(at, state->unused_below);
    at = put_mints(at + 4, state);
    at = put(at, state->finding, KEYD_FINDING_MAX);
    at = put_documents(at, state);
    at = put(put_u64(at, state->witness_epoch), state->witness_digest, sizeof state->witness_digest);
    store_u32(at, state->log_number);
    at[4] = state->log_first_key;
    at = put_terms(at + 5, &state->terms);
    assert(at == body_out + LEDGER_BODY_SIZE - JOURNAL_HEADER_SIZE);
}

static void get(struct reader *reader, void *into, size_t length)
{
    memcpy(into, reader_take(reader, length).data, length);
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

static void get_terms(struct reader *reader, struct root_terms *terms)
{
    terms->policies = reader_u8(reader);
    terms->root = reader_u8(reader);
    terms->officers = reader_u8(reader);
    get(reader, terms->holder, sizeof terms->holder);
}

static size_t body_size(uint8_t version)
{
    static const size_t sizes[] = {0,           BODY_SIZE_1, BODY_SIZE_2, BODY_SIZE_3, BODY_SIZE_4,
                                   BODY_SIZE_5, BODY_SIZE_6, BODY_SIZE_7, BODY_SIZE_8, LEDGER_BODY_SIZE};

    return version == 0 || version >= sizeof sizes / sizeof sizes[0] ? 0 : sizes[version] - JOURNAL_HEADER_SIZE;
}

static void read_body(uint8_t version, struct bytes body, void *state_out)
{
    struct reader reader = reader_of(body);
    struct ledger_state state = {0};

    state.log_size = reader_u64(&reader);
    get(&reader, state.log_root, sizeof state.log_root);
    get_pin(&reader, &state.pins[0]);
    get(&reader, state.approver, sizeof state.approver);
    state.unwrap_count = reader_u64(&reader);
    get(&reader, state.unwrap_chain, sizeof state.unwrap_chain);
    if (version >= 2) state.unused_below = reader_u32(&reader);
    if (version >= 3) get_mints(&reader, &state);
    if (version >= 4) get(&reader, state.finding, KEYD_FINDING_MAX);
    if (version >= 5) get_documents(&reader, &state);
    for (size_t i = 0; version >= 6 && i < DOCUMENT_KINDS_MAX; i++) state.asked[i] = reader_u64(&reader);
    if (version >= 7) state.witness_epoch = reader_u64(&reader);
    if (version >= 7) get(&reader, state.witness_digest, sizeof state.witness_digest);
    state.log_number = version >= 8 ? reader_u32(&reader) : 1;
    if (version >= 8) state.log_first_key = reader_u8(&reader);
    if (version >= 9) get_terms(&reader, &state.terms);
    assert(reader_is_done(&reader));
    memcpy(state_out, &state, sizeof state);
}

const struct journal_format ledger_format = {.name = LEDGER_FILE,
                                             .magic = "SJKL",
                                             .version = 9,
                                             .copy_size = LEDGER_COPY_SIZE,
                                             .body_size = body_size,
                                             .write = write_body,
                                             .read = read_body};
