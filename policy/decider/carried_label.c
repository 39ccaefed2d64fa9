/* The label that content carries: the join of the labels of all that a training run reads, or what a pushed manifest states. */
#include <stdio.h>

#include "policy/decider/decider_priv.h"
#include "policy/evaluate.h"
#include "policy/label_annotation.h"

static struct result join_uses(const struct decision_context *context, const struct carried_query *query, struct label *label,
                               bool *is_labelled, struct error *err)
{
    for (size_t i = 0; i < query->use_count; i++) {
        struct label used;
        bool has_label = false;
        TRY(evaluate_label_of_repository(context, query->uses[i], &used, &has_label, err));
        if (!has_label) continue; /* no policy permits `train` with it */
        if (*is_labelled) TRY(label_join(label, &used, err));
        else *label = used;
        *is_labelled = true;
    }
    return SUCCESS;
}

/* The operations of a push, with the new label. */
static struct result ask_output(const struct decision_context *context, const char *output, const struct label *label,
                                struct carried_label *answer, struct error *err)
{
    static const enum policy_operation operations[] = {OP_INGEST, OP_METADATA, OP_LOG};

    for (size_t i = 0; i < sizeof operations / sizeof operations[0] && answer->rule[0] == '\0'; i++) {
        const struct repository_query query = {.name = output, .op = operations[i], .label = label};
        OWNED(policy_decision) *decision = NULL;
        TRY(evaluate_repository(context, &query, &decision, err));
        if (!policy_decision_allows(decision))
            (void)snprintf(answer->rule, sizeof answer->rule, "%s", policy_decision_denial(decision, 0)->rule);
    }
    answer->is_allowed = answer->rule[0] == '\0';
    return SUCCESS;
}

static struct result join_stated(const char *text, struct stated_label *stated, struct label *label, bool *is_labelled,
                                 struct error *err)
{
    static const struct label least = {.class = LABEL_OPEN, .lineage = LINEAGE_ATTESTED};
    OWNED_JSON value = text == NULL ? NULL : json_string(text);

    if (text == NULL) return SUCCESS;
    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a label");
    TRY(label_annotation_read(value, stated, err));
    if (label_covers(&least, &stated->label))
        return SUCCESS; /* it demands nothing, and must not make a repository a labelled one */
    if (*is_labelled) TRY(label_join(label, &stated->label, err));
    else *label = stated->label;
    *is_labelled = true;
    return SUCCESS;
}

struct result evaluate_carried(const struct decision_context *context, const struct carried_query *query,
                               struct carried_label *answer, struct error *err)
{
    OWNED_STATED_LABEL stated = {.json = NULL};
    struct label own, joined;
    bool has_own = false;

    TRY(policies_known(context, err));
    TRY(evaluate_label_of_repository(context, query->output, &own, &has_own, err));
    bool is_labelled = has_own;
    joined = own;
    TRY(join_uses(context, query, &joined, &is_labelled, err));
    TRY(join_stated(query->stated, &stated, &joined, &is_labelled, err));
    answer->is_carried = !is_labelled || (has_own && label_covers(&own, &joined)) ||
                         policy_set_declassifies(context->snapshot->set, LABEL_CARRIED_POLICY, query->output);
    answer->is_allowed = answer->is_carried;
    answer->rule[0] = '\0';
    if (answer->is_carried || query->only_checks) return SUCCESS;
    TRY(label_write(&answer->label, &joined, err));
    return ask_output(context, query->output, &joined, answer, err);
}

static struct result label_of(const struct decision_context *context, const char *name, struct label *label_out,
                              struct error *err)
{
    bool is_labelled = false;

    TRY(evaluate_label_of_repository(context, name, label_out, &is_labelled, err));
    if (!is_labelled) *label_out = label_initial();
    return SUCCESS;
}

struct result evaluate_label_lacks(const struct decision_context *context, const char *name, const char *other, bool *lacks_out,
                                   struct error *err)
{
    struct label own, others;

    TRY(policies_known(context, err));
    TRY(label_of(context, name, &own, err));
    TRY(label_of(context, other, &others, err));
    *lacks_out = !label_restricts_as(&own, &others);
    return SUCCESS;
}
