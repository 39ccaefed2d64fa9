/*
 * crypto/secret.h -- memory for secrets: locked, guarded, wiped on release.
 */
#pragma once

#include "base/bytes.h"
#include "base/owned.h"

/** In sodium_malloc() memory: mlocked, between guard pages, not in core dumps. Small secrets share such memory. */
struct secret {
    size_t length;
    uint8_t *bytes;
};

/** `length` zero bytes. ERROR_NO_MEMORY, also if the lock limit (RLIMIT_MEMLOCK) is too small. */
RESULT secret_new(size_t length, struct secret **secret_out, struct error *err);
/** `length` new random bytes. */
RESULT secret_random(size_t length, struct secret **secret_out, struct error *err);
/** A copy; the caller wipes the source. */
RESULT secret_copy(struct bytes bytes, struct secret **secret_out, struct error *err);
struct bytes secret_bytes(const struct secret *secret);
/** Wipes memory that is not a struct secret; the compiler can't optimise this away. */
void secret_wipe(void *memory, size_t length);

void secret_free(struct secret *secret);
DEFINE_OWNED(secret);
