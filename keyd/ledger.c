#include "keyd/ledger.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "audit/format/merkle.h"
#include "base/memory.h"
#include "crypto/digest.h"
#include "keyd/ledger_format.h"

struct ledger {
    struct journal *journal;
    pthread_mutex_t writing; /* one change at a time; held while the disk is written */
    pthread_mutex_t lock;    /* of the fields below; held briefly */
    struct ledger_state state;
    uint64_t durable_unwraps;
    bool is_settled; /* the ledger on disk reserves no tokens */
};

struct result ledger_create(int directory, const uint8_t key[LEDGER_KEY_SIZE], struct error *err)
{
    struct ledger_state state = {.log_number = 1};
    const struct merkle_hash empty = merkle_empty_root();

    memcpy(state.log_root, empty.bytes, sizeof state.log_root);
    return journal_create(directory, &ledger_format, key, &state, err);
}

uint32_t ledger_number(struct ledger *ledger)
{
    struct ledger_state state;

    ledger_read(ledger, &state);
    return state.log_number;
}

bool ledger_has_approver(const struct ledger_state *state)
{
    static const uint8_t none[sizeof state->approver];

    return memcmp(state->approver, none, sizeof none) != 0;
}

bool ledger_has_witnesses(const struct ledger_state *state)
{
    static const uint8_t none[sizeof state->witness_digest];

    return memcmp(state->witness_digest, none, sizeof none) != 0;
}

static uint64_t count_mints(const struct ledger_state *state)
{
    uint64_t count = 0;

    for (size_t i = 0; i < MINT_SCOPES; i++) count += state->mints[i];
    return count;
}

/* Tokens that were reserved and not counted may have been signed. */
static void take_lost_mints(struct ledger_state *state)
{
    const uint64_t count = count_mints(state);

    if (state->mints_reserved > count) state->mints_lost += state->mints_reserved - count;
    state->mints_reserved = count;
}

/* Translates the journal's errors into those of the key ring. */
static struct result open_journal(struct ledger *ledger, int directory, const uint8_t key[LEDGER_KEY_SIZE], struct error *err)
{
    const struct result opened = journal_open(directory, &ledger_format, key, &ledger->state, &ledger->journal, err);

    if (opened.ok) return SUCCESS;
    if (err->kind == ERROR_NOT_FOUND)
        return failure(err, ERROR_CORRUPT, "the key ring has lost its ledger; restore it from a backup");
    if (err->kind == ERROR_CONFLICT) return failure(err, ERROR_CONFLICT, "another sijil-keyd runs on this folder");
    if (err->kind == ERROR_CORRUPT) return failure(err, ERROR_CORRUPT, "the ledger is damaged, or belongs to another key ring");
    return opened;
}

struct result ledger_open(int directory, const uint8_t key[LEDGER_KEY_SIZE], struct ledger **ledger_out, struct error *err)
{
    OWNED(ledger) *ledger = memory_zeroed(1, sizeof *ledger);

    if (ledger == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the ledger");
    (void)pthread_mutex_init(&ledger->writing, NULL);
    (void)pthread_mutex_init(&ledger->lock, NULL);
    TRY(open_journal(ledger, directory, key, err));
    ledger->durable_unwraps = ledger->state.unwrap_count;
    take_lost_mints(&ledger->state);
    *ledger_out = GIVE(ledger);
    return SUCCESS;
}

void ledger_read(struct ledger *ledger, struct ledger_state *state_out)
{
    (void)pthread_mutex_lock(&ledger->lock);
    *state_out = ledger->state;
    (void)pthread_mutex_unlock(&ledger->lock);
}

/* The disk has `next`, which becomes the current state. Unwraps and tokens that were counted during the write stay counted. */
static void adopt(struct ledger *ledger, const struct ledger_state *next)
{
    (void)pthread_mutex_lock(&ledger->lock);
    const struct ledger_state now = ledger->state;
    ledger->state = *next;
    ledger->state.unwrap_count = now.unwrap_count;
    memcpy(ledger->state.unwrap_chain, now.unwrap_chain, sizeof now.unwrap_chain);
    memcpy(ledger->state.mints, now.mints, sizeof now.mints);
    memcpy(ledger->state.minters, now.minters, sizeof now.minters);
    ledger->durable_unwraps = next->unwrap_count;
    (void)pthread_mutex_unlock(&ledger->lock);
}

/* With `writing` held. */
static struct result persist(struct ledger *ledger, const struct ledger_state *next, struct error *err)
{
    if (journal_is_broken(ledger->journal))
        return failure(err, ERROR_UNAVAILABLE, "the ledger could not be written: sijil-keyd starts again");
    TRY(journal_write(ledger->journal, next, err));
    adopt(ledger, next);
    return SUCCESS;
}

static struct result change_locked(struct ledger *ledger,
                                   struct result (*change)(const void *context, struct ledger_state *state, struct error *err),
                                   const void *context, struct error *err)
{
    struct ledger_state before, next;

    ledger_read(ledger, &before);
    next = before;
    TRY(change(context, &next, err));
    next.unwrap_count = before.unwrap_count;
    memcpy(next.unwrap_chain, before.unwrap_chain, sizeof next.unwrap_chain);
    memcpy(next.mints, before.mints, sizeof next.mints);
    memcpy(next.minters, before.minters, sizeof next.minters);
    next.mints_lost = before.mints_lost;
    next.mints_reserved = count_mints(&before) + (ledger->is_settled ? 0 : MINTS_RESERVED);
    return persist(ledger, &next, err);
}

struct result ledger_change(struct ledger *ledger,
                            struct result (*change)(const void *context, struct ledger_state *state, struct error *err),
                            const void *context, struct error *err)
{
    (void)pthread_mutex_lock(&ledger->writing);
    const struct result result = change_locked(ledger, change, context, err);
    (void)pthread_mutex_unlock(&ledger->writing);
    return result;
}

void ledger_count_unwrap(struct ledger *ledger, struct bytes record)
{
    uint8_t link[512]; /* the chain, and a record of at most 199 bytes */
    struct buffer text = {.data = link, .capacity = sizeof link, .maximum = sizeof link - 1};
    struct error err;

    (void)pthread_mutex_lock(&ledger->lock);
    const bool fits =
        buffer_add(&text, ledger->state.unwrap_chain, 32, &err).ok && buffer_add(&text, record.data, record.length, &err).ok;
    if (!fits) abort(); /* a key whose record is not counted must not be unwrapped */
    sha256_of(buffer_bytes(&text), ledger->state.unwrap_chain);
    ledger->state.unwrap_count++;
    (void)pthread_mutex_unlock(&ledger->lock);
}

static struct result no_change(const void *context, struct ledger_state *state, struct error *err)
{
    (void)context, (void)state, (void)err;
    return SUCCESS;
}

struct result ledger_flush(struct ledger *ledger, struct error *err)
{
    (void)pthread_mutex_lock(&ledger->lock);
    const bool is_durable = ledger->state.unwrap_count == ledger->durable_unwraps;
    (void)pthread_mutex_unlock(&ledger->lock);
    return is_durable ? SUCCESS : ledger_change(ledger, no_change, NULL, err);
}

/* With `lock` held. The table has room for more administrators than a registry should have; tokens of others count only in the
 * total. */
static void count_minter(struct ledger_state *state, const uint8_t credential[MINTER_ID_SIZE])
{
    for (size_t i = 0; i < MINTERS_MAX; i++) {
        struct minter *minter = &state->minters[i];
        const bool is_free = minter->count == 0;
        if (!is_free && memcmp(minter->credential, credential, MINTER_ID_SIZE) != 0) continue;
        if (is_free) memcpy(minter->credential, credential, MINTER_ID_SIZE);
        minter->count++;
        return;
    }
}

static bool count_reserved(struct ledger *ledger, enum mint_scope scope, const uint8_t credential[MINTER_ID_SIZE])
{
    (void)pthread_mutex_lock(&ledger->lock);
    const bool is_reserved = count_mints(&ledger->state) < ledger->state.mints_reserved;
    if (is_reserved) ledger->state.mints[scope]++;
    if (is_reserved && scope == MINT_ADMINISTRATION) count_minter(&ledger->state, credential);
    (void)pthread_mutex_unlock(&ledger->lock);
    return is_reserved;
}

struct result ledger_count_mint(struct ledger *ledger, enum mint_scope scope, const uint8_t credential[MINTER_ID_SIZE],
                                struct error *err)
{
    while (!count_reserved(ledger, scope, credential)) TRY(ledger_change(ledger, no_change, NULL, err));
    return SUCCESS;
}

struct result ledger_settle(struct ledger *ledger, struct error *err)
{
    (void)pthread_mutex_lock(&ledger->writing);
    ledger->is_settled = true;
    const struct result result = change_locked(ledger, no_change, NULL, err);
    (void)pthread_mutex_unlock(&ledger->writing);
    return result;
}

bool ledger_is_broken(const struct ledger *ledger)
{
    return journal_is_broken(ledger->journal);
}

void ledger_free(struct ledger *ledger)
{
    if (ledger == NULL) return;
    journal_free(ledger->journal);
    (void)pthread_mutex_destroy(&ledger->writing);
    (void)pthread_mutex_destroy(&ledger->lock);
    free(ledger);
}
