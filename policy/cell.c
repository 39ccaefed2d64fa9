/* What one set says of one operation on one kind of names, as formulas. The order of things is that of evaluate.c. */
#include <string.h>

#include "policy/analysis_priv.h"
#include "policy/logic_form_priv.h"

bool cell_floor(struct cell *cell, const struct analysis *analysis, const struct policy_set *but)
{
    const struct policy_set *set = analysis->sets[cell->set];
    struct error none = {0};

    if (!cell->has_floor) cell->floor = (struct label){.class = LABEL_OPEN, .lineage = LINEAGE_ATTESTED};
    for (size_t i = 0; i < set->documents->count; i++) {
        const struct policy_document *policy = set->documents->documents[i];
        if (!policy->has_floor || policy->effective_from_us > cell->now_us || !cell->name->in_scope[cell->set][i]) continue;
        if (but != NULL && policy_set_declassifies(but, policy->id, cell->name->name)) continue;
        if (!label_join(&cell->floor, &policy->floor, &none).ok) return false;
        cell->has_floor = true;
    }
    return true;
}

/* What is being made. */
struct making {
    struct universe *universe;
    const struct cell *cell;
    const struct policy_set *set;
    struct verdict *verdict;
    int labelled;
    size_t rules_before; /* of earlier documents */
    size_t retention_count, retention_room;
    struct retention *retentions;
    struct terms conflicts; /* of two retentions */
};

struct retention {
    int literal;
    const struct obligation *duty;
};

static bool floor_has(const char *const *list, size_t count, const char *text)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i], text) == 0) return true;
    return false;
}

/* --- the label --- */

static int has_regime(struct making *making, const struct text_list *wanted)
{
    const struct label *floor = &making->cell->floor;
    struct terms OWNED_TERMS any = TERMS(making->universe->logic);

    for (size_t i = 0; i < wanted->count; i++) {
        const bool given = floor_has(floor->regimes, floor->regime_count, wanted->texts[i]);
        terms_add(&any, given ? LOGIC_TRUE : choices_literal(&making->universe->regimes, wanted->texts[i]));
    }
    return terms_any(&any);
}

static int has_subject(struct making *making, uint32_t subjects)
{
    struct terms OWNED_TERMS any = TERMS(making->universe->logic);

    if ((making->cell->floor.subjects & subjects) != 0) return LOGIC_TRUE;
    for (unsigned i = 0; i < LABEL_SUBJECT_COUNT; i++)
        if ((subjects >> i & 1) != 0) terms_add(&any, making->universe->subjects[i]);
    return terms_any(&any);
}

static int class_reaches(const struct making *making, int class)
{
    if (class > (int)LABEL_SECRET) return LOGIC_FALSE;
    return (int)making->cell->floor.class >= class ? LOGIC_TRUE : making->universe->class_from[class];
}

static int label_test(struct making *making, const struct label_test *test)
{
    struct terms OWNED_TERMS all = TERMS(making->universe->logic);

    if (test->attached_any.count > 0) terms_add(&all, has_regime(making, &test->attached_any));
    if (test->class_at_least >= 0) terms_add(&all, class_reaches(making, test->class_at_least));
    if (test->class_at_most >= 0) terms_add(&all, -class_reaches(making, test->class_at_most + 1));
    if (test->lineage_at_least >= 0) terms_add(&all, making->universe->lineage_from[test->lineage_at_least]);
    if (test->subjects_any != 0) terms_add(&all, has_subject(making, test->subjects_any));
    if (test->subjects_none != 0) terms_add(&all, -has_subject(making, test->subjects_none));
    return terms_all(&all);
}

static int is_pinned(const struct making *making, const char *id)
{
    const struct label *floor = &making->cell->floor;

    return floor_has(floor->pins, floor->pin_count, id) ? LOGIC_TRUE : choices_literal(&making->universe->pins, id);
}

/* --- what denies --- */

static void add_denial(struct making *making, int literal, const char *policy, const char *rule, size_t number)
{
    const int denies = logic_both(making->universe->logic, making->labelled, literal);

    if (denies == LOGIC_FALSE) return;
    making->verdict->denials[making->verdict->denial_count++] = (struct denial_literal){denies, policy, rule, number};
}

static bool is_in_force(const struct making *making, const struct policy_document *policy)
{
    return policy->effective_from_us <= making->cell->now_us;
}

static bool has_in_force(const struct making *making, const char *id)
{
    for (size_t i = 0; i < making->set->documents->count; i++) {
        const struct policy_document *policy = making->set->documents->documents[i];
        if (is_in_force(making, policy) && strcmp(policy->id, id) == 0) return true;
    }
    return false;
}

static void add_pins(struct making *making)
{
    const struct choices *pins = &making->universe->pins;

    for (size_t i = 0; i < pins->count; i++)
        if (!has_in_force(making, pins->texts[i]))
            add_denial(making, is_pinned(making, pins->texts[i]), pins->texts[i], "SYS-PIN-MISSING", NO_RULE);
}

static int rule_is_harmless(struct making *making, const struct rule *rule)
{
    struct universe *universe = making->universe;
    const struct policy_target *fixed = making->cell->target;
    const bool wanted = rule->effect == EFFECT_REQUIRE;
    struct terms OWNED_TERMS met = TERMS(universe->logic);
    struct terms OWNED_TERMS failed = TERMS(universe->logic);

    for (size_t i = 0; i < rule->alternative_count; i++) {
        struct proof proof;
        if (fixed == NULL) proof = universe_target_meets(universe, &rule->alternatives[i], making->set->groups);
        else {
            const enum truth truth = target_meets(&rule->alternatives[i], fixed, making->set->groups);
            proof =
                (struct proof){truth == TRUTH_TRUE ? LOGIC_TRUE : LOGIC_FALSE, truth == TRUTH_FALSE ? LOGIC_TRUE : LOGIC_FALSE};
        }
        terms_add(&met, proof.is_true);
        terms_add(&failed, proof.is_false);
    }
    return wanted ? terms_any(&met) : terms_all(&failed);
}

/* Made once for a free target: it does not depend on operation and name. */
static int harmless(struct making *making, const struct rule *rule, size_t number)
{
    int *kept = &making->universe->harmless[making->cell->set][making->rules_before + number];

    if (rule->is_of_label) return label_test(making, &rule->label);
    if (making->cell->target != NULL) return rule_is_harmless(making, rule);
    if (*kept == 0) *kept = rule_is_harmless(making, rule);
    return *kept;
}

static int target_is(const struct making *making, const char *target)
{
    if (making->cell->target_id == NULL) return choice_literal(&making->universe->targets, target);
    return strcmp(making->cell->target_id, target) == 0 ? LOGIC_TRUE : LOGIC_FALSE;
}

static int exception_matches(struct making *making, const struct policy_exception *exception)
{
    struct universe *universe = making->universe;
    struct terms OWNED_TERMS any = TERMS(universe->logic);
    struct terms OWNED_TERMS all = TERMS(universe->logic);

    terms_add(&all, choice_literal(&universe->projects, json_text_of(exception->json, "project")));
    for (size_t i = 0; i < exception->targets.count; i++) terms_add(&any, target_is(making, exception->targets.texts[i]));
    terms_add(&all, terms_any(&any));
    for (size_t i = 0; i < exception->digests.count; i++)
        terms_add(&any, choice_literal(&universe->digests, exception->digests.texts[i]));
    terms_add(&all, terms_any(&any));
    return terms_all(&all);
}

/* --- retention: a maximum and a longer minimum together deny --- */

static bool conflict(const struct obligation *a, const struct obligation *b)
{
    return a->has_retain_max && b->has_retain_min && b->retain_min_days > a->retain_max_days;
}

static void add_retention(struct making *making, int literal, const struct obligation *duty)
{
    struct logic *logic = making->universe->logic;

    if (literal == LOGIC_FALSE || (!duty->has_retain_min && !duty->has_retain_max)) return;
    if (!logic_grow(logic, (void **)&making->retentions, &making->retention_room, making->retention_count + 1,
                    sizeof(struct retention)))
        return;
    making->retentions[making->retention_count++] = (struct retention){literal, duty};
    for (size_t i = 0; i < making->retention_count; i++) {
        const struct retention *other = &making->retentions[i];
        if (conflict(duty, other->duty) || conflict(other->duty, duty))
            terms_add(&making->conflicts, logic_both(logic, literal, other->literal));
    }
    (void)analysis_spend(making->universe->analysis, making->retention_count);
}

/* --- exceptions --- */

/* Whether an exception lifts a rule; the duties of the first one that does are added. */
static int lifted(struct making *making, const struct policy_document *policy, const struct rule *rule, int violated)
{
    struct logic *logic = making->universe->logic;
    int earlier = LOGIC_FALSE;

    (void)analysis_spend(making->universe->analysis, making->set->exception_count + 1);
    for (size_t i = 0; i < making->set->exception_count; i++) {
        const struct policy_exception *exception = making->set->exceptions[i];
        const struct exception_type *type = exception_covers(exception, policy, rule, making->cell->op, making->cell->now_us);
        if (type == NULL) continue;
        const int matches = exception_matches(making, exception);
        add_retention(making, logic_and(logic, (int[]){violated, matches, -earlier}, 3), &type->adds);
        earlier = logic_either(logic, earlier, matches);
    }
    return earlier;
}

/* --- policies --- */

static void add_duty(struct making *making, const struct duty_literal *duty)
{
    struct verdict *verdict = making->verdict;

    verdict->duties[verdict->duty_count++] = *duty;
    add_retention(making, duty->literal, &duty->rule->oblige);
}

static void add_condition(struct making *making, int active, const struct policy_document *policy, size_t number)
{
    struct logic *logic = making->universe->logic;
    const struct rule *rule = &policy->rules[number];
    const int violated = logic_both(logic, active, -harmless(making, rule, number));

    if (violated == LOGIC_FALSE) return;
    const int saved = lifted(making, policy, rule, violated);
    add_denial(making, logic_both(logic, violated, -saved), policy->name, rule->id, making->rules_before + number);
}

/* Whether a permit of the policy is active. */
static int add_rules(struct making *making, int applies, const struct policy_document *policy, bool in_scope)
{
    struct logic *logic = making->universe->logic;
    struct verdict *verdict = making->verdict;
    struct terms OWNED_TERMS permits = TERMS(logic);

    for (size_t i = 0; i < policy->rule_count; i++) {
        const struct rule *rule = &policy->rules[i];
        if ((rule->operations & (uint32_t)making->cell->op) == 0) continue;
        const int active = logic_both(logic, applies, label_test(making, &rule->when));
        if (active == LOGIC_FALSE) continue;
        const struct duty_literal found = {active, policy, rule, making->rules_before + i};
        verdict->active[verdict->active_count++] = found;
        if (rule->effect == EFFECT_OBLIGE) add_duty(making, &found);
        else if (rule->effect != EFFECT_PERMIT) add_condition(making, active, policy, i);
        else terms_add(&permits, active);
        if (rule->effect == EFFECT_PERMIT && in_scope)
            verdict->grants[verdict->grant_count++] = (struct denial_literal){active, policy->name, rule->id, found.number};
    }
    return terms_any(&permits);
}

static int add_policy(struct making *making, const struct policy_document *policy, bool in_scope)
{
    struct logic *logic = making->universe->logic;
    int applies = in_scope ? LOGIC_TRUE : is_pinned(making, policy->id);

    if (policy->has_applies_to) applies = logic_either(logic, applies, label_test(making, &policy->applies_to));
    if (applies == LOGIC_FALSE) return LOGIC_FALSE;
    const int permitted = add_rules(making, applies, policy, in_scope);
    if (policy->is_closed) add_denial(making, logic_both(logic, applies, -permitted), policy->name, "SYS-CLOSED", NO_RULE);
    return in_scope ? permitted : LOGIC_FALSE;
}

static void add_policies(struct making *making)
{
    const struct policy_documents *documents = making->set->documents;
    const bool *in_scope = making->cell->name->in_scope[making->cell->set];
    int granted = LOGIC_FALSE;
    bool found = false;

    add_pins(making);
    for (size_t i = 0; i < documents->count; i++) {
        const struct policy_document *policy = documents->documents[i];
        if (is_in_force(making, policy)) {
            found = found || in_scope[i];
            granted = logic_either(making->universe->logic, granted, add_policy(making, policy, in_scope[i]));
        }
        making->rules_before += policy->rule_count;
    }
    if (!found) add_denial(making, LOGIC_TRUE, "sys", "SYS-NO-POLICY", NO_RULE);
    add_denial(making, -granted, "sys", "SYS-CLOSED", NO_RULE);
    add_denial(making, terms_any(&making->conflicts), "sys", "RETENTION-CONFLICT", NO_RULE);
}

/* --- the whole --- */

static bool make_lists(struct verdict *verdict, const struct making *making)
{
    struct arena *arena = making->universe->arena;
    size_t rules = 0;

    for (size_t i = 0; i < making->set->documents->count; i++) rules += making->set->documents->documents[i]->rule_count;
    verdict->denials =
        arena_take(arena, (rules + making->set->documents->count + making->universe->pins.count + 5) * sizeof *verdict->denials);
    verdict->grants = arena_take(arena, (rules + 1) * sizeof *verdict->grants);
    verdict->duties = arena_take(arena, (rules + 1) * sizeof *verdict->duties);
    verdict->active = arena_take(arena, (rules + 1) * sizeof *verdict->active);
    return verdict->denials != NULL && verdict->grants != NULL && verdict->duties != NULL && verdict->active != NULL;
}

static int none_denies(struct making *making)
{
    struct terms OWNED_TERMS all = TERMS(making->universe->logic);

    for (size_t i = 0; i < making->verdict->denial_count; i++) terms_add(&all, -making->verdict->denials[i].literal);
    return terms_all(&all);
}

struct verdict *cell_verdict(struct universe *universe, const struct cell *cell)
{
    struct verdict *verdict = arena_take(universe->arena, sizeof *verdict);
    struct making making = {.universe = universe,
                            .cell = cell,
                            .set = universe->analysis->sets[cell->set],
                            .verdict = verdict,
                            .labelled = cell->has_floor ? LOGIC_TRUE : -universe->no_label,
                            .conflicts = TERMS(universe->logic)};

    if (verdict == NULL || !make_lists(verdict, &making)) {
        universe->analysis->is_lost = true;
        return NULL;
    }
    add_policies(&making);
    if (making.labelled != LOGIC_TRUE)
        verdict->denials[verdict->denial_count++] = (struct denial_literal){-making.labelled, "sys", "SYS-UNLABELLED", NO_RULE};
    verdict->allows = none_denies(&making);
    terms_done(&making.conflicts);
    free(making.retentions);
    return analysis_spend(universe->analysis, 1) && !logic_is_lost(universe->logic) ? verdict : NULL;
}
