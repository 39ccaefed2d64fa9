/*
 * policy/replay.h -- replays a recorded decision from its event, the facts that the event commits to, and the policy
 * set that was in force (docs/formats/audit-log.md section 18).
 *
 * Pure, like the evaluator. It evaluates the policies again. The result of the check of rights is taken from the
 * facts, because roles are not signed documents.
 */
#pragma once

#include "audit/format/leaf.h"
#include "policy/replay_restrictions.h"
#include "policy/set.h"

enum replay_verdict {
    REPLAY_AGREES,
    REPLAY_DIFFERS,   /* also if the facts are not those that the event commits to */
    REPLAY_IMPOSSIBLE /* it can't be replayed */
};

struct replay_report {
    enum replay_verdict verdict;
    bool is_missing;        /* REPLAY_IMPOSSIBLE, because facts that the event commits to are not at hand */
    bool is_omitted;        /* REPLAY_IMPOSSIBLE, because the event says that its facts were too large to keep */
    bool lacks_set;         /* REPLAY_IMPOSSIBLE, because the set that was in force is missing */
    bool lacks_restriction; /* REPLAY_IMPOSSIBLE, because a restriction of an organisation that it was decided on is missing */
    char what[256];         /* the difference, or why it can't be replayed; "" if it agrees */
};

struct replay_base {
    const struct policy_set *set;             /* has the digest leaf->reason.policy, or is NULL */
    struct replay_restrictions *restrictions; /* of organisations, that are at hand; NULL: none */
    uint64_t
        told_from; /* facts of events after this number name whom the duties want told: since a restriction is in force, all gateways write it. 0: not known */
};
/** `facts` has leaf->facts_count elements, in the order of the event's targets. ERROR_NO_MEMORY only. */
RESULT policy_replay(const struct leaf *leaf, const struct bytes *facts, size_t facts_count, const struct replay_base *base,
                     struct replay_report *report_out, struct error *err);
