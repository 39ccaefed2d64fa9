#include "policy/effects_priv.h"

struct result effects_ask(const struct policy_set *set, const char *name, int64_t now_us, struct effects_question *question_out,
                          struct error *err)
{
    struct label own = label_initial();
    const struct label_query query = {set->documents, name, now_us};

    own.lineage = LINEAGE_DECLARED;
    *question_out = (struct effects_question){.set = set};
    TRY(policy_effective_label(&query, &own, &question_out->label, &question_out->is_labelled, err));
    question_out->facts = (struct policy_facts){.scope = name,
                                                .policy_epoch = set->epoch,
                                                .label = &question_out->label,
                                                .target_id = "-",
                                                .target = set->unknown,
                                                .now_us = now_us};
    return SUCCESS;
}

struct result effects_decide(const struct effects_question *question, enum policy_operation op,
                             const struct policy_target *target, struct policy_decision **decision_out, struct error *err)
{
    struct policy_facts facts = question->facts;

    facts.op = op;
    if (target != NULL) facts.target = target;
    return policy_evaluate(question->set->documents, &facts, question->set->groups, decision_out, err);
}

struct result effects_regions(const struct effects_question *question, struct buffer *names, struct error *err)
{
    const char *allowed[POLICY_LIST_MAX];
    struct policy_facts facts = question->facts;
    size_t count = 0;

    facts.op = OP_INGEST;
    TRY(policy_set_allowed_regions(question->set, &facts, allowed, &count, err));
    for (size_t i = 0; i < count; i++) TRY(buffer_format(names, err, "%s%s", i > 0 ? ", " : "", allowed[i]));
    return SUCCESS;
}

struct result effects_databases(const struct effects_question *question, struct buffer *names, struct error *err)
{
    const char *allowed[POLICY_LIST_MAX];
    struct policy_facts facts = question->facts;
    size_t count = 0;

    facts.op = OP_METADATA;
    TRY(policy_set_allowed_regions(question->set, &facts, allowed, &count, err));
    for (size_t i = 0; i < count; i++) {
        OWNED(policy_decision) *decision = NULL;
        TRY(effects_decide(question, OP_LOG, policy_set_region(question->set, allowed[i], facts.now_us), &decision, err));
        if (policy_decision_allows(decision)) TRY(buffer_format(names, err, "%s%s", names->length > 0 ? ", " : "", allowed[i]));
    }
    return SUCCESS;
}

struct result effects_networks(const struct effects_question *question, struct buffer *names, struct error *err)
{
    for (size_t i = 0; i < question->set->place_count; i++) {
        OWNED(policy_decision) *decision = NULL;
        TRY(effects_decide(question, OP_READ, question->set->networks[i].target, &decision, err));
        if (!policy_decision_allows(decision)) continue;
        TRY(buffer_format(names, err, "%s%s", names->length > 0 ? ", " : "", question->set->networks[i].cidr));
    }
    return SUCCESS;
}
