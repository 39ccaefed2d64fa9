/*
 * audit/decision_make.h -- how the decider makes a decision.
 *
 * Outside audit/ only policy/, tests and benches may include this (tests/lint/layers.sh): code that can fill in this struct
 * can grant any right.
 */
#pragma once

#include "audit/decision.h"

#define DECISION_USES_MAX 4 /* exceptions that one request may use: what needs more is denied */

/** An exception of the policies without which the request would be denied. The transaction of its event counts the use. */
struct exception_use {
    uint8_t key[32]; /* SHA-256 of the exception */
    char id[65];
    struct uuid project, organisation;
    int64_t uses; /* as many as the exception allows */
    bool is_held; /* the request's own event has counted it before: this is a later decision of the same request */
};

/** All parts of a decision. Texts are copied. */
struct decision_parts {
    enum verdict verdict;
    uint64_t epoch;
    char id[72], policy_digest[72];
    size_t pair_count;
    struct action_pair pairs[ACTION_PAIRS_MAX]; /* all of one organisation, or of the registry: asserted */
    /**
     * Set: the decision depends only on the registry and on these organisations. So it becomes stale only by a change in one
     * of them after `epoch`. Not set: any change makes the decision stale, which is always safe.
     */
    bool is_partial;
    size_t organisation_count;
    struct uuid organisations[ACTION_PAIRS_MAX + 1]; /* of each resource, and of the principal */
    /** With is_partial: what it allows stays allowed when somebody gets a role, so such a change (change->only_gives) does not make it stale. */
    bool outlasts_grants;
    bool is_of_server; /* it depends on policies, and on nobody's rights: the event names no person */
    size_t denial_count;
    struct denial denials[DENIALS_MAX];
    size_t use_count;
    struct exception_use uses[DECISION_USES_MAX];
    /** For each pair the facts that the decision is made from, as they are stored for a replay (docs/formats/audit-log.md
     *  section 18), and the time of the decision by this gateway's clock. Either all pairs have facts or none has; a
     *  decision without evaluation has none. Facts name no person. */
    struct bytes facts[ACTION_PAIRS_MAX];
    int64_t decided_ms;
};

/** Copies `parts`, with the facts. A decision that allows has no denials; any other has at least one. ERROR_NO_MEMORY. */
RESULT decision_make(const struct decision_parts *parts, struct decision **decision_out, struct error *err);
