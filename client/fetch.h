/*
 * client/fetch.h -- one blob from a registry into an open file, hashed as it comes, also over a line that breaks.
 */
#pragma once

#include "client/progress.h"
#include "client/session.h"
#include "crypto/digest.h"

struct fetch {
    struct session *session;
    const char *repository, *scope, *digest;
    const char *name;           /* of the file, for failures */
    int fd;
    uint64_t size, offset;      /* `offset` bytes are in the file and in the hasher */
    struct hasher *hasher;
    struct progress *progress;  /* or NULL */
};

/** Goes on until the file has `size` bytes. What a registry can't give now is tried again for a minute or two. */
RESULT fetch_blob(struct fetch *fetch, struct error *err);
/** Whether what came is what the digest says. ERROR_CORRUPT */
RESULT fetch_check(const struct fetch *fetch, struct error *err);
