/* policy/effects_priv.h -- what a set does with some name: decided by its policies, for persons that read it. */
#pragma once

#include "policy/evaluate.h"
#include "policy/set_priv.h"

/** A repository of this name with no label but that of the policies, whose lineage somebody has stated. No exception counts. */
struct effects_question {
    const struct policy_set *set;
    struct label label;
    bool is_labelled; /* without a label all is denied */
    struct policy_facts facts;
};
/** `name` outlives the question. ERROR_LIMIT for a label of too many policies. */
RESULT effects_ask(const struct policy_set *set, const char *name, int64_t now_us, struct effects_question *question_out,
                   struct error *err);
/** Decides one operation there; `target` NULL: nothing is known of it. */
RESULT effects_decide(const struct effects_question *question, enum policy_operation op, const struct policy_target *target,
                      struct policy_decision **decision_out, struct error *err);
/** Appends the regions where such content may be stored, with ", " between them; nothing if there is none. */
RESULT effects_regions(const struct effects_question *question, struct buffer *names, struct error *err);
/** Appends the regions where the database may be, which has its names and the log, likewise. */
RESULT effects_databases(const struct effects_question *question, struct buffer *names, struct error *err);
/** Appends the networks whose clients may read it, likewise. */
RESULT effects_networks(const struct effects_question *question, struct buffer *names, struct error *err);
