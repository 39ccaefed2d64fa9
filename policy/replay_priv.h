/*
 * policy/replay_priv.h -- facts as a replay reads them.
 */
#pragma once

#include "audit/decision.h"
#include "base/json.h"
#include "policy/compiled_priv.h"
#include "policy/replay.h"

#define REPLAY_FACTS_MAX ((size_t)32 * 1024) /* bytes of one pair: migrations/0037_decision_facts.sql */

/** One decision that is made again. Failures: ERROR_DENIED says what differs, ERROR_NOT_FOUND why nothing can be said. */
struct replay {
    const struct leaf *leaf;
    const struct policy_set *set;
    bool lacks_set;
    size_t denial_count;
    struct {
        char rule[sizeof((struct denial *)NULL)->rule], policy[sizeof((struct denial *)NULL)->policy];
    } denials[DENIALS_MAX]; /* as the event's decision notes them: each once, in their order */
};

/** Notes a denial once. */
void replay_note(struct replay *replay, const char *rule, const char *policy);
/** What policies say of the places of one target; `json` is well-formed facts. */
RESULT replay_places(struct replay *replay, size_t target, const json_t *json, struct error *err);
