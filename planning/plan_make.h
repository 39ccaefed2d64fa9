/*
 * planning/plan_make.h -- makes a plan: what a proposed policy set would change (docs/policies.md, "What a set would change").
 *
 * Rule: it needs no permit, so no code that serves a request may include this (tests/lint/closed_headers.txt). The job that makes a plan has one.
 */
#pragma once

#include "planning/plan_limits.h"
#include "policy/decider/decider.h"
#include "storage/pg.h"

extern const struct pg_table plan_table;

enum plan_phase { PLAN_OF_EVENTS, PLAN_OF_CONTENT, PLAN_OF_RUNS };

struct plan_source {
    struct decider *decider;
    struct pg *pg;      /* with plan_table */
    struct bytes input; /* {"days": N, "set": the document without signature}, canonical */
    int64_t now_ms;     /* the moment of all decisions */
    void *context;
    /** Called several times a second. False: stop. */
    bool (*go_on)(void *context, enum plan_phase phase, uint64_t done, uint64_t total);
};
/**
 * Appends the plan as canonical JSON. *is_whole_out false: it was stopped, and nothing is appended. ERROR_INVALID: the input is no set. ERROR_UNAVAILABLE:
 * try again later.
 */
RESULT plan_make(const struct plan_source *source, struct buffer *plan, bool *is_whole_out, struct error *err)
    __attribute__((nonnull));
