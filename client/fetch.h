/*
 * client/fetch.h -- fetches one blob from a registry into an open file, hashes it as it arrives, and resumes after a broken connection.
 */
#pragma once

#include "client/progress.h"
#include "client/session.h"
#include "crypto/digest.h"

struct fetch {
    struct session *session;
    const char *repository, *scope, *digest;
    const char *name; /* of the file, for failures */
    int fd;
    uint64_t size, offset; /* `offset` bytes are in the file and in the hasher */
    struct hasher *hasher;
    struct progress *progress; /* or NULL */
};

/** Goes on until the file has `size` bytes. Retries for a minute or two while the registry is unavailable. */
RESULT fetch_blob(struct fetch *fetch, struct error *err);
/** Compares the fetched bytes with the digest. ERROR_CORRUPT */
RESULT fetch_check(const struct fetch *fetch, struct error *err);
