#include "policy/compare.h"

#include <string.h>

#include "base/memory.h"
#include "policy/compare_priv.h"
#include "policy/no_memory_priv.h"

#define COMPARISON_BYTES_MAX ((size_t)256 * 1024 * 1024) /* texts; witnesses come on top */

/* --- the search in one cell --- */

/* One kind of names at one moment; within it one group of operations, and any target or one place. */
struct comparing {
    struct policy_comparison *comparison;
    const struct policy_compared *compared;
    struct analysis *analysis;
    struct universe *universe;
    const struct changed_place *place; /* NULL: any target */
    uint32_t operations;
    struct cell old_cell, new_cell, kept_cell; /* kept: with the labels that stay from the old set */
    const struct verdict *old, *new, *kept;
};

/* Facts that one side allows and the other denies, or for which one demands what the other does not. */
struct hunt {
    enum policy_change change;
    const struct cell *new_cell;
    bool old_allows, new_allows;
};

static const char *or_none(const char *text)
{
    return text == NULL ? "" : text;
}

static struct result both_witnesses(const struct comparing *comparing, const struct hunt *hunt,
                                    struct policy_difference *difference, json_t **json_out, bool *is_confirmed_out,
                                    struct error *err)
{
    struct witness OWNED_WITNESS old = {.target = NULL};
    struct witness OWNED_WITNESS new = {.target = NULL};
    OWNED_JSON old_facts = NULL;
    OWNED_JSON new_facts = NULL;
    OWNED_JSON label = NULL;
    struct buffer OWNED_BUFFER text = BUFFER(64 * 1024);
    bool old_allows = false, new_allows = false;

    TRY(witness_find(comparing->universe, &comparing->old_cell, &old, err));
    TRY(witness_find(comparing->universe, hunt->new_cell, &new, err));
    TRY(witness_ask(comparing->analysis, &comparing->old_cell, &old, &old_allows, err));
    TRY(witness_ask(comparing->analysis, hunt->new_cell, &new, &new_allows, err));
    *is_confirmed_out = old_allows == hunt->old_allows && new_allows == hunt->new_allows;
    TRY(witness_json(&old, &old_facts, err));
    TRY(witness_json(&new, &new_facts, err));
    if (old.has_own) TRY(label_write(&text, &old.own, err));
    else TRY(buffer_add_text(&text, "null", err));
    TRY(json_read(buffer_bytes(&text), text.maximum, &label, err));
    difference->target_id = or_none(comparing->place == NULL ? NULL : comparing->place->id);
    *json_out =
        json_pack("{s:O, s:O, s:O, s:O, s:O, s:O, s:O}", "op", json_object_get(old_facts, "op"), "scope",
                  json_object_get(old_facts, "scope"), "label", label, "target_id", json_object_get(new_facts, "target_id"),
                  "now", json_object_get(old_facts, "now"), "old", old_facts, "new", new_facts);
    return *json_out == NULL ? policy_no_memory(err) : SUCCESS;
}

/* Takes what the solver has found last. */
static struct result take(struct comparing *comparing, const struct hunt *hunt, struct policy_difference *difference,
                          struct error *err)
{
    OWNED_JSON witness = NULL;
    bool is_confirmed = false;

    difference->change = hunt->change;
    difference->operations = comparing->operations;
    difference->scope = comparing->old_cell.name->name;
    difference->from_us = comparing->old_cell.now_us;
    const struct result found = both_witnesses(comparing, hunt, difference, &witness, &is_confirmed, err);
    if (!found.ok && err->kind != ERROR_LIMIT) return found;
    if (found.ok && is_confirmed) return comparison_add(comparing->comparison, difference, witness, err);
    comparing->analysis->doubt = found.ok ? "the evaluator did not confirm what the analysis had found"
                                          : "a label or facts of what the analysis had found are too large to evaluate";
    return SUCCESS;
}

static const struct denial_literal *first_true(const struct comparing *comparing, const struct denial_literal *list, size_t count,
                                               bool of_system)
{
    for (size_t i = 0; i < count; i++)
        if ((strncmp(list[i].rule, "SYS-", 4) == 0) == of_system && logic_value(comparing->universe->logic, list[i].literal))
            return &list[i];
    return NULL;
}

/* A policy's own rule says more than a rule of the system. */
static const struct denial_literal *first_of(const struct comparing *comparing, const struct denial_literal *list, size_t count)
{
    const struct denial_literal *own = first_true(comparing, list, count, false);

    return own != NULL ? own : first_true(comparing, list, count, true);
}

/* Each answer names a reason, and the next question excludes it, until all that is denied has a reason that is named. */
static struct result find_denials(struct comparing *comparing, const struct hunt *hunt, const struct verdict *allowing,
                                  const struct verdict *denying, struct error *err)
{
    struct terms OWNED_TERMS asked = TERMS(comparing->universe->logic);
    const bool is_old = hunt->change == POLICY_NEWLY_ALLOWED;

    terms_add(&asked, allowing->allows);
    terms_add(&asked, -denying->allows);
    while (logic_solve(comparing->universe->logic, asked.literals, asked.count) == LOGIC_YES) {
        const struct denial_literal *denied = first_of(comparing, denying->denials, denying->denial_count);
        const struct denial_literal *granted = first_of(comparing, allowing->grants, allowing->grant_count);
        struct policy_difference difference = {.old_policy = is_old ? denied->policy : granted->policy,
                                               .old_rule = is_old ? denied->rule : granted->rule,
                                               .new_policy = is_old ? granted->policy : denied->policy,
                                               .new_rule = is_old ? granted->rule : denied->rule};
        TRY(take(comparing, hunt, &difference, err));
        terms_add(&asked, -denied->literal);
    }
    return SUCCESS;
}

static struct result find_gaps(struct comparing *comparing, const struct hunt *hunt, const struct verdict *demanding,
                               const struct verdict *other, struct error *err)
{
    const bool is_old = hunt->change == POLICY_DUTY_FALLS;
    struct duty_gap gaps[DUTY_THINGS_MAX];

    for (size_t i = 0; i < demanding->duty_count; i++) {
        const struct duty_literal *duty = &demanding->duties[i];
        const size_t count = duty_gaps(comparing->universe, duty, other, NULL, gaps);
        for (size_t j = 0; j < count; j++) {
            const int asked[] = {demanding->allows, other->allows, gaps[j].literal};
            if (logic_solve(comparing->universe->logic, asked, 3) != LOGIC_YES) continue;
            struct policy_difference difference = {.detail = gaps[j].name};
            *(is_old ? &difference.old_policy : &difference.new_policy) = duty->policy->name;
            *(is_old ? &difference.old_rule : &difference.new_rule) = duty->rule->id;
            TRY(take(comparing, hunt, &difference, err));
        }
    }
    return SUCCESS;
}

static struct result hunt_all(struct comparing *comparing, struct error *err)
{
    const struct hunt allowed = {POLICY_NEWLY_ALLOWED, &comparing->new_cell, false, true};
    const struct hunt denied = {POLICY_NEWLY_DENIED, &comparing->kept_cell, true, false};
    const struct hunt unlabelled = {POLICY_NEWLY_DENIED, &comparing->new_cell, true, false};
    const struct hunt falls = {POLICY_DUTY_FALLS, &comparing->new_cell, true, true};
    const struct hunt rises = {POLICY_DUTY_RISES, &comparing->kept_cell, true, true};

    TRY(find_denials(comparing, &allowed, comparing->new, comparing->old, err));
    TRY(find_denials(comparing, &denied, comparing->old, comparing->kept, err));
    /* What stays labelled is not what is pushed anew: that may have no label now. */
    if (comparing->kept_cell.has_floor && !comparing->new_cell.has_floor)
        TRY(find_denials(comparing, &unlabelled, comparing->old, comparing->new, err));
    TRY(find_gaps(comparing, &falls, comparing->old, comparing->new, err));
    return find_gaps(comparing, &rises, comparing->kept, comparing->old, err);
}

/* --- all cells --- */

static void aim(struct cell *cell, const struct comparing *comparing)
{
    cell->op = (enum policy_operation)(comparing->operations & -comparing->operations);
    cell->target = comparing->place == NULL ? NULL : comparing->place->targets[cell->set];
    cell->target_id = comparing->place == NULL ? NULL : comparing->place->ids[cell->set];
}

static struct result compare_cell(struct comparing *comparing, struct error *err)
{
    if (comparing->operations == 0 || comparing->analysis->steps == 0) return SUCCESS;
    aim(&comparing->old_cell, comparing);
    aim(&comparing->new_cell, comparing);
    aim(&comparing->kept_cell, comparing);
    comparing->old = cell_verdict(comparing->universe, &comparing->old_cell);
    comparing->new = cell_verdict(comparing->universe, &comparing->new_cell);
    comparing->kept = cell_verdict(comparing->universe, &comparing->kept_cell);
    if (comparing->old == NULL || comparing->new == NULL || comparing->kept == NULL) return SUCCESS; /* a doubt, or no memory */
    TRY(hunt_all(comparing, err));
    (void)analysis_spend(comparing->analysis, 1);
    return SUCCESS;
}

static bool set_floors(struct comparing *comparing)
{
    const struct analysis *analysis = comparing->analysis;

    if (!cell_floor(&comparing->old_cell, analysis, NULL) || !cell_floor(&comparing->new_cell, analysis, NULL)) return false;
    struct cell stored = comparing->old_cell;
    stored.has_floor = false;
    if (!cell_floor(&stored, analysis, analysis->sets[1])) return false;
    comparing->kept_cell.floor = stored.floor;
    comparing->kept_cell.has_floor = stored.has_floor;
    return cell_floor(&comparing->kept_cell, analysis, NULL);
}

static struct result compare_name(struct comparing *comparing, const struct changed_place *places, size_t place_count,
                                  struct error *err)
{
    OWNED(universe) *universe = NULL;
    const struct analysis *analysis = comparing->analysis;

    if (!set_floors(comparing)) {
        comparing->analysis->doubt = "the policies of one name give it more regimes or pins than a label has";
        return SUCCESS;
    }
    TRY(universe_new(comparing->analysis, &universe, err));
    comparing->universe = universe;
    for (size_t p = 0; p <= place_count; p++) {
        comparing->place = p == 0 ? NULL : &places[p - 1];
        for (size_t g = 0; g < analysis->group_count; g++) {
            comparing->operations = analysis->groups[g] & (p == 0 ? UINT32_MAX : places[p - 1].operations);
            TRY(compare_cell(comparing, err));
        }
    }
    if (comparing->analysis->is_lost || logic_is_lost(universe->logic)) return policy_no_memory(err);
    return SUCCESS;
}

static struct result compare_all(struct policy_comparison *comparison, const struct policy_compared *compared,
                                 struct analysis *analysis, struct error *err)
{
    size_t place_count = 0;

    TRY(analysis_prepare(analysis, compared->now_us, err));
    const struct changed_place *places = analysis_places(analysis, &place_count);
    if (analysis->is_lost) return policy_no_memory(err);
    for (size_t m = 0; m < analysis->moment_count; m++)
        for (size_t n = 0; n < analysis->name_count && analysis->steps > 0; n++) {
            const struct cell cell = {.name = &analysis->names[n], .now_us = analysis->moments[m]};
            struct comparing comparing = {.comparison = comparison,
                                          .compared = compared,
                                          .analysis = analysis,
                                          .old_cell = cell,
                                          .new_cell = cell,
                                          .kept_cell = cell};
            comparing.new_cell.set = comparing.kept_cell.set = 1;
            TRY(compare_name(&comparing, places, place_count, err));
        }
    return SUCCESS;
}

struct result policy_compare(const struct policy_compared *compared, struct policy_comparison **comparison_out, struct error *err)
{
    OWNED(policy_comparison) *comparison = memory_zeroed(1, sizeof *comparison);
    struct analysis analysis = {.sets = {compared->old_set, compared->new_set},
                                .set_count = 2,
                                .steps = compared->steps_max == 0 ? POLICY_COMPARE_STEPS_MAX : compared->steps_max,
                                .unused_id_count = compared->unused_id_count,
                                .unused_ids = compared->unused_ids};

    if (comparison == NULL) return policy_no_memory(err);
    TRY(arena_new(COMPARISON_BYTES_MAX, &comparison->arena, err));
    const struct result compared_all = compare_all(comparison, compared, &analysis, err);
    struct result result = compared_all.ok ? compare_documents(comparison, compared, err) : compared_all;
    (void)analysis_spend(&analysis, 0); /* the solver may have taken the last step */
    if (comparison->is_full) analysis.doubt = "there are more differences than a list has room for";
    if (result.ok && analysis.doubt != NULL) result = comparison_doubt(comparison, analysis.doubt, compared->now_us, err);
    analysis_done(&analysis);
    TRY(result);
    comparison_sort(comparison);
    *comparison_out = GIVE(comparison);
    return SUCCESS;
}
