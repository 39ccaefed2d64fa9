#include "keyd/ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/file.h>

#include "audit/format/merkle.h"
#include "base/file.h"
#include "base/memory.h"
#include "crypto/digest.h"
#include "crypto/secret.h"
#include "keyd/ledger_format.h"

struct ledger {
    int fd;
    struct secret *key;
    pthread_mutex_t writing; /* one change at a time; held while the disk works */
    pthread_mutex_t lock;    /* of the fields below; held for moments */
    struct ledger_state state;
    uint64_t sequence, durable_unwraps;
    bool is_settled;         /* nothing is reserved any more */
    atomic_bool broken; /* a write failed: what the disk holds is not known */
};

struct result ledger_create(int directory, const uint8_t key[LEDGER_KEY_SIZE], struct error *err)
{
    struct ledger_state state = {0};
    uint8_t copies[2 * LEDGER_COPY_SIZE];
    const struct merkle_hash empty = merkle_empty_root();

    memcpy(state.log_root, empty.bytes, sizeof state.log_root);
    ledger_copy_write(&state, 1, key, copies);
    ledger_copy_write(&state, 1, key, copies + LEDGER_COPY_SIZE);
    return file_replace_at(directory, LEDGER_FILE, (struct bytes){copies, sizeof copies}, 0600, err);
}

static struct result write_copy(const struct ledger *ledger, unsigned place, const struct ledger_state *state,
                                uint64_t sequence, struct error *err)
{
    uint8_t copy[LEDGER_COPY_SIZE];

    ledger_copy_write(state, sequence, ledger->key->bytes, copy);
    TRY(file_write_at(ledger->fd, copy, sizeof copy, (uint64_t)place * LEDGER_COPY_SIZE, err));
    return file_sync(ledger->fd, err);
}

static uint64_t count_mints(const struct ledger_state *state)
{
    uint64_t count = 0;

    for (size_t i = 0; i < MINT_SCOPES; i++) count += state->mints[i];
    return count;
}

/* What was reserved and not counted may have been signed. */
static void take_lost_mints(struct ledger_state *state)
{
    const uint64_t count = count_mints(state);

    if (state->mints_reserved > count) state->mints_lost += state->mints_reserved - count;
    state->mints_reserved = count;
}

/* Takes the newer of the valid copies, and mends the other one. */
static struct result load(struct ledger *ledger, struct error *err)
{
    uint8_t copies[2][LEDGER_COPY_SIZE];
    struct ledger_state states[2];
    uint64_t sequences[2] = {0, 0};
    bool valid[2];

    TRY(file_read_at(ledger->fd, copies, sizeof copies, 0, err));
    for (size_t i = 0; i < 2; i++)
        valid[i] = ledger_copy_read(copies[i], ledger->key->bytes, &states[i], &sequences[i]);
    if (!valid[0] && !valid[1])
        return failure(err, ERROR_CORRUPT, "the ledger is damaged, or belongs to another key ring");
    const unsigned newer = valid[0] && (!valid[1] || sequences[0] >= sequences[1]) ? 0 : 1;
    ledger->state = states[newer];
    ledger->sequence = sequences[newer];
    ledger->durable_unwraps = ledger->state.unwrap_count;
    const struct ledger_state found = ledger->state;
    take_lost_mints(&ledger->state);
    if (valid[1 - newer] && sequences[0] == sequences[1]) return SUCCESS;
    return write_copy(ledger, 1 - newer, &found, ledger->sequence, err);
}

struct result ledger_open(int directory, const uint8_t key[LEDGER_KEY_SIZE], struct ledger **ledger_out,
                          struct error *err)
{
    OWNED(ledger) *ledger = memory_zeroed(1, sizeof *ledger);

    if (ledger == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the ledger");
    ledger->fd = -1;
    (void)pthread_mutex_init(&ledger->writing, NULL);
    (void)pthread_mutex_init(&ledger->lock, NULL);
    TRY(secret_copy((struct bytes){key, LEDGER_KEY_SIZE}, &ledger->key, err));
    const struct result opened = file_open_at(directory, LEDGER_FILE, O_RDWR, 0, &ledger->fd, err);
    if (!opened.ok && err->kind == ERROR_NOT_FOUND)
        return failure(err, ERROR_CORRUPT, "the key ring has lost its ledger; restore it from a backup");
    TRY(opened);
    if (flock(ledger->fd, LOCK_EX | LOCK_NB) != 0)
        return failure(err, ERROR_CONFLICT, "another sijil-keyd runs on this folder");
    TRY(load(ledger, err));
    *ledger_out = GIVE(ledger);
    return SUCCESS;
}

void ledger_read(struct ledger *ledger, struct ledger_state *state_out)
{
    (void)pthread_mutex_lock(&ledger->lock);
    *state_out = ledger->state;
    (void)pthread_mutex_unlock(&ledger->lock);
}

/* The disk has `next`: it becomes current. Unwraps and mints that were counted meanwhile stay counted. */
static void adopt(struct ledger *ledger, const struct ledger_state *next, uint64_t sequence)
{
    (void)pthread_mutex_lock(&ledger->lock);
    const struct ledger_state now = ledger->state;
    ledger->state = *next;
    ledger->state.unwrap_count = now.unwrap_count;
    memcpy(ledger->state.unwrap_chain, now.unwrap_chain, sizeof now.unwrap_chain);
    memcpy(ledger->state.mints, now.mints, sizeof now.mints);
    memcpy(ledger->state.minters, now.minters, sizeof now.minters);
    ledger->durable_unwraps = next->unwrap_count;
    ledger->sequence = sequence;
    (void)pthread_mutex_unlock(&ledger->lock);
}

/* Both copies, one after the other, with `writing` held. */
static struct result persist(struct ledger *ledger, const struct ledger_state *next, struct error *err)
{
    const uint64_t sequence = ledger->sequence + 1;

    if (ledger->broken)
        return failure(err, ERROR_UNAVAILABLE, "the ledger could not be written: sijil-keyd starts again");
    struct result result = write_copy(ledger, 0, next, sequence, err);
    if (result.ok) result = write_copy(ledger, 1, next, sequence, err);
    ledger->broken = !result.ok;
    if (result.ok) adopt(ledger, next, sequence);
    return result;
}

static struct result change_locked(struct ledger *ledger,
                                   struct result (*change)(const void *context, struct ledger_state *state,
                                                           struct error *err),
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
                            struct result (*change)(const void *context, struct ledger_state *state,
                                                    struct error *err),
                            const void *context, struct error *err)
{
    (void)pthread_mutex_lock(&ledger->writing);
    const struct result result = change_locked(ledger, change, context, err);
    (void)pthread_mutex_unlock(&ledger->writing);
    return result;
}

void ledger_count_unwrap(struct ledger *ledger, struct bytes record)
{
    uint8_t link[512]; /* the chain and a record of at most 199 bytes */
    struct buffer text = {.data = link, .capacity = sizeof link, .maximum = sizeof link - 1};
    struct error err;

    (void)pthread_mutex_lock(&ledger->lock);
    const bool fits = buffer_add(&text, ledger->state.unwrap_chain, 32, &err).ok &&
                      buffer_add(&text, record.data, record.length, &err).ok;
    if (!fits) abort(); /* a record that is not counted must not be unwrapped */
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

/* With `lock` held. The table has room for more administrators than a registry should have; later ones are in the total alone. */
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
    return atomic_load(&ledger->broken);
}

void ledger_free(struct ledger *ledger)
{
    if (ledger == NULL) return;
    file_close_owned(&ledger->fd);
    secret_free(ledger->key);
    (void)pthread_mutex_destroy(&ledger->writing);
    (void)pthread_mutex_destroy(&ledger->lock);
    free(ledger);
}
