/* Loosenings that no facts of today show: what exceptions could lift tomorrow, labels from earlier sets that lose their effect, and what records
 * of regions demand. */
#include <stdio.h>
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

/* ---- records of regions ---- */

/* A region that both sets have. */
struct record_pair {
    struct policy_comparison *comparison;
    const struct policy_compared *compared;
    const struct set_region *old, *new;
};

static struct result demands_less(const struct record_pair *pair, const char *what, const char *name, struct error *err)
{
    char detail[128];

    (void)snprintf(detail, sizeof detail, "%s%.80s", what, name);
    const struct policy_difference difference = {.change = POLICY_RECORD_DEMANDS_LESS,
                                                 .operations = (1U << OP_COUNT) - 1,
                                                 .target_id = pair->new->id,
                                                 .from_us = pair->compared->now_us,
                                                 .detail = detail};
    return comparison_add(pair->comparison, &difference, NULL, err);
}

/* What was demanded of the store is demanded no more, or something else is. */
static struct result compare_store(const struct record_pair *pair, struct error *err)
{
    json_t *old_store = json_object_get(pair->old->record, "store");
    const json_t *new_store = json_object_get(pair->new->record, "store");
    const char *name = NULL;
    json_t *value = NULL;

    json_object_foreach (old_store, name, value)
        if (json_equal(json_object_get(new_store, name), value) != 1)
            TRY(demands_less(pair, "the store may have another ", name, err));
    return SUCCESS;
}

static struct result compare_keyd(const struct record_pair *pair, struct error *err)
{
    const char *old = json_text_of(pair->old->record, "keyd"), *new = json_text_of(pair->new->record, "keyd");

    if (old == NULL || (new != NULL &&strcmp(old, new) == 0)) return SUCCESS;
    return demands_less(pair, "the keys may be with another sijil-keyd", "", err);
}

static bool is_one_site(const struct set_region *one, const struct set_region *other)
{
    const char *site = json_text_of(one->record, "site"), *other_site = json_text_of(other->record, "site");

    return strcmp(site == NULL ? one->id : site, other_site == NULL ? other->id : other_site) == 0;
}

/* Copies that counted as one site count as two: "min_sites" is met with less. */
static struct result compare_sites(const struct record_pair *pair, struct error *err)
{
    const struct policy_set *old_set = pair->compared->old_set;

    for (size_t i = 0; i < old_set->region_count && strcmp(old_set->regions[i].id, pair->old->id) < 0; i++) {
        const struct set_region *other = &old_set->regions[i], *later = set_region(pair->compared->new_set, other->id);
        if (later != NULL && is_one_site(pair->old, other) && !is_one_site(pair->new, later))
            TRY(demands_less(pair, "it is no more one site with ", other->id, err));
    }
    return SUCCESS;
}

static struct result compare_records(struct policy_comparison *comparison, const struct policy_compared *compared,
                                     struct error *err)
{
    for (size_t i = 0; i < compared->old_set->region_count; i++) {
        const struct set_region *old = &compared->old_set->regions[i], *new = set_region(compared->new_set, old->id);
        const struct record_pair pair = {comparison, compared, old, new};
        if (new == NULL) continue;
        TRY(compare_store(&pair, err));
        TRY(compare_keyd(&pair, err));
        TRY(compare_sites(&pair, err));
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
    return compare_records(comparison, compared, err);
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
