#include "runner/order/lease_journal.h"

#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "crypto/random.h"
#include "journal/journal.h"

#define KEY_FILE   "leases.key"
#define COPY_SIZE  81920 /* twenty blocks: room for LEASES_MAX leases */
#define TIME_SIZE  6     /* of milliseconds since 1970 */
#define HEAD_SIZE  20    /* u64 latest time | u64 forgotten until | u32 number of leases */
#define ID_SIZE    (LEASE_NONCE_SIZE + LEASE_DIGEST_SIZE + sizeof(struct uuid) + 3)
#define LEASE_SIZE (ID_SIZE + 2 * TIME_SIZE)
/* Version 1 had no "forgotten until", and of a lease only the time of its end, in 8 bytes. */
#define HEAD_SIZE_1    12
#define LEASE_SIZE_1   (ID_SIZE + 8)
#define BEGINS_UNKNOWN INT64_C(0xffffffffffff) /* of a lease from version 1: it is kept until it has expired */

struct state {
    int64_t latest_ms;
    int64_t forgotten_ms; /* ended leases that began until then may be missing */
    uint32_t count;
    struct taken_lease leases[LEASES_MAX];
};

struct lease_journal {
    struct journal *journal;
    struct state state;
};

_Static_assert(JOURNAL_HEADER_SIZE + HEAD_SIZE + LEASES_MAX * LEASE_SIZE + JOURNAL_SEAL_SIZE <= COPY_SIZE, "a copy is too small");

static size_t body_size(uint8_t version)
{
    if (version == 1) return HEAD_SIZE_1 + (size_t)LEASES_MAX * LEASE_SIZE_1;
    return version == 2 ? HEAD_SIZE + (size_t)LEASES_MAX * LEASE_SIZE : 0;
}

static uint8_t *write_time(int64_t time_ms, uint8_t *to)
{
    store_u16(to, (uint16_t)((uint64_t)time_ms >> 32));
    store_u32(to + 2, (uint32_t)time_ms);
    return to + TIME_SIZE;
}

static int64_t read_time(const uint8_t *from)
{
    return (int64_t)((uint64_t)load_u16(from) << 32 | load_u32(from + 2));
}

static uint8_t *write_lease(const struct taken_lease *lease, uint8_t *to)
{
    memcpy(to, lease->nonce, LEASE_NONCE_SIZE);
    to += LEASE_NONCE_SIZE;
    memcpy(to, lease->digest, LEASE_DIGEST_SIZE);
    to += LEASE_DIGEST_SIZE;
    memcpy(to, lease->run.bytes, sizeof(struct uuid));
    to += sizeof(struct uuid);
    *to++ = lease->attempt;
    *to++ = lease->node;
    *to++ = lease->has_ended ? 1 : 0;
    to = write_time(lease->begins_ms, to);
    return write_time(lease->expires_ms, to);
}

static void write_body(const void *context, uint8_t *body_out)
{
    const struct state *state = context;
    uint8_t *to = body_out + HEAD_SIZE;

    memset(body_out, 0, body_size(2));
    store_u64(body_out, (uint64_t)state->latest_ms);
    store_u64(body_out + 8, (uint64_t)state->forgotten_ms);
    store_u32(body_out + 16, state->count);
    for (uint32_t i = 0; i < state->count; i++) to = write_lease(&state->leases[i], to);
}

static const uint8_t *read_lease(uint8_t version, const uint8_t *from, struct taken_lease *lease)
{
    memcpy(lease->nonce, from, LEASE_NONCE_SIZE);
    from += LEASE_NONCE_SIZE;
    memcpy(lease->digest, from, LEASE_DIGEST_SIZE);
    from += LEASE_DIGEST_SIZE;
    memcpy(lease->run.bytes, from, sizeof(struct uuid));
    from += sizeof(struct uuid);
    lease->attempt = *from++;
    lease->node = *from++;
    lease->has_ended = *from++ != 0;
    lease->begins_ms = version == 1 ? BEGINS_UNKNOWN : read_time(from);
    lease->expires_ms = version == 1 ? (int64_t)load_u64(from) : read_time(from + TIME_SIZE);
    return from + (version == 1 ? 8 : 2 * TIME_SIZE);
}

static void read_body(uint8_t version, struct bytes body, void *state_out)
{
    struct state *state = state_out;
    const uint8_t *from = body.data + (version == 1 ? HEAD_SIZE_1 : HEAD_SIZE);

    *state = (struct state){.latest_ms = (int64_t)load_u64(body.data), .count = load_u32(from - 4)};
    if (version > 1) state->forgotten_ms = (int64_t)load_u64(body.data + 8);
    if (state->count > LEASES_MAX) state->count = LEASES_MAX; /* the seal is right, so this program never wrote more */
    for (uint32_t i = 0; i < state->count; i++) from = read_lease(version, from, &state->leases[i]);
}

static const struct journal_format format = {.name = "leases.journal",
                                             .magic = "SJLJ",
                                             .version = 2,
                                             .copy_size = COPY_SIZE,
                                             .body_size = body_size,
                                             .write = write_body,
                                             .read = read_body};

/* The key is written last: a journal without it was never used. */
static struct result make_first(int folder, uint8_t key[JOURNAL_KEY_SIZE], struct state *state, struct error *err)
{
    *state = (struct state){.count = 0};
    random_bytes(key, JOURNAL_KEY_SIZE);
    TRY(journal_create(folder, &format, key, state, err));
    return file_replace_at(folder, KEY_FILE, (struct bytes){key, JOURNAL_KEY_SIZE}, 0600, err);
}

static struct result find_key(int folder, uint8_t key[JOURNAL_KEY_SIZE], struct state *state, struct error *err)
{
    OWNED_FD file = -1;
    struct error why;

    if (file_open_at(folder, KEY_FILE, O_RDONLY | O_NOFOLLOW, 0, &file, &why).ok)
        return file_read_at(file, key, JOURNAL_KEY_SIZE, 0, err);
    if (why.kind != ERROR_NOT_FOUND) return failure(err, why.kind, "%s", why.message);
    return make_first(folder, key, state, err);
}

static struct result open_with(int folder, uint8_t key[JOURNAL_KEY_SIZE], struct lease_journal *journal, struct error *err)
{
    struct error why;

    TRY(find_key(folder, key, &journal->state, err));
    if (journal_open(folder, &format, key, &journal->state, &journal->journal, &why).ok)
        return journal_write(journal->journal, &journal->state, err);
    if (why.kind != ERROR_NOT_FOUND) return failure(err, why.kind, "%s", why.message);
    return failure(err, ERROR_CORRUPT,
                   "leases.journal is missing, so this runner can't know its earlier leases: revoke its key and enrol it anew");
}

struct result lease_journal_open(int folder, struct lease_journal **journal_out, struct error *err)
{
    OWNED(lease_journal) *journal = memory_zeroed(1, sizeof *journal);
    uint8_t key[JOURNAL_KEY_SIZE];

    if (journal == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the journal of leases");
    const struct result opened = open_with(folder, key, journal, err);
    explicit_bzero(key, sizeof key);
    TRY(opened);
    *journal_out = GIVE(journal);
    return SUCCESS;
}

uint64_t lease_journal_generation(const struct lease_journal *journal)
{
    return journal_generation(journal->journal);
}

int64_t lease_journal_latest_ms(const struct lease_journal *journal)
{
    return journal->state.latest_ms;
}

/* Of the leases that have ended, the one that began first; NULL: none that may make room. */
static const struct taken_lease *first_ended(const struct state *state)
{
    const struct taken_lease *first = NULL;

    for (uint32_t i = 0; i < state->count; i++) {
        const struct taken_lease *lease = &state->leases[i];
        if (lease->has_ended && lease->begins_ms != BEGINS_UNKNOWN && (first == NULL || lease->begins_ms < first->begins_ms))
            first = lease;
    }
    return first;
}

static bool may_be_forgotten(const struct taken_lease *lease, int64_t latest_ms)
{
    return lease->has_ended && lease->expires_ms <= latest_ms;
}

bool lease_journal_has_room(const struct lease_journal *journal)
{
    const struct state *state = &journal->state;

    for (uint32_t i = 0; i < state->count; i++)
        if (may_be_forgotten(&state->leases[i], state->latest_ms)) return true;
    return state->count < LEASES_MAX || first_ended(state) != NULL;
}

struct result lease_journal_check(const struct lease_journal *journal, const struct taken_lease *lease, struct error *err)
{
    const struct state *state = &journal->state;

    for (uint32_t i = 0; i < state->count; i++) {
        const struct taken_lease *known = &state->leases[i];
        if (memcmp(known->nonce, lease->nonce, sizeof known->nonce) == 0 ||
            memcmp(known->digest, lease->digest, sizeof known->digest) == 0)
            return failure(err, ERROR_CONFLICT, "this runner has taken the lease before");
    }
    if (lease->begins_ms <= state->forgotten_ms)
        return failure(err, ERROR_LIMIT, "the lease began so long ago that this runner does not know whether it has taken it");
    if (lease_journal_has_room(journal)) return SUCCESS;
    return failure(err, ERROR_LIMIT, "this runner has taken %d leases that have not ended", LEASES_MAX);
}

static void forget_expired(struct state *state)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < state->count; i++)
        if (!may_be_forgotten(&state->leases[i], state->latest_ms)) state->leases[kept++] = state->leases[i];
    state->count = kept;
}

static void make_room(struct state *state)
{
    forget_expired(state);
    if (state->count < LEASES_MAX) return;
    const struct taken_lease *first = first_ended(state);
    assert(first != NULL); /* lease_journal_check() */
    if (first->begins_ms > state->forgotten_ms) state->forgotten_ms = first->begins_ms;
    state->leases[first - state->leases] = state->leases[--state->count];
}

struct result lease_journal_take(struct lease_journal *journal, const struct taken_lease *lease, int64_t now_ms,
                                 struct error *err)
{
    struct state *state = &journal->state;

    if (now_ms > state->latest_ms) state->latest_ms = now_ms;
    TRY(lease_journal_check(journal, lease, err));
    make_room(state);
    state->leases[state->count++] = *lease;
    return journal_write(journal->journal, state, err);
}

struct result lease_journal_end(struct lease_journal *journal, const uint8_t nonce[LEASE_NONCE_SIZE], struct error *err)
{
    for (uint32_t i = 0; i < journal->state.count; i++) {
        struct taken_lease *lease = &journal->state.leases[i];
        if (memcmp(lease->nonce, nonce, sizeof lease->nonce) != 0) continue;
        lease->has_ended = true;
        return journal_write(journal->journal, &journal->state, err);
    }
    return failure(err, ERROR_NOT_FOUND, "the lease was never taken");
}

const struct taken_lease *lease_journal_find(const struct lease_journal *journal, const uint8_t nonce[LEASE_NONCE_SIZE])
{
    for (uint32_t i = 0; i < journal->state.count; i++)
        if (memcmp(journal->state.leases[i].nonce, nonce, LEASE_NONCE_SIZE) == 0) return &journal->state.leases[i];
    return NULL;
}

size_t lease_journal_list(const struct lease_journal *journal, struct taken_lease *leases, size_t room)
{
    size_t count = 0;

    for (uint32_t i = 0; i < journal->state.count && count < room; i++)
        if (!journal->state.leases[i].has_ended) leases[count++] = journal->state.leases[i];
    return count;
}

void lease_journal_free(struct lease_journal *journal)
{
    if (journal == NULL) return;
    journal_free(journal->journal);
    free(journal);
}
