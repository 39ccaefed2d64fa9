/*
 * policy/decider/place.h -- whether what a repository has may rest at its home (docs/policies.md, "Content out of place").
 *
 * Rule: nobody's rights are asked, so no code that serves a request may include this (tests/lint/closed_headers.txt). Only a rule of a policy that restricts, a `require` or a
 * `deny`, breaks a place: what no rule permits any more gets nothing new, and stays.
 */
#pragma once

#include "policy/decider/decider.h"

#define PLACE_RULE "SYS-MISPLACED"

struct place_answer {
    bool is_broken;
    const char *operation;     /* `ingest`, `metadata` or `log`; static */
    char rule[65], policy[80]; /* that denies it */
};
/** In memory. Exceptions count that are for no digest and whose uses are not counted. ERROR_UNAVAILABLE while the policies are not known; ERROR_LIMIT. */
RESULT decider_place(struct decider *decider, const char *name, int64_t now_ms, struct place_answer *answer_out,
                     struct error *err);
/** The same as a decision with its facts, for the log: placement.check. A denial is a decision. The caller owns *decision_out. */
RESULT decider_decide_place(struct decider *decider, const struct resource *where, int64_t now_ms, struct decision **decision_out,
                            struct error *err);

/** Stands for the names, labels and policies that this gateway knows: decider_copies_version(), and the restrictions of organisations. */
struct place_version {
    uint64_t version;
    int64_t restrictions;
};
struct place_version decider_place_version(struct decider *decider);
