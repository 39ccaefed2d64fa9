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

struct result secret_new(size_t length, struct secret **secret_out, struct error *err)
{
    sodium_ready();
    OWNED(secret) *secret = memory_zeroed(1, sizeof *secret);
    if (secret == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a secret");
    secret->bytes = fault_is_due(FAULT_MEMORY) ? NULL : sodium_malloc(length);
    /* sodium_malloc() goes on when it can't lock; we do not. Locking twice is harmless. */
    if (secret->bytes == NULL || (length > 0 && sodium_mlock(secret->bytes, length) != 0))
        return failure(err, ERROR_NO_MEMORY, "no locked memory for a secret; raise RLIMIT_MEMLOCK");
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
    sodium_free(secret->bytes); /* wipes; takes NULL */
    free(secret);
}
