/*
 * audit/decision.h -- the result of a decision, and its reasons.
 *
 * Only the decider makes decisions (policy/decider/decider.c, through audit/decision_make.h; the lint keeps other files from
 * including that). A decision permits nothing yet: recording it yields the permit (audit/sequencer.h).
 */
#pragma once

#include "audit/action.h"
#include "base/owned.h"

struct decision;

enum verdict {
    VERDICT_ALLOW,
    VERDICT_DENY,     /* 403: the caller may know that the thing exists, and is told why it is refused */
    VERDICT_HIDE,     /* 404, as for a thing that does not exist; the log has the true reason */
    VERDICT_CHALLENGE /* 401: no credential, or one that is not or no longer valid */
};

/** A reason for a denial. The caller sees it in a 403; the log has it for every denial. */
struct denial {
    char rule[65];     /* "H-READ-AE", "SYS-NO-BINDING" */
    char policy[80];   /* "health-ae@3"; "sys" for a rule that is in no document */
    char message[304]; /* one sentence for a person, with a remedy */
    char missing[128]; /* names of the facts that are unknown: "geo, assurance"; "" if none */
    char failed[128];  /* names of the facts that are known and contradict the rule */
};
#define DENIALS_MAX 8 /* shown and recorded; further denials would not help the caller */

enum verdict decision_verdict(const struct decision *decision);
/** "sha256:..." over everything that the decision is made from. The caller sees it, the log keeps it. */
const char *decision_id(const struct decision *decision);
/** "sha256:..." of the policy set; "" when no policy was evaluated. */
const char *decision_policy_digest(const struct decision *decision);
/** The authorization epoch of the snapshot that the decision is made from. */
uint64_t decision_epoch(const struct decision *decision);
size_t decision_pair_count(const struct decision *decision);
const struct action_pair *decision_pair(const struct decision *decision, size_t index);
size_t decision_denial_count(const struct decision *decision);
const struct denial *decision_denial(const struct decision *decision, size_t index);

void decision_free(struct decision *decision);
DEFINE_OWNED(decision);
