/*
 * audit/tally_priv.h -- who asked for what, from where, and how often: what an event says that stands for many requests.
 *
 * Every request is counted in exactly one row, and no count is ever lost: rows are never replaced. When the rows for
 * single targets are taken, or one source has its part of them, a request is counted in a row of its source for all
 * other targets; when those are taken, too, in the rest. Memory is constant.
 *
 * Whoever wants to hide one request sends others before it. So some rows are kept for requests that would change something,
 * which those that only read can't take; and whoever counts asks tally_names() first, and begins another event when he can.
 */
#pragma once

#include <stdbool.h>

#include "base/bytes.h"

#define TALLY_TARGETS     40 /* rows that name a target ... */
#define TALLY_READERS     28 /* ... of which so many for requests that only read, or ask for a token */
#define TALLY_PER_SOURCE  10 /* ... and how many of either sort one source may have */
#define TALLY_SOURCES     23 /* rows of a source for all its other targets; with the rest, 64 in all */
#define TALLY_ROWS        (TALLY_TARGETS + TALLY_SOURCES)
#define TALLY_NETWORK_SIZE 64 /* "2001:db8:1:100::/56", "unix" */
#define TALLY_TARGET_SIZE 256

struct tally_row {
    const char *action;               /* as the log calls it; static */
    bool only_reads;
    char actor[65];                   /* pseudonym; "anonymous" */
    char network[TALLY_NETWORK_SIZE]; /* of the address: 24 bits of IPv4, 56 of IPv6 */
    char target[TALLY_TARGET_SIZE];   /* as it was named; "" in a row for all other targets */
    uint64_t count;
};

struct tally {
    size_t target_count, source_count;
    struct tally_row targets[TALLY_TARGETS], sources[TALLY_SOURCES];
    uint64_t rest;
};

/** One request. Texts are copied; what is not plain ASCII becomes '?', as in a leaf. */
void tally_add(struct tally *tally, const char *action, const char *actor, const char *address, const char *target);
/** Whether the request would have a row that names its target. */
bool tally_names(const struct tally *tally, const char *action, const char *actor, const char *address, const char *target);
/** All that was counted. */
uint64_t tally_total(const struct tally *tally);
/** Appends {"rest":N,"rows":[...]}, canonical JSON, at most TALLY_TEXT_MAX bytes. */
RESULT tally_write(const struct tally *tally, struct buffer *text, struct error *err);
#define TALLY_TEXT_MAX 49152
