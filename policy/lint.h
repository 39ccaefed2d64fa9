/*
 * policy/lint.h -- what is probably wrong in a policy set: rules that decide nothing, scopes in which nothing is allowed, names that are nowhere, and
 * dates that have come or come soon.
 *
 * Pure, as policy/evaluate.h. That a rule decides nothing is proven over all names, labels, targets and times from `now_us` on.
 */
#pragma once

#include "policy/set.h"

#define POLICY_LINT_STEPS_MAX 2000000000 /* of the solver, for one set: half a minute */
#define POLICY_LINT_DAYS      30         /* what ends within them ends soon */

enum policy_finding_level { FINDING_NOTE, FINDING_WARNING, FINDING_ERROR };

/* constant, code, level, what to do */
#define POLICY_FINDINGS(X)                                                                                                   \
    X(FINDING_NEVER_MATCHES, "never-matches", FINDING_WARNING,                                                               \
      "no label of content in its reach meets `when`: change `when`, or remove the rule")                                    \
    X(FINDING_NEVER_DENIES, "never-denies", FINDING_WARNING,                                                                 \
      "its condition is always met: make it stricter, or remove the rule")                                                   \
    X(FINDING_NEVER_ASKED, "never-asked", FINDING_WARNING,                                                                   \
      "the registry asks nothing of it under these operations: name ingest as well, or remove the rule")                     \
    X(FINDING_SHADOWED, "shadowed", FINDING_WARNING, "other rules do all that it does: remove it, or make it do more")       \
    X(FINDING_NEVER_ALLOWS, "never-allows", FINDING_WARNING,                                                                 \
      "what it permits is denied in any case: change the rules that deny it, or remove it")                                  \
    X(FINDING_CONTRADICTED, "contradicted", FINDING_WARNING,                                                                 \
      "change the rules that deny it, or take the operation out of the permit")                                              \
    X(FINDING_NOTHING_ALLOWED, "nothing-allowed", FINDING_ERROR,                                                             \
      "add a permit, or resolve the contradiction between the rules of this scope")                                          \
    X(FINDING_NOT_PERMITTED, "not-permitted", FINDING_NOTE, "add a permit, if content shall be here")                        \
    X(FINDING_NO_REGION, "no-region", FINDING_WARNING,                                                                       \
      "no region of the catalogue may take content here: add a region, or change the rules")                                 \
    X(FINDING_RETENTION, "retention-conflict", FINDING_ERROR,                                                                \
      "make the shortest maximum of retention longer than the longest minimum")                                              \
    X(FINDING_UNKNOWN_GROUP, "unknown-group", FINDING_ERROR, "add the group to `groups`, of that kind, or correct its name") \
    X(FINDING_UNKNOWN_REGION, "unknown-region", FINDING_ERROR, "add the region or network to the set, or correct its name")  \
    X(FINDING_UNKNOWN_POLICY, "unknown-policy", FINDING_ERROR, "name a policy, a version and rules that are in this set")    \
    X(FINDING_UNKNOWN_REGIME, "unknown-regime", FINDING_WARNING,                                                             \
      "no region, network or group has it: correct its name, or add it where it belongs")                                    \
    X(FINDING_UNUSED_GROUP, "unused-group", FINDING_NOTE, "no rule names it: remove it, or name it in a rule")               \
    X(FINDING_LIFTS_NOTHING, "lifts-nothing", FINDING_WARNING,                                                               \
      "the exception does not meet its type: approvals, evidence, days, rules")                                              \
    X(FINDING_EXPIRED, "expired", FINDING_WARNING, "review it and set a new date, or remove it")                             \
    X(FINDING_ENDS_SOON, "ends-soon", FINDING_WARNING, "review it before that day")                                          \
    X(FINDING_NOT_YET, "not-yet", FINDING_NOTE, "it is not in force before that time")                                       \
    X(FINDING_NO_PROJECT, "no-project", FINDING_WARNING,                                                                     \
      "no project of the registry is in this scope: correct it, or remove it")                                               \
    X(FINDING_NEARLY_FULL, "nearly-full", FINDING_WARNING, "join policies of equal scopes: one has up to 256 rules")         \
    X(FINDING_UNFINISHED, "unfinished", FINDING_WARNING,                                                                     \
      "the set is too large to look at all of it: join policies whose scopes overlap, or have it linted in parts")
enum policy_finding_code {
#define X(constant, code, level, way_out) constant,
    POLICY_FINDINGS(X)
#undef X
};

/* Texts are "" if there is nothing to say, and live as long as the findings. */
struct policy_finding {
    enum policy_finding_code code;
    const char *policy; /* "health-ae@3" */
    const char *rule;
    const char *about; /* a scope, a group, an exception, a region */
    const char *what;  /* a sentence */
};

struct policy_linted {
    const struct policy_set *set;
    int64_t now_us;
    unsigned ending_days;
    uint64_t steps_max; /* 0: POLICY_LINT_STEPS_MAX */
    /* Names of all projects of the registry, for scopes that match none; NULL: they are not known. */
    const char *const *projects;
    size_t project_count;
};

struct policy_findings;

/** ERROR_NO_MEMORY alone. */
RESULT policy_lint(const struct policy_linted *linted, struct policy_findings **findings_out, struct error *err);
size_t policy_findings_count(const struct policy_findings *findings);
/** Errors first, then in the order of the set. */
const struct policy_finding *policy_findings_at(const struct policy_findings *findings, size_t index);
const char *policy_finding_name(enum policy_finding_code code);
const char *policy_finding_way_out(enum policy_finding_code code);
enum policy_finding_level policy_finding_level(enum policy_finding_code code);
void policy_findings_free(struct policy_findings *findings);
DEFINE_OWNED(policy_findings);
