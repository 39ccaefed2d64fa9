/*
 * client/hash.h -- hashes local files, before a push or to verify a pull.
 */
#pragma once

#include "client/progress.h"
#include "crypto/digest.h"

/**
 * Adds the first `length` bytes of the file to the hasher, in pieces. *hashed_out is smaller if the file is shorter.
 * `progress` may be NULL.
 */
RESULT hash_file(int fd, uint64_t length, struct hasher *hasher, struct progress *progress, uint64_t *hashed_out,
                 struct error *err);
