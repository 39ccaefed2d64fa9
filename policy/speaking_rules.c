/* Which rules say something about the facts. Each test is made once, for all rules of the set that have it. */
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

/* Whether the rules of a group say anything. Of duties that were added before, nothing new: numbers and lists only grow. */
static bool group_speaks(const struct evaluation *evaluation, const struct rule *rule, const struct rule_group *group)
{
    if (!when_holds(evaluation, rule, group->when)) return false;
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

size_t speaking_rules(const struct evaluation *evaluation, size_t index, uint16_t rules_out[POLICY_LIST_MAX])
{
    const struct policy_document *policy = evaluation->documents->documents[index];
    const unsigned operation = (unsigned)__builtin_ctz((unsigned)evaluation->facts->op);
    const struct rule_groups *groups = &evaluation->documents->index->documents[index][operation];
    size_t count = 0;

    for (size_t i = 0; i < groups->count; i++) {
        const struct rule_group *group = &groups->groups[i];
        const uint16_t *rules = &groups->rules[group->first];
        if (!group_speaks(evaluation, &policy->rules[rules[0]], group)) continue;
        const size_t speaking = group->effect == EFFECT_PERMIT || group->effect == EFFECT_OBLIGE ? 1 : group->count;
        memcpy(&rules_out[count], rules, speaking * sizeof *rules);
        count += speaking;
    }
    qsort(rules_out, count, sizeof *rules_out, compare_indices);
    return count;
}
