/*
 * client/upload.h -- one blob to the registry, also over a line that breaks.
 *
 * What is small goes in one POST, where the registry takes that ("Single POST"). All else goes into a session, whose Location
 * is kept in the user's cache folder until the blob is complete, so that another `sijil push` of the same file goes on where
 * this one stopped. OCI Distribution 1.1.1, "Pushing a blob monolithically" and "in chunks".
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
    atomic_bool *wants_sessions;  /* learned by one upload, kept for the others: the registry takes no blob with its POST */
};

/** Nothing is sent if the registry has the blob already. */
RESULT upload_blob(const struct upload *upload, struct error *err);
/** Asks whether the repository has the blob: of `upload`, session, scope, repository and digest count. */
RESULT upload_is_there(const struct upload *upload, bool *there_out, struct error *err);
