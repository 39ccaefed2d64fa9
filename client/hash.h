/*
 * client/hash.h -- what a file here holds, before it is pushed or taken for what was pulled.
 */
#pragma once

#include "client/progress.h"
#include "crypto/digest.h"

/**
 * Adds the first `length` bytes of the file to the hasher, in pieces. *hashed_out is less if the file ends before.
 * `progress` may be NULL.
 */
RESULT hash_file(int fd, uint64_t length, struct hasher *hasher, struct progress *progress, uint64_t *hashed_out,
                 struct error *err);
