/*
 * registry/jobs/advisory_lock.h -- locks in PostgreSQL for work that only one gateway does at a time.
 *
 * Rule: taking a lock does not wait; a gateway that does not get it leaves the work to the holder. A lock belongs to
 * the connection: it ends with advisory_lock_release(), or when the connection breaks, also because its gateway was
 * killed.
 */
#pragma once

#include "storage/pg.h"

enum advisory_lock {
    LOCK_OF_UNWRAP_COUNT = 5, /* reading the count of sijil-keyd and recording it, so that recorded counts never decrease */
    LOCK_OF_ERASURES = 6,     /* erasing a person from the log (gateway/background/erasures.h) */
    LOCK_OF_HOLDS = 7         /* writing the rows of signed holds (gateway/background/holds.h) */
};

RESULT advisory_lock_take(struct pg *pg, enum advisory_lock lock, bool *is_ours_out, struct error *err);
/** For work of milliseconds, which a caller needs done: waits for the holder. */
RESULT advisory_lock_wait(struct pg *pg, enum advisory_lock lock, struct error *err);
RESULT advisory_lock_release(struct pg *pg, enum advisory_lock lock, struct error *err);
