/*
 * gateway/background/mint_watch.h -- finds tokens that sijil-keyd signed without an event in the log (docs/keys.md).
 *
 * A token is recorded before it is signed. So tokens beyond the recorded ones were requested by another program.
 */
#pragma once

#include "audit/query.h"
#include "crypto/keyd_client.h"

/** Zero-initialised; used by one thread. */
struct mint_watch {
    struct audit_mints recorded; /* of the entries before `next` */
    uint64_t next;
    struct keyd_identity said; /* keyd's counts before the counting began */
    bool is_behind;            /* some entries of that time are not counted yet */
    uint64_t logged;           /* the number in the newest log line of this gateway */
};

/** The number of tokens that no event explains. */
uint64_t mints_unexplained(const struct keyd_identity *identity, const struct audit_mints *recorded);
/** Counts some more entries, and sets the metric when all are counted. True: there are more to count. Blocks. */
bool mint_watch_check(struct mint_watch *watch, struct keyd_client *keyd, struct pg *pg);
