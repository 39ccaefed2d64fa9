/*
 * client/upload.h -- one blob to the registry, also over a line that breaks.
 *
 * The session's Location is kept in the user's cache folder until the blob is complete, so that another `sijil push`
 * of the same file goes on where this one stopped. OCI Distribution 1.1.1, "Pushing a blob in chunks".
 */
#pragma once

#include "client/progress.h"
#include "client/session.h"

struct upload {
    struct session *session;
    const char *host, *repository, *scope, *label, *digest;
    int fd;
    uint64_t size;
    bool quiet;
    struct progress_group *group; /* or NULL */
};

/** Nothing is sent if the registry has the blob already. */
RESULT upload_blob(const struct upload *upload, struct error *err);
