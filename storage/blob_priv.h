/*
 * storage/blob_priv.h -- shared by the writer and the reader of blobs.
 */
#pragma once

#include <stdatomic.h>

#include "base/blocks.h"
#include "storage/sjb1_priv.h"

#define BLOB_MEMORY_SIZE ((size_t)5 * SJB1_RECORD_SIZE) /* a reader needs as much; a writer's block is smaller */

struct blob_store {
    struct driver *driver; /* owned */
    const struct driver_operations *operations;
    struct blob_random random;
    struct blocks *blocks; /* owned; blocks of BLOB_MEMORY_SIZE, for writers and readers */
    char region[BLOB_REGION_MAX + 1];
    atomic_bool is_closed; /* blob_store_close() */
};

/** ERROR_UNAVAILABLE for a closed store. */
RESULT blob_store_require_open(const struct blob_store *store, struct error *err);

void blob_store_random(struct blob_store *store, uint8_t *out, size_t length);
/** ERROR_INVALID if the identity is not of this store's region. */
RESULT blob_store_owns(const struct blob_store *store, const struct blob_identity *identity, struct error *err);

#define CHECKPOINT_NAME_SIZE 34 /* 'c', 32 hex digits, '\0' */
/** A checkpoint's name is made of its digest, so names are unique. */
void blob_checkpoint_name(const uint8_t digest[SHA256_SIZE], char out[CHECKPOINT_NAME_SIZE]);
