/*
 * registry/event_quota.h -- the requests that each project may have recorded in a minute, counted for all gateways together.
 *
 * Rule: only gateway/pipeline/event_quota.c may include this (tests/lint/closed_headers.txt). It asks before a request is decided, so
 * there is no permit yet, and no client sees a count.
 */
#pragma once

#include "registry/quota.h"

/** A project's quota of events; QUOTA_NONE if it has none. */
struct quota_events {
    struct uuid project;
    int64_t most;
};
/** At most `capacity` projects that have such a quota, in the order of their ids. */
RESULT quota_events_list(struct pg *pg, struct quota_events *events_out, size_t capacity, size_t *count_out, struct error *err);
/** The part of a minute's quota that a gateway has taken. */
struct quota_portion {
    int64_t count;   /* 0: nothing is left for any gateway */
    int64_t others;  /* what is left for all gateways beside it */
    int64_t left_ms; /* to the end of the minute, from the time when the statement ran, which is after it was sent */
};
/** Takes up to `portion` of the requests that are left in this minute. One statement, outside any transaction. */
RESULT quota_events_take(struct pg *pg, const struct quota_events *events, int64_t portion, struct quota_portion *portion_out,
                         struct error *err);
