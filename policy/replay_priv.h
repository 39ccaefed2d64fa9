/* policy/replay_priv.h -- shared by the sources of a replay. */
#pragma once

#include "audit/decision.h"
#include "base/json.h"
#include "policy/compiled_priv.h"
#include "policy/replay.h"

#define REPLAY_FACTS_MAX ((size_t)32 * 1024) /* bytes of one pair: migrations/0037_decision_facts.sql */

/**
 * One replayed decision. Functions fail with ERROR_DENIED if something differs, and with ERROR_NOT_FOUND if it can't
 * be replayed.
 */
struct replay {
    const struct leaf *leaf;
    const struct policy_set *set;
    struct replay_restrictions *restrictions; /* NULL: none is at hand */
    uint64_t told_from;                       /* as in struct replay_base */
    bool is_missing, is_omitted, lacks_set, lacks_restriction;
    int64_t uses_max; /* the most uses that an exception of this decision allows; 0: it needs none */
    size_t denial_count;
    struct {
        char rule[sizeof((struct denial *)NULL)->rule], policy[sizeof((struct denial *)NULL)->policy];
    } denials[DENIALS_MAX]; /* each once, in the order in which the decision noted them */
};

/** Notes a denial, unless it is noted already. */
void replay_note(struct replay *replay, const char *rule, const char *policy);
/** Evaluates the policies for the entries in the facts of one target; `json` has passed the shape of facts. */
RESULT replay_entries(struct replay *replay, size_t target, const json_t *json, struct error *err);
