/* Loosenings that no facts of today show: what exceptions could lift tomorrow, and labels from earlier sets that lose their effect. */
#include <string.h>

#include "policy/compare_priv.h"

static bool all_in(const struct text_list *some, const struct text_list *list)
{
    for (size_t i = 0; i < some->count; i++) {
        bool is_in = false;
        for (size_t j = 0; j < list->count && !is_in; j++) is_in = strcmp(some->texts[i], list->texts[j]) == 0;
        if (!is_in) return false;
    }
    return true;
}

static const json_t *adds_of(const struct policy_document *policy, const char *type)
{
    return json_object_get(json_object_get(json_object_get(policy->json, "exception_types"), type), "adds");
}

static bool is_as_tight(const struct policy_document *now, const struct exception_type *type, const struct policy_document *was,
                        const struct exception_type *old)
{
    const json_t *adds = adds_of(now, type->name), *had = adds_of(was, old->name);

    return strcmp(type->name, old->name) == 0 && all_in(&type->lifts, &old->lifts) &&
           all_in(&old->required_evidence, &type->required_evidence) && type->max_days <= old->max_days &&
           type->approvals >= old->approvals && (adds == had || (adds != NULL && had != NULL && json_equal(adds, had)));
}

static const struct policy_document *predecessor(const struct policy_set *old_set, const struct policy_document *policy,
                                                 const struct exception_type *type)
{
    for (size_t i = 0; i < old_set->documents->count; i++) {
        const struct policy_document *old = old_set->documents->documents[i];
        if (strcmp(old->id, policy->id) != 0) continue;
        for (size_t j = 0; j < old->type_count; j++)
            if (is_as_tight(policy, type, old, &old->types[j])) return old;
    }
    return NULL;
}

static struct result compare_types(struct policy_comparison *comparison, const struct policy_compared *compared,
                                   const struct policy_document *policy, struct error *err)
{
    uint32_t operations = 0;

    for (size_t i = 0; i < policy->type_count; i++) {
        const struct exception_type *type = &policy->types[i];
        if (predecessor(compared->old_set, policy, type) != NULL) continue;
        for (size_t j = 0; j < policy->rule_count; j++) operations |= policy->rules[j].operations;
        const struct policy_difference difference = {.change = POLICY_TYPE_WIDENED,
                                                     .operations = operations,
                                                     .from_us = compared->now_us,
                                                     .new_policy = policy->name,
                                                     .new_rule = type->name,
                                                     .detail = "an exception of this type may lift more, or is easier to get"};
        TRY(comparison_add(comparison, &difference, NULL, err));
    }
    return SUCCESS;
}

static bool was_declassified(const struct policy_set *old_set, const char *policy, const struct scope_pattern *pattern)
{
    for (size_t i = 0; i < old_set->declassified_count; i++)
        if (strcmp(old_set->declassified[i].policy, policy) == 0 &&
            scope_matches(&old_set->declassified[i].scopes, pattern->segments, pattern->count))
            return true;
    return false;
}

static struct result compare_declassified(struct policy_comparison *comparison, const struct policy_compared *compared,
                                          const struct declassification *entry, struct error *err)
{
    for (size_t i = 0; i < entry->scopes.count; i++) {
        const struct scope_pattern *pattern = &entry->scopes.patterns[i];
        if (was_declassified(compared->old_set, entry->policy, pattern)) continue;
        const char *text = (const char *)pattern->segments[0].data; /* the whole pattern: its segments are views into it */
        const struct policy_difference difference = {.change = POLICY_DECLASSIFIED,
                                                     .operations = (1U << OP_COUNT) - 1,
                                                     .scope = text,
                                                     .from_us = compared->now_us,
                                                     .new_policy = entry->policy,
                                                     .detail = "labels that this policy left here lose their effect"};
        TRY(comparison_add(comparison, &difference, NULL, err));
    }
    return SUCCESS;
}

struct result compare_documents(struct policy_comparison *comparison, const struct policy_compared *compared, struct error *err)
{
    const struct policy_set *new_set = compared->new_set;

    for (size_t i = 0; i < new_set->documents->count; i++)
        TRY(compare_types(comparison, compared, new_set->documents->documents[i], err));
    for (size_t i = 0; i < new_set->declassified_count; i++)
        TRY(compare_declassified(comparison, compared, &new_set->declassified[i], err));
    return SUCCESS;
}

/* ---- evidence ---- */

static bool has_entry(const json_t *array, const json_t *entry)
{
    size_t i = 0;

    while (i < json_array_size(array) && json_equal(json_array_get(array, i), entry) != 1) i++;
    return i < json_array_size(array);
}

struct result policy_set_check_evidence(const struct policy_set *set, const struct policy_set *before, struct error *err)
{
    const json_t *earlier = before == NULL ? NULL : json_object_get(before->json, "declassified");
    const json_t *array = json_object_get(set->json, "declassified");

    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *each = json_array_get(array, i);
        if (json_object_get(each, "evidence") != NULL || has_entry(earlier, each)) continue;
        return failure(
            err, ERROR_INVALID,
            "what is declassified for policy %.64s needs \"evidence\": the digest of the file with the grounds, \"sha256:...\"",
            json_text_of(each, "policy"));
    }
    return SUCCESS;
}
