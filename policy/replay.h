/*
 * policy/replay.h -- making a recorded decision again, from its event, the facts that the event commits to, and the policy set
 * that was in force (docs/formats/audit-log.md section 18).
 *
 * Pure, as the evaluator is. What is made again is what policies said; what roles said is taken from the facts, because roles are no
 * signed documents.
 */
#pragma once

#include "audit/format/leaf.h"
#include "policy/set.h"

enum replay_verdict {
    REPLAY_AGREES,
    REPLAY_DIFFERS,   /* also facts that are not those that the event commits to */
    REPLAY_IMPOSSIBLE /* nothing can be said */
};

struct replay_report {
    enum replay_verdict verdict;
    bool lacks_set;  /* REPLAY_IMPOSSIBLE, because the set that was in force is not at hand */
    char what[256];  /* what differs, or why nothing can be said; "" when it agrees */
};

/**
 * `facts` are of the event's targets in their order, leaf->facts_count of them; `set` has the digest leaf->reason.policy, or is NULL.
 * ERROR_NO_MEMORY only.
 */
RESULT policy_replay(const struct leaf *leaf, const struct bytes *facts, size_t facts_count, const struct policy_set *set,
                     struct replay_report *report_out, struct error *err);
