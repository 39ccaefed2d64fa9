/* Which rules say something about the facts. Each test is made once, for all rules of the set that have it; rules that have nothing to say about a place are not asked again. */
#include <string.h>

#include "policy/evaluation_priv.h"

static enum truth test_condition(const struct rule *rule, const struct evaluation *evaluation)
{
    enum truth best = TRUTH_FALSE;

    if (rule->is_of_label) return label_meets(&rule->label, evaluation->facts->label) ? TRUTH_TRUE : TRUTH_FALSE;
    for (size_t i = 0; i < rule->alternative_count && best != TRUTH_TRUE; i++) {
        const enum truth found = target_meets(&rule->alternatives[i], evaluation->facts->target, evaluation->groups);
        if (found > best) best = found;
    }
    return best;
}

static bool when_holds(const struct evaluation *evaluation, const struct rule *rule, size_t number)
{
    uint8_t *known = &evaluation->whens[number];

    if (*known == 0) *known = 1 + (label_meets(&rule->when, evaluation->facts->label) ? TRUTH_TRUE : TRUTH_FALSE);
    return *known == 1 + TRUTH_TRUE;
}

/* Of this decision alone. */
static enum truth condition_holds(const struct evaluation *evaluation, const struct rule *rule, size_t number)
{
    uint8_t *known = &evaluation->conditions[number];

    if (*known == 0) *known = (uint8_t)(1 + test_condition(rule, evaluation));
    return (enum truth)(*known - 1);
}

/* Of all decisions about this target. */
static enum truth target_condition_holds(const struct evaluation *evaluation, const struct rule *rule, size_t number)
{
    if (evaluation->truths == NULL) return condition_holds(evaluation, rule, number);
    const unsigned char known = atomic_load_explicit(&evaluation->truths[number], memory_order_relaxed);
    if (known != 0) return (enum truth)(known - 1);
    const enum truth found = test_condition(rule, evaluation);
    atomic_store_explicit(&evaluation->truths[number], (unsigned char)(1 + found), memory_order_relaxed);
    return found;
}

static bool is_first(const struct evaluation *evaluation, size_t number)
{
    uint8_t *known = &evaluation->conditions[number];
    const bool first = *known == 0;

    *known = 1;
    return first;
}

/* Whether the rules of a group, whose `when` holds, say anything. Of duties that were added before, nothing new: numbers and lists only grow. */
static bool group_speaks(const struct evaluation *evaluation, const struct rule *rule, const struct rule_group *group)
{
    if (group->effect == EFFECT_PERMIT) return true;
    if (group->effect == EFFECT_OBLIGE) return is_first(evaluation, group->condition);
    const enum truth harmless = group->effect == EFFECT_REQUIRE ? TRUTH_TRUE : TRUTH_FALSE;
    if (group->is_of_label) return condition_holds(evaluation, rule, group->condition) != harmless;
    return target_condition_holds(evaluation, rule, group->condition) != harmless;
}

static int compare_indices(const void *a, const void *b)
{
    const uint16_t *left = a, *right = b;

    return (int)*left - (int)*right;
}

/* That none of its groups said anything about this target before, whatever the label. */
static bool is_silent(const struct evaluation *evaluation, const struct rule_run *run)
{
    return run->silence != 0 && evaluation->truths != NULL &&
           atomic_load_explicit(&evaluation->truths[run->silence], memory_order_relaxed) != 0;
}

static void note_silence(const struct evaluation *evaluation, const struct rule_run *run)
{
    if (run->silence != 0 && evaluation->truths != NULL)
        atomic_store_explicit(&evaluation->truths[run->silence], (unsigned char)1, memory_order_relaxed);
}

/* Rules of one document and operation that speak. */
struct speaking {
    const struct policy_document *policy;
    const struct rule_groups *groups;
    uint16_t *rules;
    size_t count;
};

static void add_run(const struct evaluation *evaluation, const struct rule_run *run, struct speaking *speaking)
{
    const size_t before = speaking->count;

    for (size_t i = 0; i < run->count; i++) {
        const struct rule_group *group = &speaking->groups->groups[run->first + i];
        const uint16_t *rules = &speaking->groups->rules[group->first];
        if (!group_speaks(evaluation, &speaking->policy->rules[rules[0]], group)) continue;
        const size_t count = group->effect == EFFECT_PERMIT || group->effect == EFFECT_OBLIGE ? 1 : group->count;
        memcpy(&speaking->rules[speaking->count], rules, count * sizeof *rules);
        speaking->count += count;
    }
    if (speaking->count == before) note_silence(evaluation, run);
}

size_t speaking_rules(const struct evaluation *evaluation, size_t index, uint16_t rules_out[POLICY_LIST_MAX])
{
    const unsigned operation = (unsigned)__builtin_ctz((unsigned)evaluation->facts->op);
    struct speaking speaking = {.policy = evaluation->documents->documents[index],
                                .groups = &evaluation->documents->index->documents[index][operation],
                                .rules = rules_out};

    for (size_t i = 0; i < speaking.groups->run_count; i++) {
        const struct rule_run *run = &speaking.groups->runs[i];
        const struct rule_group *first = &speaking.groups->groups[run->first];
        if (is_silent(evaluation, run)) continue;
        if (when_holds(evaluation, &speaking.policy->rules[speaking.groups->rules[first->first]], first->when))
            add_run(evaluation, run, &speaking);
    }
    qsort(rules_out, speaking.count, sizeof *rules_out, compare_indices);
    return speaking.count;
}
