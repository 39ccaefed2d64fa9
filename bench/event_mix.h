/*
 * bench/event_mix.h -- events of a realistic mix, for logs that are searched: the same seed gives the same events, but for ids and times.
 *
 * 2,000 robots of 20 organisations, 4,000 repositories, 400 networks in six countries, four regions. A few robots, repositories and digests have
 * most of the events. Robots use their own organisation; one event in 30 is denied, by one of twelve rules. One upload in ten fails.
 */
#pragma once

#include "audit/sequencer.h"

#define ACTORS 2000

/** Events one after the other, as those of one client. Its texts belong to the last record. */
struct mix_source {
    uint64_t seed, epoch;
    int64_t now_ms;        /* of the next decision; 0: the clock */
    struct permit *permit; /* of an upload whose outcome comes next */
    bool is_upload;        /* the event that is recorded now allows an upload */
    char subject[32], address[24];
    const char *country; /* of the address */
};

void mix_seed(struct mix_source *source, uint64_t seed, uint64_t epoch);
/** The outcome of the upload before, or the next request. */
void mix_next(struct mix_source *source, struct record *record);
/** Once the record is durable: releases what it owns, and keeps the permit of an upload. */
void mix_recorded(struct mix_source *source, struct record *record);
