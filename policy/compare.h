/*
 * policy/compare.h -- what one policy set allows that another denies, found by analysis, each difference with a witness.
 *
 * Pure, as policy/evaluate.h. The analysis covers every operation, name, label, target and time from `now_us` on, not only
 * those that exist. A loosening that exists is always among the differences, or a POLICY_DOUBT stands for it: where the
 * analysis would need more than its maximum of steps it takes no sample, and doubt counts as loosening. Each witness was
 * given to the evaluator with both sets, which confirmed the difference.
 */
#pragma once

#include "policy/set.h"

#define POLICY_COMPARE_STEPS_MAX 200000000 /* of the solver, for all questions of one comparison: some seconds */
#define POLICY_DIFFERENCES_MAX   4096      /* in one list; POLICY_DOUBT stands for the rest */

/* constant, name in JSON, whether it loosens */
#define POLICY_CHANGES(X)                                                                                                       \
    X(POLICY_NEWLY_ALLOWED, "newly-allowed", true)                                                                              \
    X(POLICY_DUTY_FALLS, "duty-falls", true)               /* both allow, and the new set demands less: a shorter retention */  \
    X(POLICY_DECLASSIFIED, "declassified", true)           /* labels that stayed from earlier sets lose their effect */         \
    X(POLICY_TYPE_WIDENED, "exception-type-widened", true) /* exceptions may lift what none could lift before */                \
    X(POLICY_RECORD_DEMANDS_LESS, "record-demands-less", true) /* of a region: another store, place of keys or site would do */ \
    X(POLICY_DOUBT, "doubt", true)                             /* the analysis did not finish: see `detail` */                  \
    X(POLICY_NEWLY_DENIED, "newly-denied", false)                                                                               \
    X(POLICY_DUTY_RISES, "duty-rises", false)
enum policy_change {
#define X(constant, name, loosens) constant,
    POLICY_CHANGES(X)
#undef X
};

/**
 * One difference. Texts are "" if there is nothing to say, never NULL, and live as long as the comparison.
 * `witness` is NULL for changes that documents alone show (POLICY_DECLASSIFIED, POLICY_TYPE_WIDENED, POLICY_RECORD_DEMANDS_LESS, POLICY_DOUBT). Else:
 * {"op", "scope", "label": the content's own label or null, "target_id", "now", "old": facts, "new": facts}. Both facts have
 * the form that policy_facts_read() takes; they differ in the effective label and, if the catalogue differs, in the target.
 */
struct policy_difference {
    enum policy_change change;
    uint32_t operations;    /* bits of enum policy_operation: the difference exists for each of them */
    const char *scope;      /* a name; it stands for all names that the same patterns match */
    const char *target_id;  /* the region, or network, whose facts differ; "": any target with the facts of the witness */
    int64_t from_us;        /* the first moment with this difference */
    const char *old_policy; /* "health-ae@3" or "sys" */
    const char *old_rule;   /* newly allowed: denied there. newly denied: permitted there. Duties: demanded it */
    const char *new_policy;
    const char *new_rule; /* the same in the new set */
    const char *detail;   /* the duty that falls or rises, or why there is doubt, for a person */
    const json_t *witness;
};

struct policy_compared {
    const struct policy_set *old_set, *new_set;
    int64_t now_us;
    /* Ids of policies that no set of the registry ever had, so no label has their pin (SYS-PIN-MISSING is no difference). */
    size_t unused_id_count;
    const char *const *unused_ids;
    uint64_t steps_max; /* 0: POLICY_COMPARE_STEPS_MAX */
};

struct policy_comparison;

/** Compares. Both sets must outlive the comparison. ERROR_NO_MEMORY alone: a set that is too large is a POLICY_DOUBT. */
RESULT policy_compare(const struct policy_compared *compared, struct policy_comparison **comparison_out, struct error *err);
size_t policy_comparison_count(const struct policy_comparison *comparison);
/** Loosenings first; each kind in the order of rules. */
const struct policy_difference *policy_comparison_at(const struct policy_comparison *comparison, size_t index);
/** Whether one of the differences loosens. */
bool policy_comparison_is_loosening(const struct policy_comparison *comparison);
/** "newly-allowed", ... */
const char *policy_change_name(enum policy_change change);
bool policy_change_loosens(enum policy_change change);
/** Appends {"loosening": bool, "differences": [...]} as canonical JSON; operations are names, times RFC 3339. */
RESULT policy_comparison_write(const struct policy_comparison *comparison, struct buffer *json, struct error *err);
void policy_comparison_free(struct policy_comparison *comparison);
DEFINE_OWNED(policy_comparison);
