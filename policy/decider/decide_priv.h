/* policy/decider/decide_priv.h -- a decision while it is made: shared by decide.c, decide_policies.c and decide_denials.c. */
#pragma once

#include "audit/decision_make.h"
#include "policy/compiled_priv.h"
#include "policy/decider/decider_priv.h"
#include "policy/decider/pair_facts_priv.h"

/* A decision while it is made. */
struct decision_draft {
    const struct decision_context *context;
    struct decision_parts parts;
    struct buffer inputs;     /* the text that the id is computed over */
    struct pair_facts stated; /* of the pair at hand */
    struct buffer facts;      /* of the pairs, concatenated */
};

/* One pair of the request. */
struct pair {
    const struct action_pair *pair;
    const char *scope;                    /* the resource's name, or a name below it */
    const struct tenant_project *project; /* NULL: no project has this name */
    struct label label;
    bool is_labelled;
    char digest[SHA_TEXT_SIZE]; /* "" while the content is not known */
};

/* decide_denials.c */
/** Notes a denial by a rule of the system. */
void refuse(struct decision_draft *draft, enum verdict verdict, const char *rule, const char *message);
/** Notes a denial by a rule of a policy. */
void note_denial(struct decision_draft *draft, const struct policy_denial *denial);

/* decide_exceptions.c */
/** Not initialised before: most sets have no exceptions. */
struct left_exceptions {
    size_t count, out_count;
    const struct policy_exception *in[POLICY_LIST_MAX], *out[POLICY_LIST_MAX];
};
/** Lets the facts have only exceptions that the decision may use: a use is left, or the decision is nobody's and uses are not counted. They point into `left`. */
void leave_out(const struct decision_context *context, struct policy_facts *facts, struct left_exceptions *left);
/** Notes the exceptions that have lifted a rule, as uses of the decision. A decision that needs too many is denied. */
RESULT note_uses(struct decision_draft *draft, const struct pair *pair, const struct policy_facts *facts,
                 const struct policy_decision *decision, struct error *err);

/* decide_policies.c */
/** Evaluates all policies for a pair. If that exceeds a limit, the pair is denied. */
RESULT evaluate_policies(struct decision_draft *draft, struct pair *pair, struct error *err);
