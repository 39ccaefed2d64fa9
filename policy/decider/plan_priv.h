/* policy/decider/plan_priv.h -- shared by plan.c, plan_event.c, plan_network.c and plan_exceptions.c. */
#pragma once

#include "policy/decider/decider_priv.h"
#include "policy/decider/plan.h"
#include "policy/evaluate.h"
#include "policy/set_priv.h"

/* A floor that content keeps, because the proposed set does not give it to the same names any more. */
struct plan_lost {
    const struct policy_document *document;
    struct scope_list scopes; /* one pattern */
};

struct policy_plan {
    struct snapshot *snapshot;     /* its set is the one in force */
    struct policy_set *proposed;   /* kept */
    struct restricted *restricted; /* the proposed set with what organisations have added for themselves; NULL: none has */
    int64_t now_ms;
    const struct plan_names *names;
    char metadata_region[REGION_ID_MAX + 1];
    size_t lost_count;
    struct plan_lost *lost;
};

/** Whether a failure is about what is decided: a request would then be denied. Others are failures of the plan. */
static inline bool plan_is_denial(const struct error *why)
{
    return why->kind == ERROR_LIMIT || why->kind == ERROR_INVALID;
}

enum plan_side { PLAN_NOW, PLAN_THEN, PLAN_SIDES };
/** The set of a side; NULL: none is in force. */
const struct policy_set *plan_set(const struct policy_plan *plan, enum plan_side side);
/** What organisations add to it for themselves. NULL: none does. */
const struct restricted *plan_restricted(const struct policy_plan *plan, enum plan_side side);

/** The label of a name on a side. It borrows from the plan. ERROR_LIMIT. */
RESULT plan_label_of(const struct policy_plan *plan, enum plan_side side, const char *name, struct label *label_out,
                     bool *is_labelled_out, struct error *err);

/* One question to one side, and the first denial. */
struct plan_question {
    const char *scope, *digest;
    const struct uuid *project;
    const struct label *label; /* NULL: none */
    enum policy_operation op;
    const char *target_id;
    const struct policy_target *target;
    bool is_of_server; /* nobody asks for it */
};
struct plan_verdict {
    int64_t approvals; /* the most that an operation demands, and whether one demands a signed request */
    bool signed_request;
    bool is_denied, is_of_name;
    const char *operation;
    char scope[RESOURCE_NAME_MAX + 1], target[256], rule[65], policy[80];
};
/** *decision_out: the caller's. ERROR_NO_MEMORY, ERROR_LIMIT. */
RESULT plan_decide(const struct policy_plan *plan, enum plan_side side, const struct plan_question *question,
                   struct policy_decision **decision_out, struct error *err);
/** Notes a denial, unless one is noted already. */
void plan_note(struct plan_verdict *verdict, const struct plan_question *question, const char *rule, const char *policy);
/** Decides, and notes the first denial; more than the limits allow is denied, as in a request. ERROR_NO_MEMORY. */
RESULT plan_ask(const struct policy_plan *plan, enum plan_side side, const struct plan_question *question,
                struct plan_verdict *verdict, struct error *err);
/**
 * Notes that reads are denied because what the repository of `read` has may not be at its home, on a side (place.h): as the look at places finds it, when it has ended. The question has scope and
 * digest. ERROR_NO_MEMORY.
 */
RESULT plan_read_place(const struct policy_plan *plan, enum plan_side side, const struct plan_question *read,
                       struct plan_verdict *verdict, struct error *err);
/** What both sides say, in one answer. */
void plan_conclude(const struct plan_verdict verdicts[PLAN_SIDES], struct plan_answer *answer_out);

/**
 * The target of a client in `set`, for facts that name the network `cidr` of the set `then` (NULL: not known), or "client" if no network had it.
 * False: the set has networks inside of it, and the address is not known.
 */
bool plan_network(const struct policy_set *set, const char *cidr, const struct policy_set *then, struct plan_question *question);
