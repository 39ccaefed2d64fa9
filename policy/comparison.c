/* The list of differences: made, sorted, written. */
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "policy/compare_priv.h"
#include "policy/no_memory_priv.h"

static const struct {
    const char *name;
    bool loosens;
} changes[] = {
#define X(constant, text, is_loosening) [constant] = {text, is_loosening},
    POLICY_CHANGES(X)
#undef X
};

const char *policy_change_name(enum policy_change change)
{
    return changes[change].name;
}

bool policy_change_loosens(enum policy_change change)
{
    return changes[change].loosens;
}

static bool is_same(const struct policy_difference *a, const struct policy_difference *b)
{
    return a->change == b->change && strcmp(a->scope, b->scope) == 0 && strcmp(a->target_id, b->target_id) == 0 &&
           strcmp(a->old_policy, b->old_policy) == 0 && strcmp(a->old_rule, b->old_rule) == 0 &&
           strcmp(a->new_policy, b->new_policy) == 0 && strcmp(a->new_rule, b->new_rule) == 0 &&
           strcmp(a->detail, b->detail) == 0;
}

/* What is known of an earlier moment is left out; what is the same at this moment gets more operations. */
static bool merge(struct policy_comparison *comparison, struct policy_difference *difference)
{
    for (size_t i = 0; i < comparison->count && difference->operations != 0; i++) {
        struct policy_difference *other = &comparison->differences[i];
        if (!is_same(other, difference)) continue;
        if (other->from_us == difference->from_us) {
            other->operations |= difference->operations;
            return true;
        }
        difference->operations &= ~other->operations;
    }
    return difference->operations == 0;
}

static bool make_room(struct policy_comparison *comparison)
{
    const size_t room = comparison->room == 0 ? 16 : 2 * comparison->room;

    if (comparison->count < comparison->room) return true;
    struct policy_difference *differences = memory_resize(comparison->differences, room * sizeof *differences);
    if (differences == NULL) return false;
    comparison->differences = differences;
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers */
    json_t **witnesses = memory_resize(comparison->witnesses, room * sizeof *witnesses);
    if (witnesses == NULL) return false;
    comparison->witnesses = witnesses;
    comparison->room = room;
    return true;
}

/* The texts of the analysis end with it. */
static bool copy_text(struct policy_comparison *comparison, const char **text)
{
    *text = arena_copy_text(comparison->arena, bytes_of_text(*text == NULL ? "" : *text));
    return *text != NULL;
}

struct result comparison_add(struct policy_comparison *comparison, const struct policy_difference *difference, json_t *witness,
                             struct error *err)
{
    struct policy_difference kept = *difference;

    if (!copy_text(comparison, &kept.scope) || !copy_text(comparison, &kept.target_id) ||
        !copy_text(comparison, &kept.old_policy) || !copy_text(comparison, &kept.old_rule) ||
        !copy_text(comparison, &kept.new_policy) || !copy_text(comparison, &kept.new_rule) ||
        !copy_text(comparison, &kept.detail))
        return policy_no_memory(err);
    if (merge(comparison, &kept)) return SUCCESS;
    if (comparison->count >= POLICY_DIFFERENCES_MAX) {
        comparison->is_full = true;
        return SUCCESS;
    }
    if (!make_room(comparison)) return policy_no_memory(err);
    kept.witness = witness;
    comparison->witnesses[comparison->count] = json_incref(witness);
    comparison->differences[comparison->count++] = kept;
    return SUCCESS;
}

struct result comparison_doubt(struct policy_comparison *comparison, const char *why, int64_t now_us, struct error *err)
{
    const struct policy_difference doubt = {
        .change = POLICY_DOUBT, .operations = (1U << OP_COUNT) - 1, .from_us = now_us, .detail = why};

    if (comparison->count >= POLICY_DIFFERENCES_MAX) json_decref(comparison->witnesses[--comparison->count]);
    return comparison_add(comparison, &doubt, NULL, err);
}

static int compare_differences(const void *a, const void *b)
{
    const struct policy_difference *left = a, *right = b;
    const char *const texts[][2] = {{left->old_policy, right->old_policy}, {left->old_rule, right->old_rule},
                                    {left->new_policy, right->new_policy}, {left->new_rule, right->new_rule},
                                    {left->scope, right->scope},           {left->target_id, right->target_id},
                                    {left->detail, right->detail}};

    if (left->change != right->change) return left->change < right->change ? -1 : 1;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const int order = strcmp(texts[i][0], texts[i][1]);
        if (order != 0) return order;
    }
    return (left->from_us > right->from_us) - (left->from_us < right->from_us);
}

void comparison_sort(struct policy_comparison *comparison)
{
    if (comparison->count > 0)
        qsort(comparison->differences, comparison->count, sizeof *comparison->differences, compare_differences);
}

size_t policy_comparison_count(const struct policy_comparison *comparison)
{
    return comparison->count;
}

const struct policy_difference *policy_comparison_at(const struct policy_comparison *comparison, size_t index)
{
    return &comparison->differences[index];
}

bool policy_comparison_is_loosening(const struct policy_comparison *comparison)
{
    for (size_t i = 0; i < comparison->count; i++)
        if (policy_change_loosens(comparison->differences[i].change)) return true;
    return false;
}

/* --- JSON --- */

static json_t *operations_json(uint32_t operations)
{
    json_t *array = json_array();

    for (unsigned op = 0; op < OP_COUNT; op++)
        if ((operations >> op & 1) != 0) (void)json_array_append_new(array, json_string(policy_operation_name(1U << op)));
    return array;
}

static json_t *rule_json(const char *policy, const char *rule)
{
    return json_pack("{s:s, s:s}", "policy", policy, "rule", rule);
}

static json_t *difference_json(const struct policy_difference *difference)
{
    char from[CLOCK_TEXT_SIZE];

    clock_format(difference->from_us / 1000, from);
    return json_pack("{s:s, s:b, s:o, s:s, s:s, s:s, s:o, s:o, s:s, s:O?}", "change", policy_change_name(difference->change),
                     "loosening", policy_change_loosens(difference->change) ? 1 : 0, "operations",
                     operations_json(difference->operations), "scope", difference->scope, "target_id", difference->target_id,
                     "from", from, "old", rule_json(difference->old_policy, difference->old_rule), "new",
                     rule_json(difference->new_policy, difference->new_rule), "detail", difference->detail, "witness",
                     (json_t *)(uintptr_t)difference->witness);
}

struct result policy_comparison_write(const struct policy_comparison *comparison, struct buffer *json, struct error *err)
{
    const unsigned before = json_lacks();
    OWNED_JSON array = json_array();

    for (size_t i = 0; i < comparison->count; i++)
        if (json_array_append_new(array, difference_json(&comparison->differences[i])) != 0) return policy_no_memory(err);
    OWNED_JSON value =
        json_pack("{s:b, s:O}", "loosening", policy_comparison_is_loosening(comparison) ? 1 : 0, "differences", array);
    if (value == NULL || json_lacks() != before) return policy_no_memory(err);
    return json_write_canonical(json, value, err);
}

void policy_comparison_free(struct policy_comparison *comparison)
{
    if (comparison == NULL) return;
    for (size_t i = 0; i < comparison->count; i++) json_decref(comparison->witnesses[i]);
    free(comparison->witnesses);
    free(comparison->differences);
    arena_free(comparison->arena);
    free(comparison);
}
