/*
 * policy/decider/plan.h -- what a proposed policy set would change: decisions under it, and under the set in force, side by side.
 *
 * Both are made by the evaluator that decides requests, on the names and labels of one moment. Rule: nothing here allows anything. It needs no
 * permit, so no code that serves a request may include this (tests/lint/closed_headers.txt).
 */
#pragma once

#include "policy/decider/decider.h"
#include "policy/decider/plan_limits.h"
#include "policy/set.h"

struct policy_plan;

/** Which repositories exist: these keep labels that a set takes away. */
struct plan_names {
    void *context;
    struct result (*has)(void *context, const char *name, bool *has_out, struct error *err);
};
/**
 * Takes the newest snapshot. `now_ms`: the moment of all decisions. `names` must outlive the plan; its failures are those of the functions below.
 * ERROR_UNAVAILABLE: this gateway can't tell which policies are in force.
 */
RESULT policy_plan_open(struct decider *decider, const struct policy_set *proposed, int64_t now_ms,
                        const struct plan_names *names, struct policy_plan **plan_out, struct error *err)
    __attribute__((nonnull));
void policy_plan_free(struct policy_plan *plan);
DEFINE_OWNED(policy_plan);
/** The set in force; NULL if there is none. */
const struct policy_set *policy_plan_base(const struct policy_plan *plan);
/** Whether a decision may depend on the digest of the content: one of the sets has exceptions. */
bool policy_plan_asks_digests(const struct policy_plan *plan);

enum plan_change {
    PLAN_ALLOWED, /* by both sets */
    PLAN_DENIED,  /* by both, or by the rights, which no set changes */
    PLAN_NEWLY_DENIED,
    PLAN_NEWLY_ALLOWED,
    PLAN_UNDECIDED, /* `rule` says why */
    PLAN_CHANGES
};

/** A denial: of the proposed set, if it is PLAN_NEWLY_DENIED; of the set in force, if it is PLAN_NEWLY_ALLOWED. */
struct plan_answer {
    enum plan_change change;
    const char *operation; /* "" if no operation was asked; static */
    char scope[RESOURCE_NAME_MAX + 1], target[256], rule[65], policy[80];
    bool is_of_name; /* of this name alone, not of its class: it depends on whether the repository exists */
};

/** A target of an event of the log. */
struct plan_event {
    const char *name, *digest;     /* digest NULL: the event has none */
    struct bytes facts;            /* that the event commits to */
    const struct policy_set *then; /* that decided it: the client was in one of its networks; NULL: not known */
};
/** Decides it again under both sets. ERROR_NO_MEMORY: everything else is an answer. */
RESULT policy_plan_event(const struct policy_plan *plan, const struct plan_event *event, struct plan_answer *answer_out,
                         struct error *err) __attribute__((nonnull));

/**
 * Appends a text that is the same for names which the same facts decide alike: for an event of one of them, policy_plan_event() answers as for the
 * others, but for the `scope` of the answer, unless this says that it is of the name. ERROR_NO_MEMORY, and the failures of `names`.
 */
RESULT policy_plan_class(const struct policy_plan *plan, const char *name, struct buffer *text, struct error *err)
    __attribute__((nonnull));

/** Whether what the repository `name` has may be in its region: `ingest`, `metadata` and `log`. ERROR_NO_MEMORY. */
RESULT policy_plan_place(const struct policy_plan *plan, const char *name, const char *region, struct plan_answer *answer_out,
                         struct error *err) __attribute__((nonnull));
/** Appends the first regions of the proposed set that allow `ingest` there, as texts. ERROR_NO_MEMORY. */
RESULT policy_plan_regions(const struct policy_plan *plan, const char *name, json_t *regions, struct error *err)
    __attribute__((nonnull));
/** Whether a run may use the repository in this region, and what the proposed set demands of the run. ERROR_NO_MEMORY. */
struct plan_train {
    struct plan_answer answer;
    int64_t approvals;
    bool signed_request;
};
RESULT policy_plan_train(const struct policy_plan *plan, const char *name, const char *region, struct plan_train *train_out,
                         struct error *err) __attribute__((nonnull));

/** The pins by which SYS-PIN-MISSING would deny the repository under the proposed set, and does not now. Views. ERROR_NO_MEMORY. */
struct plan_pins {
    size_t count;
    const char *each[LABEL_PINS_MAX];
};
RESULT policy_plan_pins(const struct policy_plan *plan, const char *name, struct plan_pins *pins_out, struct error *err)
    __attribute__((nonnull));
/** Appends the label that the repository has now, as canonical JSON; "null" without one. */
RESULT policy_plan_label(const struct policy_plan *plan, const char *name, struct buffer *text, struct error *err)
    __attribute__((nonnull));

/** Appends at most PLAN_EXCEPTIONS_MAX exceptions of both sets that no longer fit the proposed one: {"exception", "policy", "project", "why"}. ERROR_NO_MEMORY. */
RESULT policy_plan_exceptions(const struct policy_plan *plan, json_t *list, struct error *err) __attribute__((nonnull));
