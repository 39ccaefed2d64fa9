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
    if (valid[1 - newer] && sequences[0] == sequences[1]) return SUCCESS;
    return write_copy(ledger, 1 - newer, &ledger->state, ledger->sequence, err);
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

/* The disk has `next`: it becomes current. Unwraps that were counted meanwhile stay counted. */
static void adopt(struct ledger *ledger, const struct ledger_state *next, uint64_t sequence)
{
    (void)pthread_mutex_lock(&ledger->lock);
    const struct ledger_state now = ledger->state;
    ledger->state = *next;
    ledger->state.unwrap_count = now.unwrap_count;
    memcpy(ledger->state.unwrap_chain, now.unwrap_chain, sizeof now.unwrap_chain);
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
