/*
 * gateway/background/mint_watch.h -- does the log explain all tokens that sijil-keyd signed? (docs/keys.md)
 *
 * A token is recorded before it is signed, so what keyd signed beyond that, some other program asked for.
 */
#pragma once

#include "audit/query.h"
#include "crypto/keyd_client.h"

/** Zero-initialised; one thread's. */
struct mint_watch {
    struct audit_mints recorded; /* of the entries before `next` */
    uint64_t next;
    struct keyd_identity said;   /* by keyd, before the counting began */
    bool is_behind;              /* entries that were there then are not counted yet */
    uint64_t told;               /* what the log of this gateway was told last */
};

/** How many tokens no event explains. */
uint64_t mints_unexplained(const struct keyd_identity *identity, const struct audit_mints *recorded);
/** Counts a little further, and sets the metric when all is counted. True: there is more to count. Blocks. */
bool mint_watch_look(struct mint_watch *watch, struct keyd_client *keyd, struct pg *pg);
