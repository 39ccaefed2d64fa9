#include "keyd/run_ledger.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"

/*
 * "SJRL" | u8 2 | u64 generation | u64 since in ms | u32 slots, at most 51,200 | for each slot: subject[32], digest[32], nonce[16], u64 from, until and keep
 * in ms, u32 reserves | HMAC-SHA256[32]. Only slots up to the last one that was ever in use are written. Version 1 had always 4,096 slots, without reserves.
 */
enum { HEAD_SIZE = 12, PROMISE_SIZE = 108, BODY_SIZE = HEAD_SIZE + RUN_PROMISES_MAX * PROMISE_SIZE, COPY_SIZE = 1351 * 4096 };
enum { OLD_PROMISES = 4096, OLD_SIZE = 104, OLD_BODY_SIZE = 8 + OLD_PROMISES * OLD_SIZE, OLD_COPY_SIZE = 105 * 4096 };
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

static size_t body_size(uint8_t version)
{
    return version == 2 ? BODY_SIZE : 0;
}

static size_t body_length(const uint8_t *body)
{
    return HEAD_SIZE + (size_t)load_u32(body + 8) * PROMISE_SIZE;
}

static size_t old_body_size(uint8_t version)
{
    return version == 1 ? OLD_BODY_SIZE : 0;
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

static void read_body(uint8_t version, struct bytes body, void *state_out)
{
    struct state *state = state_out;
    const uint8_t *at = body.data + HEAD_SIZE;

    assert(version == 2 && body.length == body_length(body.data));
    state->since_ms = (int64_t)load_u64(body.data);
    state->slots = load_u32(body.data + 8);
    for (size_t i = 0; i < state->slots; i++, at += PROMISE_SIZE) {
        read_promise(at, &state->promises[i]);
        state->promises[i].reserves = load_u32(at + 104);
    }
}

static void read_old_body(uint8_t version, struct bytes body, void *state_out)
{
    struct state *state = state_out;

    assert(version == 1 && body.length == OLD_BODY_SIZE);
    state->since_ms = (int64_t)load_u64(body.data);
    state->slots = OLD_PROMISES;
    for (size_t i = 0; i < OLD_PROMISES; i++) read_promise(body.data + 8 + i * OLD_SIZE, &state->promises[i]);
}

static const struct journal_format format = {.name = RUN_LEDGER_FILE,
                                             .magic = "SJRL",
                                             .version = 2,
                                             .copy_size = COPY_SIZE,
                                             .body_size = body_size,
                                             .body_length = body_length,
                                             .write = write_body,
                                             .read = read_body};
/* The format of version 1. Such a file is read once, and never written. */
static const struct journal_format old_format = {.name = RUN_LEDGER_FILE,
                                                 .magic = "SJRL",
                                                 .version = 1,
                                                 .copy_size = OLD_COPY_SIZE,
                                                 .body_size = old_body_size,
                                                 .read = read_old_body};

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
    OWNED(journal) *old = NULL;
    struct error ignored = {0};

    memset(&ledger->state, 0, sizeof ledger->state);
    return journal_open(directory, &old_format, key, &ledger->state, &old, &ignored).ok &&
           journal_create(directory, &format, key, &ledger->state, &ignored).ok;
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

/* The first free slot, and how many more promises fit besides what is reserved. */
static struct run_promise *free_slot(struct run_ledger *ledger, int64_t now_ms, int64_t *left_out)
{
    struct state *state = &ledger->state;
    struct run_promise *slot = state->slots < RUN_PROMISES_MAX ? &state->promises[state->slots] : NULL;
    int64_t left = (int64_t)RUN_PROMISES_MAX - state->slots;

    for (size_t i = state->slots; i-- > 0;) {
        struct run_promise *promise = &state->promises[i];
        const bool is_free = promise->keep_ms <= now_ms;
        if (is_free) slot = promise;
        left += is_free ? 1 : -(int64_t)promise->reserves;
    }
    *left_out = left;
    return slot;
}

static struct result take_slot(struct run_ledger *ledger, const struct run_promise *promise, bool is_reserved, int64_t now_ms,
                               struct run_promise **slot_out, struct error *err)
{
    int64_t left = 0;
    struct run_promise *slot = free_slot(ledger, now_ms, &left);

    if (slot == NULL || (!is_reserved && left < 1 + (int64_t)promise->reserves))
        return failure(
            err, ERROR_LIMIT,
            "sijil-keyd has room for %d orders, leases and admissions, and this needs %u: some orders must expire or be admitted first",
            RUN_PROMISES_MAX, 1 + promise->reserves);
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
    TRY(take_slot(ledger, promise, order->reserves > 0, now_ms, &slot, err));
    const struct run_promise before = *slot;
    *slot = *promise;
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
