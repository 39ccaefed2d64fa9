/* policy/lint_priv.h -- findings while they are made. */
#pragma once

#include "policy/analysis_priv.h"
#include "policy/lint.h"

#define FINDINGS_MAX 4096 /* a set that has more has the same ones again and again */

struct policy_findings {
    struct arena *arena;
    size_t count, room;
    struct policy_finding *findings;
};

/** Copies the texts. NULL is "". ERROR_NO_MEMORY. */
RESULT findings_add(struct policy_findings *findings, const struct policy_finding *finding, struct error *err);
/** `what` as by printf. */
RESULT findings_say(struct policy_findings *findings, struct policy_finding finding, struct error *err, const char *what, ...)
    __attribute__((format(printf, 4, 5)));
/** lint_rules.c: rules that decide nothing, scopes in which nothing is allowed. */
RESULT lint_rules(struct policy_findings *findings, const struct policy_linted *linted, struct error *err);
/** lint_names.c: groups, regions, regimes, policies and projects that do not exist; dates. */
RESULT lint_names(struct policy_findings *findings, const struct policy_linted *linted, struct error *err);
/** lint_dates.c */
RESULT lint_dates(struct policy_findings *findings, const struct policy_linted *linted, struct error *err);
