/*
 * audit/decision.h -- what was decided, and why.
 *
 * A decision is made only by the decider (policy/decider.c, through audit/decision_make.h, which the lint keeps
 * others from including). It does not permit anything yet: recording it does (audit/sequencer.h).
 */
#pragma once

#include "audit/action.h"
#include "base/owned.h"

struct decision;

enum verdict {
    VERDICT_ALLOW,
    VERDICT_DENY,     /* 403: the caller may know that the thing exists, and is told why not */
    VERDICT_HIDE,     /* 404, the same as for a thing that does not exist; the log has the true reason */
    VERDICT_CHALLENGE /* 401: no credential, or one that is not valid (any more) */
};

/** Why not: what the caller sees in a 403, and what the log has of any denial. */
struct denial {
    char rule[65];      /* "H-READ-AE", "SYS-NO-BINDING" */
    char policy[80];    /* "health-ae@3", "sys" for what no document says */
    char message[304];  /* one sentence for a person, with the way out */
    char missing[128];  /* names of the facts that were unknown: "geo, assurance"; "" if none */
    char failed[128];   /* of those that are known, and not what the rule asks for */
};
#define DENIALS_MAX 8 /* shown and recorded; a ninth changes nothing for anybody */

enum verdict decision_verdict(const struct decision *decision);
/** "sha256:..." over all that entered the decision; the caller sees it, the log keeps it. */
const char *decision_id(const struct decision *decision);
/** "sha256:..." of the policy set; "" when no policy was asked. */
const char *decision_policy_digest(const struct decision *decision);
/** The authorization epoch of the snapshot that it was made from. */
uint64_t decision_epoch(const struct decision *decision);
size_t decision_pair_count(const struct decision *decision);
const struct action_pair *decision_pair(const struct decision *decision, size_t index);
size_t decision_denial_count(const struct decision *decision);
const struct denial *decision_denial(const struct decision *decision, size_t index);

void decision_free(struct decision *decision);
DEFINE_OWNED(decision);
