#include "keyd/run_ledger.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "crypto/digest.h"

/*
 * "SJRL" | u8 5 | u64 generation | u64 since in ms | u32 slots, at most 51,200 | for each slot: subject[32], digest[32], nonce[16], u64 from, until and keep
 * in ms, u32 reserves, u64 organisation, u64 project, u64 principal, u8 1 of a request | HMAC-SHA256[32]. Only slots up to the last one that was ever in use are
 * written. Version 4 had no last byte, and the principal of requests alone. Version 3 had no principal. Version 2 had no organisation and no project either. Version 1 had always 4,096 slots, and no reserves either.
 */
enum { HEAD_SIZE = 12, PROMISE_SIZE = 133, BODY_SIZE = HEAD_SIZE + RUN_PROMISES_MAX * PROMISE_SIZE, COPY_SIZE = 1663 * 4096 };
enum { FOURTH_SIZE = 132, FOURTH_BODY_SIZE = HEAD_SIZE + RUN_PROMISES_MAX * FOURTH_SIZE, FOURTH_COPY_SIZE = 1651 * 4096 };
enum { THIRD_SIZE = 124, THIRD_BODY_SIZE = HEAD_SIZE + RUN_PROMISES_MAX * THIRD_SIZE, THIRD_COPY_SIZE = 1551 * 4096 };
enum { SECOND_SIZE = 108, SECOND_BODY_SIZE = HEAD_SIZE + RUN_PROMISES_MAX * SECOND_SIZE, SECOND_COPY_SIZE = 1351 * 4096 };
enum { FIRST_PROMISES = 4096, FIRST_SIZE = 104, FIRST_BODY_SIZE = 8 + FIRST_PROMISES * FIRST_SIZE, FIRST_COPY_SIZE = 105 * 4096 };
_Static_assert(JOURNAL_HEADER_SIZE + BODY_SIZE + JOURNAL_SEAL_SIZE <= COPY_SIZE, "a copy has room");

struct state {
    int64_t since_ms;
    uint32_t slots; /* that were ever in use: the first ones */
    struct run_promise promises[RUN_PROMISES_MAX];
};

struct run_ledger {
    struct journal *journal;
    pthread_mutex_t lock; /* held while the disk is written: a signature waits for it anyway */
    struct state state;
};

uint64_t run_ledger_share(struct bytes name)
{
    uint8_t hash[32];

    sha256_of(name, hash);
    return load_u64(hash);
}

static size_t body_size(uint8_t version)
{
    return version == 5 ? BODY_SIZE : 0;
}

static size_t body_length(const uint8_t *body)
{
    return HEAD_SIZE + (size_t)load_u32(body + 8) * PROMISE_SIZE;
}

static size_t fourth_body_size(uint8_t version)
{
    return version == 4 ? FOURTH_BODY_SIZE : 0;
}

static size_t fourth_body_length(const uint8_t *body)
{
    return HEAD_SIZE + (size_t)load_u32(body + 8) * FOURTH_SIZE;
}

static size_t third_body_size(uint8_t version)
{
    return version == 3 ? THIRD_BODY_SIZE : 0;
}

static size_t third_body_length(const uint8_t *body)
{
    return HEAD_SIZE + (size_t)load_u32(body + 8) * THIRD_SIZE;
}

static size_t second_body_size(uint8_t version)
{
    return version == 2 ? SECOND_BODY_SIZE : 0;
}

static size_t second_body_length(const uint8_t *body)
{
    return HEAD_SIZE + (size_t)load_u32(body + 8) * SECOND_SIZE;
}

static size_t first_body_size(uint8_t version)
{
    return version == 1 ? FIRST_BODY_SIZE : 0;
}

static void write_body(const void *context, uint8_t *body_out)
{
    const struct state *state = context;

    store_u64(body_out, (uint64_t)state->since_ms);
    store_u32(body_out + 8, state->slots);
    body_out += HEAD_SIZE;
    for (size_t i = 0; i < state->slots; i++, body_out += PROMISE_SIZE) {
        const struct run_promise *promise = &state->promises[i];
        memcpy(body_out, promise->subject, 32);
        memcpy(body_out + 32, promise->digest, 32);
        memcpy(body_out + 64, promise->nonce, 16);
        store_u64(body_out + 80, (uint64_t)promise->from_ms);
        store_u64(body_out + 88, (uint64_t)promise->until_ms);
        store_u64(body_out + 96, (uint64_t)promise->keep_ms);
        store_u32(body_out + 104, promise->reserves);
        store_u64(body_out + 108, promise->organisation);
        store_u64(body_out + 116, promise->project);
        store_u64(body_out + 124, promise->principal);
        body_out[132] = promise->is_request;
    }
}

static void read_promise(const uint8_t *at, struct run_promise *promise_out)
{
    memcpy(promise_out->subject, at, 32);
    memcpy(promise_out->digest, at + 32, 32);
    memcpy(promise_out->nonce, at + 64, 16);
    promise_out->from_ms = (int64_t)load_u64(at + 80);
    promise_out->until_ms = (int64_t)load_u64(at + 88);
    promise_out->keep_ms = (int64_t)load_u64(at + 96);
}

/* Of version 2 and later. */
static void read_body(uint8_t version, struct bytes body, void *state_out)
{
    static const size_t sizes[] = {0, 0, SECOND_SIZE, THIRD_SIZE, FOURTH_SIZE, PROMISE_SIZE};
    struct state *state = state_out;
    const uint8_t *at = body.data + HEAD_SIZE;

    assert(version >= 2 && version <= 5);
    state->since_ms = (int64_t)load_u64(body.data);
    state->slots = load_u32(body.data + 8);
    assert(body.length == HEAD_SIZE + state->slots * sizes[version]);
    for (size_t i = 0; i < state->slots; i++, at += sizes[version]) {
        struct run_promise *promise = &state->promises[i];
        read_promise(at, promise);
        promise->reserves = load_u32(at + 104);
        promise->organisation = version < 3 ? 0 : load_u64(at + 108);
        promise->project = version < 3 ? 0 : load_u64(at + 116);
        promise->principal = version < 4 ? 0 : load_u64(at + 124);
        promise->is_request = version < 5 ? promise->principal != 0 : at[132] == 1;
    }
}

static void read_first_body(uint8_t version, struct bytes body, void *state_out)
{
    struct state *state = state_out;

    assert(version == 1 && body.length == FIRST_BODY_SIZE);
    state->since_ms = (int64_t)load_u64(body.data);
    state->slots = FIRST_PROMISES;
    for (size_t i = 0; i < FIRST_PROMISES; i++) read_promise(body.data + 8 + i * FIRST_SIZE, &state->promises[i]);
}

static const struct journal_format format = {.name = RUN_LEDGER_FILE,
                                             .magic = "SJRL",
                                             .version = 5,
                                             .copy_size = COPY_SIZE,
                                             .body_size = body_size,
                                             .body_length = body_length,
                                             .write = write_body,
                                             .read = read_body};
/* Each is read once, and never written. */
static const struct journal_format earlier_formats[] = {{.name = RUN_LEDGER_FILE,
                                                         .magic = "SJRL",
                                                         .version = 4,
                                                         .copy_size = FOURTH_COPY_SIZE,
                                                         .body_size = fourth_body_size,
                                                         .body_length = fourth_body_length,
                                                         .read = read_body},
                                                        {.name = RUN_LEDGER_FILE,
                                                         .magic = "SJRL",
                                                         .version = 3,
                                                         .copy_size = THIRD_COPY_SIZE,
                                                         .body_size = third_body_size,
                                                         .body_length = third_body_length,
                                                         .read = read_body},
                                                        {.name = RUN_LEDGER_FILE,
                                                         .magic = "SJRL",
                                                         .version = 2,
                                                         .copy_size = SECOND_COPY_SIZE,
                                                         .body_size = second_body_size,
                                                         .body_length = second_body_length,
                                                         .read = read_body},
                                                        {.name = RUN_LEDGER_FILE,
                                                         .magic = "SJRL",
                                                         .version = 1,
                                                         .copy_size = FIRST_COPY_SIZE,
                                                         .body_size = first_body_size,
                                                         .read = read_first_body}};

struct result run_ledger_create(int directory, const uint8_t key[JOURNAL_KEY_SIZE], int64_t since_ms, struct error *err)
{
    struct state *state = memory_zeroed(1, sizeof *state);

    if (state == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the ledger of runs");
    state->since_ms = since_ms;
    const struct result made = journal_create(directory, &format, key, state, err);
    free(state);
    return made;
}

/* A file of an older version is replaced as a whole: after a crash either the old file or the new one is there. */
static bool upgrade(struct run_ledger *ledger, int directory, const uint8_t key[JOURNAL_KEY_SIZE])
{
    struct error ignored = {0};

    for (size_t i = 0; i < sizeof earlier_formats / sizeof earlier_formats[0]; i++) {
        OWNED(journal) *earlier = NULL;
        memset(&ledger->state, 0, sizeof ledger->state);
        if (journal_open(directory, &earlier_formats[i], key, &ledger->state, &earlier, &ignored).ok)
            return journal_create(directory, &format, key, &ledger->state, &ignored).ok;
    }
    return false;
}

static struct result open_or_make(struct run_ledger *ledger, int directory, const uint8_t key[JOURNAL_KEY_SIZE], int64_t now_ms,
                                  struct error *err)
{
    const struct result opened = journal_open(directory, &format, key, &ledger->state, &ledger->journal, err);

    if (opened.ok) return SUCCESS;
    if (err->kind == ERROR_CORRUPT && upgrade(ledger, directory, key))
        return journal_open(directory, &format, key, &ledger->state, &ledger->journal, err);
    if (err->kind == ERROR_CONFLICT) return failure(err, ERROR_CONFLICT, "another sijil-keyd runs on this folder");
    if (err->kind == ERROR_CORRUPT)
        return failure(err, ERROR_CORRUPT, "the ledger of runs is damaged, or belongs to another key ring");
    if (err->kind != ERROR_NOT_FOUND) return opened;
    log_line(LOG_WARNING, "the folder has no ledger of runs: requests that were issued before now are refused", NULL);
    TRY(run_ledger_create(directory, key, now_ms, err));
    return journal_open(directory, &format, key, &ledger->state, &ledger->journal, err);
}

struct result run_ledger_open(int directory, const uint8_t key[JOURNAL_KEY_SIZE], int64_t now_ms, struct run_ledger **ledger_out,
                              struct error *err)
{
    OWNED(run_ledger) *ledger = memory_zeroed(1, sizeof *ledger);

    if (ledger == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the ledger of runs");
    (void)pthread_mutex_init(&ledger->lock, NULL);
    TRY(open_or_make(ledger, directory, key, now_ms, err));
    *ledger_out = GIVE(ledger);
    return SUCCESS;
}

int64_t run_ledger_since_ms(const struct run_ledger *ledger)
{
    return ledger->state.since_ms; /* never changes */
}

/* With the lock held. */
static struct run_promise *find(struct run_ledger *ledger, const uint8_t subject[32], int64_t now_ms)
{
    for (size_t i = 0; i < ledger->state.slots; i++) {
        struct run_promise *promise = &ledger->state.promises[i];
        if (promise->keep_ms > now_ms && memcmp(promise->subject, subject, sizeof promise->subject) == 0) return promise;
    }
    return NULL;
}

bool run_ledger_find(struct run_ledger *ledger, const uint8_t subject[32], int64_t now_ms, struct run_promise *promise_out)
{
    (void)pthread_mutex_lock(&ledger->lock);
    const struct run_promise *promise = find(ledger, subject, now_ms);
    if (promise != NULL) *promise_out = *promise;
    (void)pthread_mutex_unlock(&ledger->lock);
    return promise != NULL;
}

/* How many slots are left, or taken, with what is reserved. */
struct room {
    int64_t left, of_organisation, of_project, of_principal,
        of_requests; /* of_principal: orders, or requests, as the wanted one is */
};

/* The first free slot, and the room of `promise`. */
static struct run_promise *free_slot(struct run_ledger *ledger, const struct run_promise *wanted, int64_t now_ms,
                                     struct room *room_out)
{
    struct state *state = &ledger->state;
    struct run_promise *slot = state->slots < RUN_PROMISES_MAX ? &state->promises[state->slots] : NULL;
    struct room room = {.left = (int64_t)RUN_PROMISES_MAX - state->slots};

    for (size_t i = state->slots; i-- > 0;) {
        struct run_promise *promise = &state->promises[i];
        const int64_t taken = promise->keep_ms <= now_ms ? 0 : 1 + (int64_t)promise->reserves;
        if (taken == 0) slot = promise;
        room.left += 1 - taken;
        if (promise->organisation == wanted->organisation) room.of_organisation += taken;
        if (promise->project == wanted->project) room.of_project += taken;
        if (promise->principal == wanted->principal && promise->is_request == wanted->is_request) room.of_principal += taken;
        if (promise->is_request) room.of_requests += taken;
    }
    *room_out = room;
    return slot;
}

/*
 * Of requests and orders; what follows from an order takes the order's share. An organisation gets as much as it leaves to all others, and a project half
 * of what its organisation could still get. So whoever takes all that it can leaves room for the others, and one that has little comes before one that has
 * much. The orders of one principal stop at half of that, in all organisations together: those of runs that were cancelled keep a place, too.
 *
 * A request takes a place before anybody has approved it, for as long as it may live. So requests stop at half of these shares, and all together at a quarter
 * of the ledger: a gateway that makes up names of organisations and principals, each with a share of its own, keeps no order out.
 */
static struct result check_share(const struct run_promise *wanted, const struct room *room, struct error *err)
{
    const int64_t needs = 1 + (int64_t)wanted->reserves, weight = wanted->is_request ? 2 : 1;
    const char *whose = NULL;
    int64_t taken = 0;

    if (wanted->principal != 0 && 4 * weight * (room->of_principal + needs) > room->left - room->of_organisation)
        whose = "principal", taken = room->of_principal;
    if (2 * weight * (room->of_project + needs) > room->left - room->of_organisation) whose = "project", taken = room->of_project;
    if (weight * (room->of_organisation + needs) > room->left) whose = "organisation", taken = room->of_organisation;
    if (wanted->is_request && room->of_requests >= RUN_REQUESTS_MAX) whose = "registry", taken = room->of_requests;
    if (whose == NULL) return SUCCESS;
    return failure(
        err, ERROR_LIMIT,
        "the %s has %lld places for %s, this needs %lld, and %lld are left for all: those of runs that have ended become free a day after "
        "their requests expire",
        whose, (long long)taken, wanted->is_request ? "requests" : "requests, orders, leases and admissions", (long long)needs,
        (long long)room->left);
}

/* `order`: that the promise follows from; NULL: it is a request or an order. */
static struct result take_slot(struct run_ledger *ledger, const struct run_promise *promise, const struct run_promise *order,
                               int64_t now_ms, struct run_promise **slot_out, struct error *err)
{
    struct room room;
    struct run_promise *slot = free_slot(ledger, promise, now_ms, &room);

    if (slot == NULL || ((order == NULL || order->reserves == 0) && room.left < 1 + (int64_t)promise->reserves))
        return failure(
            err, ERROR_LIMIT,
            "sijil-keyd has room for %d requests, orders, leases and admissions, and this needs %u: some must expire, or runs end, first",
            RUN_PROMISES_MAX, 1 + promise->reserves);
    if (order == NULL) TRY(check_share(promise, &room, err));
    *slot_out = slot;
    return SUCCESS;
}

static struct result keep_locked(struct run_ledger *ledger, const struct run_promise *promise, const struct run_follows *follows,
                                 int64_t now_ms, struct error *err)
{
    const struct run_promise *old = find(ledger, promise->subject, now_ms);
    struct run_promise none = {.reserves = 0}, *slot = NULL;

    if (old != NULL && memcmp(old->digest, promise->digest, sizeof old->digest) == 0) return SUCCESS;
    if (old != NULL) return failure(err, ERROR_CONFLICT, "something else was signed for this already");
    struct run_promise *order = follows == NULL ? NULL : find(ledger, follows->order, now_ms);
    if (order == NULL) order = &none;
    const struct run_promise order_before = *order;
    TRY(take_slot(ledger, promise, follows == NULL ? NULL : order, now_ms, &slot, err));
    const struct run_promise before = *slot;
    *slot = *promise;
    if (follows != NULL) {
        slot->organisation = order->organisation;
        slot->project = order->project;
        slot->principal = order->principal;
    }
    if (slot == &ledger->state.promises[ledger->state.slots]) ledger->state.slots++;
    if (order->reserves > 0) order->reserves--;
    if (follows != NULL && follows->is_last) order->reserves = 0;
    const struct result written = journal_write(ledger->journal, &ledger->state, err);
    if (written.ok) return SUCCESS;
    *slot = before; /* the disk may have it; no signature leaves, and keyd ends */
    *order = order_before;
    return written;
}

struct result run_ledger_keep(struct run_ledger *ledger, const struct run_promise *promise, const struct run_follows *follows,
                              int64_t now_ms, struct error *err)
{
    struct result kept;

    assert(promise->keep_ms > now_ms);
    (void)pthread_mutex_lock(&ledger->lock);
    if (journal_is_broken(ledger->journal))
        kept = failure(err, ERROR_UNAVAILABLE, "the ledger of runs could not be written: sijil-keyd starts again");
    else kept = keep_locked(ledger, promise, follows, now_ms, err);
    (void)pthread_mutex_unlock(&ledger->lock);
    return kept;
}

struct result run_ledger_end(struct run_ledger *ledger, const uint8_t order[32], int64_t now_ms, struct error *err)
{
    struct result ended = SUCCESS;

    (void)pthread_mutex_lock(&ledger->lock);
    struct run_promise *promise = find(ledger, order, now_ms);
    if (journal_is_broken(ledger->journal))
        ended = failure(err, ERROR_UNAVAILABLE, "the ledger of runs could not be written: sijil-keyd starts again");
    else if (promise != NULL && promise->reserves > 0) {
        promise->reserves = 0;
        ended = journal_write(ledger->journal, &ledger->state, err);
    }
    (void)pthread_mutex_unlock(&ledger->lock);
    return ended;
}

bool run_ledger_is_broken(const struct run_ledger *ledger)
{
    return journal_is_broken(ledger->journal);
}

void run_ledger_free(struct run_ledger *ledger)
{
    if (ledger == NULL) return;
    journal_free(ledger->journal);
    (void)pthread_mutex_destroy(&ledger->lock);
    free(ledger);
}
