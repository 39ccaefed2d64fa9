/*
 * gateway/background/erasures.h -- erases persons from the log, after two persons have signed it (docs/erasure.md).
 *
 * The work begins with the documents in force and not with a request, so any gateway goes on with what a killed one has begun: the row of an
 * erasure says whether the key is destroyed, and what is left is found by the pseudonym. One gateway works on it at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gateway;
struct permit;
struct pg;

/** Zero-initialised; used by one thread. */
struct erasures {
    char pseudonym[65];    /* of the person that is being erased; "" : nobody */
    struct permit *permit; /* for subject.erase of this person */
    uint64_t next;         /* the event to go on at */
    uint64_t from;         /* the place of the document that is tried next */
    bool is_refused;       /* some documents before that one were tried in vain */
    bool is_idle;          /* all documents that were seen are done */
    uint64_t seen;         /* the sum of the numbers of their events */
    int64_t retry_ms;      /* after a failure: not before this time; monotonic */
};

/** Some of the work: a person's key, or the sealed parts of some hundred events. True: there is more to do. Failures are logged. Blocks. */
bool erasures_step(struct erasures *erasures, struct gateway *gateway, struct pg *pg) __attribute__((nonnull));
void erasures_done(struct erasures *erasures) __attribute__((nonnull));
