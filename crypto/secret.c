#include "crypto/secret.h"

#include <pthread.h>
#include <string.h>

#include "base/fault.h"
#include "base/memory.h"
#include "crypto/sodium_priv.h"

static void start_sodium(void)
{
    if (sodium_init() < 0) abort();
}

void sodium_ready(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, start_sodium);
}

/*
 * Each blob needs a few keys. A guarded allocation costs seven system calls and as many flushes of other cores' TLBs. So
 * small secrets share one guarded, locked region; a freed one is wiped at once.
 */
#define SLOT_SIZE  64  /* bytes: one key or two */
#define SLOT_COUNT 256 /* 16 KiB of locked memory; when all are used, a secret gets an allocation of its own */

static struct {
    pthread_mutex_t lock;
    uint8_t *slots;
    uint16_t free[SLOT_COUNT];
    size_t free_count;
    bool is_ready;
} slab = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* With the lock held. Memory that can't be locked is not used. */
static void slab_prepare(void)
{
    slab.is_ready = true;
    slab.slots = sodium_malloc((size_t)SLOT_SIZE * SLOT_COUNT);
    if (slab.slots == NULL) return;
    if (sodium_mlock(slab.slots, (size_t)SLOT_SIZE * SLOT_COUNT) != 0) return;
    for (size_t i = 0; i < SLOT_COUNT; i++) slab.free[i] = (uint16_t)i;
    slab.free_count = SLOT_COUNT;
}

/* NULL when no slot is free. */
static uint8_t *slab_take(void)
{
    (void)pthread_mutex_lock(&slab.lock);
    if (!slab.is_ready) slab_prepare();
    uint8_t *slot = slab.free_count == 0 ? NULL : slab.slots + (size_t)SLOT_SIZE * slab.free[--slab.free_count];
    (void)pthread_mutex_unlock(&slab.lock);
    return slot;
}

/* False if the memory is not from the slab. */
static bool slab_give(uint8_t *bytes)
{
    (void)pthread_mutex_lock(&slab.lock);
    const uintptr_t at = (uintptr_t)bytes, first = (uintptr_t)slab.slots;
    const bool is_slot = first != 0 && at >= first && at < first + (uintptr_t)SLOT_SIZE * SLOT_COUNT;
    if (is_slot) {
        sodium_memzero(bytes, SLOT_SIZE);
        slab.free[slab.free_count++] = (uint16_t)((at - first) / SLOT_SIZE);
    }
    (void)pthread_mutex_unlock(&slab.lock);
    return is_slot;
}

/* Locked, or NULL. sodium_malloc() succeeds without locking; this function does not. Locking twice is harmless. */
static uint8_t *allocate(size_t length)
{
    uint8_t *bytes = length <= SLOT_SIZE ? slab_take() : NULL;

    if (bytes != NULL) return bytes;
    bytes = sodium_malloc(length);
    if (bytes == NULL || length == 0 || sodium_mlock(bytes, length) == 0) return bytes;
    sodium_free(bytes);
    return NULL;
}

struct result secret_new(size_t length, struct secret **secret_out, struct error *err)
{
    sodium_ready();
    OWNED(secret) *secret = memory_zeroed(1, sizeof *secret);
    if (secret == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a secret");
    secret->bytes = fault_is_due(FAULT_MEMORY) ? NULL : allocate(length);
    if (secret->bytes == NULL) return failure(err, ERROR_NO_MEMORY, "no locked memory for a secret; raise RLIMIT_MEMLOCK");
    secret->length = length;
    memset(secret->bytes, 0, length);
    *secret_out = GIVE(secret);
    return SUCCESS;
}

struct result secret_random(size_t length, struct secret **secret_out, struct error *err)
{
    OWNED(secret) *secret = NULL;

    TRY(secret_new(length, &secret, err));
    randombytes_buf(secret->bytes, length);
    *secret_out = GIVE(secret);
    return SUCCESS;
}

struct result secret_copy(struct bytes bytes, struct secret **secret_out, struct error *err)
{
    OWNED(secret) *secret = NULL;

    TRY(secret_new(bytes.length, &secret, err));
    if (bytes.length > 0) memcpy(secret->bytes, bytes.data, bytes.length);
    *secret_out = GIVE(secret);
    return SUCCESS;
}

struct bytes secret_bytes(const struct secret *secret)
{
    return (struct bytes){secret->bytes, secret->length};
}

void secret_wipe(void *memory, size_t length)
{
    sodium_memzero(memory, length);
}

void secret_free(struct secret *secret)
{
    if (secret == NULL) return;
    if (!slab_give(secret->bytes)) sodium_free(secret->bytes); /* wipes; takes NULL */
    free(secret);
}
