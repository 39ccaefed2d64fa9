/*
 * audit/tally_priv.h -- counts requests by actor, action, network and target, for an event that stands for many requests.
 *
 * Every request is counted in exactly one row. No count is ever lost, because rows are never replaced. A request is counted
 * in a row for its target. If no such row is free, or its source has used up its share, it is counted in a row for all other
 * targets of its source. If no such row is free either, it is counted in the rest. Memory is constant.
 *
 * An attacker may send many requests first, to hide one later. So some rows are reserved for requests that would change
 * something. Before it counts a request, the caller asks tally_names(); if the answer is no, it begins another event if it can.
 */
#pragma once

#include <stdbool.h>

#include "base/bytes.h"

#define TALLY_TARGETS      40 /* rows that name a target ... */
#define TALLY_READERS      28 /* ... of which this many may be for requests that only read, or ask for a token */
#define TALLY_PER_SOURCE   10 /* ... and this many, of either kind, for one source */
#define TALLY_SOURCES      23 /* rows of a source for all its other targets; with the rest, 64 rows in all */
#define TALLY_ROWS         (TALLY_TARGETS + TALLY_SOURCES)
#define TALLY_NETWORK_SIZE 64 /* "2001:db8:1:100::/56", "unix" */
#define TALLY_TARGET_SIZE  256

struct tally_row {
    const char *action; /* the name in the log; static */
    bool only_reads;
    char actor[65];                   /* pseudonym; "anonymous" */
    char network[TALLY_NETWORK_SIZE]; /* of the address: 24 bits of IPv4, 56 of IPv6 */
    char target[TALLY_TARGET_SIZE];   /* as the request named it; "" in a row for all other targets */
    uint64_t count;
};

struct tally {
    size_t target_count, source_count;
    struct tally_row targets[TALLY_TARGETS], sources[TALLY_SOURCES];
    uint64_t rest;
};

/** Counts one request. Texts are copied; a byte that is not plain ASCII becomes '?', as in a leaf. */
void tally_add(struct tally *tally, const char *action, const char *actor, const char *address, const char *target);
/** Whether the request would have a row that names its target. */
bool tally_names(const struct tally *tally, const char *action, const char *actor, const char *address, const char *target);
/** The number of requests counted. */
uint64_t tally_total(const struct tally *tally);
/** Appends {"rest":N,"rows":[...]}, canonical JSON, at most TALLY_TEXT_MAX bytes. */
RESULT tally_write(const struct tally *tally, struct buffer *text, struct error *err);
#define TALLY_TEXT_MAX 49152
