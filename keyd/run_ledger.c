#include "keyd/run_ledger.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"

/* "SJRL" | u8 1 | u64 generation | u64 since in ms | 4,096 times: subject[32], digest[32], nonce[16], u64 from, until and keep
 * in ms | HMAC-SHA256[32]; zeros up to COPY_SIZE. */
enum { PROMISE_SIZE = 104, BODY_SIZE = 8 + RUN_PROMISES_MAX * PROMISE_SIZE, COPY_SIZE = 105 * 4096 };
_Static_assert(JOURNAL_HEADER_SIZE + BODY_SIZE + JOURNAL_SEAL_SIZE <= COPY_SIZE, "a copy has room");

struct state {
    int64_t since_ms;
    struct run_promise promises[RUN_PROMISES_MAX];
};

struct run_ledger {
    struct journal *journal;
    pthread_mutex_t lock; /* held while the disk is written: a signature waits for it anyway */
    struct state state;
};

static size_t body_size(uint8_t version)
{
    return version == 1 ? BODY_SIZE : 0;
}

static void write_body(const void *context, uint8_t *body_out)
{
    const struct state *state = context;

    store_u64(body_out, (uint64_t)state->since_ms);
    body_out += 8;
    for (size_t i = 0; i < RUN_PROMISES_MAX; i++, body_out += PROMISE_SIZE) {
        const struct run_promise *promise = &state->promises[i];
        memcpy(body_out, promise->subject, 32);
        memcpy(body_out + 32, promise->digest, 32);
        memcpy(body_out + 64, promise->nonce, 16);
        store_u64(body_out + 80, (uint64_t)promise->from_ms);
        store_u64(body_out + 88, (uint64_t)promise->until_ms);
        store_u64(body_out + 96, (uint64_t)promise->keep_ms);
    }
}

static void read_body(uint8_t version, struct bytes body, void *state_out)
{
    struct state *state = state_out;
    const uint8_t *at = body.data + 8;

    assert(version == 1 && body.length == BODY_SIZE);
    state->since_ms = (int64_t)load_u64(body.data);
    for (size_t i = 0; i < RUN_PROMISES_MAX; i++, at += PROMISE_SIZE) {
        struct run_promise *promise = &state->promises[i];
        memcpy(promise->subject, at, 32);
        memcpy(promise->digest, at + 32, 32);
        memcpy(promise->nonce, at + 64, 16);
        promise->from_ms = (int64_t)load_u64(at + 80);
        promise->until_ms = (int64_t)load_u64(at + 88);
        promise->keep_ms = (int64_t)load_u64(at + 96);
    }
}

static const struct journal_format format = {.name = RUN_LEDGER_FILE,
                                             .magic = "SJRL",
                                             .version = 1,
                                             .copy_size = COPY_SIZE,
                                             .body_size = body_size,
                                             .write = write_body,
                                             .read = read_body};

struct result run_ledger_create(int directory, const uint8_t key[JOURNAL_KEY_SIZE], int64_t since_ms, struct error *err)
{
    struct state *state = memory_zeroed(1, sizeof *state);

    if (state == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the ledger of runs");
    state->since_ms = since_ms;
    const struct result made = journal_create(directory, &format, key, state, err);
    free(state);
    return made;
}

static struct result open_or_make(struct run_ledger *ledger, int directory, const uint8_t key[JOURNAL_KEY_SIZE], int64_t now_ms,
                                  struct error *err)
{
    const struct result opened = journal_open(directory, &format, key, &ledger->state, &ledger->journal, err);

    if (opened.ok) return SUCCESS;
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
    for (size_t i = 0; i < RUN_PROMISES_MAX; i++) {
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

static struct run_promise *free_slot(struct run_ledger *ledger, int64_t now_ms)
{
    for (size_t i = 0; i < RUN_PROMISES_MAX; i++)
        if (ledger->state.promises[i].keep_ms <= now_ms) return &ledger->state.promises[i];
    return NULL;
}

static struct result keep_locked(struct run_ledger *ledger, const struct run_promise *promise, int64_t now_ms, struct error *err)
{
    const struct run_promise *old = find(ledger, promise->subject, now_ms);

    if (old != NULL && memcmp(old->digest, promise->digest, sizeof old->digest) == 0) return SUCCESS;
    if (old != NULL) return failure(err, ERROR_CONFLICT, "something else was signed for this already");
    struct run_promise *slot = free_slot(ledger, now_ms);
    if (slot == NULL)
        return failure(err, ERROR_LIMIT, "sijil-keyd keeps %d orders, leases and admissions: some orders must expire first",
                       RUN_PROMISES_MAX);
    const struct run_promise before = *slot;
    *slot = *promise;
    const struct result written = journal_write(ledger->journal, &ledger->state, err);
    if (!written.ok) *slot = before; /* the disk may have it; no signature leaves, and keyd ends */
    return written;
}

struct result run_ledger_keep(struct run_ledger *ledger, const struct run_promise *promise, int64_t now_ms, struct error *err)
{
    struct result kept;

    assert(promise->keep_ms > now_ms);
    (void)pthread_mutex_lock(&ledger->lock);
    if (journal_is_broken(ledger->journal))
        kept = failure(err, ERROR_UNAVAILABLE, "the ledger of runs could not be written: sijil-keyd starts again");
    else kept = keep_locked(ledger, promise, now_ms, err);
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
