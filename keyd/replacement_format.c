#include "keyd/replacement_format.h"

#include <string.h>

#include "base/memory.h"

enum {
    PIN_SIZE = 8 + DOCUMENT_DIGEST_SIZE,
    NAMED_SIZE = DOCUMENT_DIGEST_SIZE + 4,
    WAITING_SIZE = 3 * DOCUMENT_DIGEST_SIZE + 8,
    ADMIN_SIZE = 3 * DOCUMENT_DIGEST_SIZE + 8,
    BODY_SIZE = 1 + 2 * PIN_SIZE + 4 + 1 + REPLACEMENT_NAMED_MAX * NAMED_SIZE + KEY_WAITING_MAX * WAITING_SIZE + 4 +
                REPLACEMENT_ADMINS_MAX * ADMIN_SIZE,
    COPY_SIZE = 17 * 4096
};
_Static_assert(JOURNAL_HEADER_SIZE + BODY_SIZE + JOURNAL_SEAL_SIZE <= COPY_SIZE, "a copy has room");

static size_t body_size(uint8_t version)
{
    return version == 1 ? BODY_SIZE : 0;
}

static uint8_t *put(uint8_t *at, const void *bytes, size_t size)
{
    memcpy(at, bytes, size);
    return at + size;
}

static uint8_t *put_pin(uint8_t *at, const struct document_pin *pin)
{
    store_u64(at, pin->epoch);
    return put(at + 8, pin->digest, sizeof pin->digest);
}

static void write_body(const void *context, uint8_t *body_out)
{
    const struct replacement_state *state = context;
    uint8_t *at = body_out;

    *at++ = state->names_all;
    at = put_pin(put_pin(at, &state->before), &state->now);
    store_u32(at, state->named_count);
    at[4] = state->waiting_count;
    at += 5;
    for (size_t i = 0; i < REPLACEMENT_NAMED_MAX; i++) {
        at = put(at, state->named[i].principal, DOCUMENT_DIGEST_SIZE);
        store_u32(at, state->named[i].end_hours);
        at += 4;
    }
    for (size_t i = 0; i < KEY_WAITING_MAX; i++) {
        const struct key_waiting *waiting = &state->waiting[i];
        at = put(at, waiting->key, sizeof waiting->key);
        at = put(at, waiting->principal, sizeof waiting->principal);
        at = put(at, waiting->document, sizeof waiting->document);
        store_u64(at, (uint64_t)waiting->since_ms);
        at += 8;
    }
    store_u32(at, state->admin_count);
    at += 4;
    for (size_t i = 0; i < REPLACEMENT_ADMINS_MAX; i++) {
        const struct replacement_admin *admin = &state->admins[i];
        at = put(put(put(at, admin->name, sizeof admin->name), admin->key, sizeof admin->key), admin->principal,
                 sizeof admin->principal);
        store_u64(at, (uint64_t)admin->end_ms);
        at += 8;
    }
}

static void get(struct reader *reader, uint8_t *out, size_t size)
{
    const struct bytes taken = reader_take(reader, size);

    if (taken.length == size) memcpy(out, taken.data, size);
}

static void get_pin(struct reader *reader, struct document_pin *pin)
{
    pin->epoch = reader_u64(reader);
    get(reader, pin->digest, sizeof pin->digest);
}

/* An HMAC is over it, so only keyd has written it. */
static void read_body(uint8_t version, struct bytes body, void *state_out)
{
    struct reader reader = reader_of(body);
    struct replacement_state *state = state_out;

    (void)version;
    memset(state, 0, sizeof *state);
    state->names_all = reader_u8(&reader) != 0;
    get_pin(&reader, &state->before);
    get_pin(&reader, &state->now);
    state->named_count = reader_u32(&reader);
    state->waiting_count = reader_u8(&reader);
    for (size_t i = 0; i < REPLACEMENT_NAMED_MAX; i++) {
        get(&reader, state->named[i].principal, DOCUMENT_DIGEST_SIZE);
        state->named[i].end_hours = reader_u32(&reader);
    }
    for (size_t i = 0; i < KEY_WAITING_MAX; i++) {
        struct key_waiting *waiting = &state->waiting[i];
        get(&reader, waiting->key, sizeof waiting->key);
        get(&reader, waiting->principal, sizeof waiting->principal);
        get(&reader, waiting->document, sizeof waiting->document);
        waiting->since_ms = (int64_t)reader_u64(&reader);
    }
    state->admin_count = reader_u32(&reader);
    for (size_t i = 0; i < REPLACEMENT_ADMINS_MAX; i++) {
        struct replacement_admin *admin = &state->admins[i];
        get(&reader, admin->name, sizeof admin->name);
        get(&reader, admin->key, sizeof admin->key);
        get(&reader, admin->principal, sizeof admin->principal);
        admin->end_ms = (int64_t)reader_u64(&reader);
    }
    if (state->admin_count > REPLACEMENT_ADMINS_MAX) state->admin_count = REPLACEMENT_ADMINS_MAX;
    if (state->named_count > REPLACEMENT_NAMED_MAX) state->named_count = REPLACEMENT_NAMED_MAX;
    if (state->waiting_count > KEY_WAITING_MAX) state->waiting_count = KEY_WAITING_MAX;
}

const struct journal_format replacement_format = {.name = REPLACEMENT_FILE,
                                                  .magic = "SJRP",
                                                  .version = 1,
                                                  .copy_size = COPY_SIZE,
                                                  .body_size = body_size,
                                                  .write = write_body,
                                                  .read = read_body};
