/*
 * client/upload.h -- uploads one blob to the registry, and resumes after a broken connection.
 *
 * A small blob goes in one POST, if the registry accepts that ("Single POST"). Other blobs go into an upload session. Its Location is kept in
 * the caller's folder of notes until the blob is complete, so that another run resumes it. OCI Distribution 1.1.1, "Pushing a blob
 * monolithically" and "in chunks".
 */
#pragma once

#include "client/progress.h"
#include "client/session.h"

struct upload {
    struct session *session;
    const char *host, *repository, *scope, *label, *digest;
    int fd;
    uint64_t size;
    const char *notes; /* folder for Locations, which no other user can read; NULL: a later run starts over */
    bool quiet;
    bool always;                  /* sends also what the registry has: a run's result has only what its own lease has uploaded */
    struct progress_group *group; /* or NULL */
    atomic_bool *wants_sessions;  /* shared by all uploads: the registry accepts no blob in a POST */
};

/** Sends nothing if the registry has the blob, unless `always`. */
RESULT upload_blob(const struct upload *upload, struct error *err);
/** Asks whether the repository has the blob. Uses session, scope, repository and digest of `upload`. */
RESULT upload_is_there(const struct upload *upload, bool *there_out, struct error *err);
