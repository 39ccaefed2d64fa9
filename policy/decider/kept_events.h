/*
 * policy/decider/kept_events.h -- until when policies keep the events of a person: the duty audit_retain_min_days (docs/erasure.md).
 */
#pragma once

#include "audit/erasure.h"
#include "policy/decider/decider.h"

struct kept_query {
    const struct permit *permit;
    enum action action;    /* of the permit */
    struct pg *pg;         /* with audit_query_table */
    const char *pseudonym; /* of the person */
    int64_t now_ms;
};
struct kept_events {
    bool are_kept;                    /* now */
    int64_t until_ms;                 /* 0: no policy keeps them */
    char rule[65], policy[80];        /* that keep them the longest; of an exception the type that adds the duty */
    char name[RESOURCE_NAME_MAX + 1]; /* that the event is about */
};
#define KEPT_LOOKED_AT 20000 /* newest events; older ones count as kept by the longest duty of the set */
/**
 * Each event counts for as long as the policies of now demand, for any operation on the name that it is about. Of a name whose project is gone, or that has
 * no label, each rule counts of the policies in whose scope it is, or that follow labels. ERROR_UNAVAILABLE while the policies are not known; ERROR_LIMIT.
 */
RESULT decider_keeps_events(struct decider *decider, const struct kept_query *query, struct kept_events *kept_out,
                            struct error *err) __attribute__((nonnull));
