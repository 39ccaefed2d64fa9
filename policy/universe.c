/* The variables of an analysis, and the truth of predicates over them. */
#include <assert.h>
#include <string.h>

#include "base/memory.h"
#include "policy/analysis_priv.h"

#define ASSURANCES     5   /* 0 to 4 */
#define UNIVERSE_STEPS 500 /* what making one costs by itself */

static const char *const assurance_texts[ASSURANCES + 1] = {NULL, "0", "1", "2", "3", "4"};

static void *take(struct universe *universe, size_t size)
{
    void *taken = arena_take(universe->arena, size);

    if (taken == NULL) universe->analysis->is_lost = true;
    return taken;
}

/* --- variables --- */

static void forbid_both(struct logic *logic, int left, int right)
{
    logic_demand(logic, (int[]){-left, -right}, 2);
}

/* At least one, and none together with an earlier one. */
static void demand_one(struct logic *logic, const struct choice *choice)
{
    int earlier = LOGIC_FALSE;

    logic_demand(logic, choice->literals, choice->count);
    for (size_t i = 0; i < choice->count; i++) {
        forbid_both(logic, earlier, choice->literals[i]);
        earlier = logic_either(logic, earlier, choice->literals[i]);
    }
}

/* texts[0] is NULL. The first value that fits is taken, so a witness knows little, and names what the sets name. */
static void make_choice(struct universe *universe, struct choice *choice, const char *const *texts, size_t count)
{
    choice->texts = texts;
    choice->literals = take(universe, count * sizeof *choice->literals);
    if (choice->literals == NULL) return;
    choice->count = count;
    for (size_t i = 0; i < count; i++) choice->literals[i] = logic_likely(universe->logic);
    demand_one(universe->logic, choice);
}

static void make_choice_of(struct universe *universe, struct choice *choice, const struct text_set *set)
{
    const char **texts = take(universe, (set->count + 1) * sizeof *texts);

    if (texts == NULL) return;
    if (set->count > 0) memcpy(texts + 1, set->texts, set->count * sizeof *texts);
    make_choice(universe, choice, texts, set->count + 1);
}

static void make_choices(struct universe *universe, struct choices *choices, const struct text_set *set)
{
    choices->texts = set->texts;
    choices->literals = take(universe, (set->count + 1) * sizeof *choices->literals);
    if (choices->literals == NULL) return;
    choices->count = set->count;
    (void)analysis_spend(universe->analysis, set->count);
    for (size_t i = 0; i < set->count; i++) choices->literals[i] = logic_variable(universe->logic);
}

/* What is not known has no values. */
static void make_known(struct universe *universe, struct choices *choices)
{
    choices->is_known = logic_variable(universe->logic);
    for (size_t i = 0; i < choices->count; i++)
        logic_demand(universe->logic, (int[]){choices->is_known, -choices->literals[i]}, 2);
}

/* 0 is always reached, and each step only from the one below. */
static void make_ladder(struct universe *universe, int *steps, size_t count)
{
    steps[0] = LOGIC_TRUE;
    for (size_t i = 1; i < count; i++) {
        steps[i] = logic_variable(universe->logic);
        logic_demand(universe->logic, (int[]){-steps[i], steps[i - 1]}, 2);
        forbid_both(universe->logic, universe->no_label, steps[i]);
    }
}

static void make_label(struct universe *universe)
{
    struct analysis *analysis = universe->analysis;

    universe->no_label = logic_variable(universe->logic);
    make_ladder(universe, universe->class_from, 4);
    make_ladder(universe, universe->lineage_from, 3);
    for (size_t i = 0; i < LABEL_SUBJECT_COUNT; i++) {
        universe->subjects[i] = logic_variable(universe->logic);
        forbid_both(universe->logic, universe->no_label, universe->subjects[i]);
    }
    make_choices(universe, &universe->regimes, &analysis->regimes_of_labels);
    make_choices(universe, &universe->pins, &analysis->pins);
    for (size_t i = 0; i < universe->regimes.count; i++)
        forbid_both(universe->logic, universe->no_label, universe->regimes.literals[i]);
    for (size_t i = 0; i < universe->pins.count; i++)
        forbid_both(universe->logic, universe->no_label, universe->pins.literals[i]);
    for (size_t i = 0; i < analysis->unused_id_count; i++) {
        const int pin = choices_literal(&universe->pins, analysis->unused_ids[i]);
        logic_demand(universe->logic, (int[]){-pin}, 1);
    }
}

static void make_facts(struct universe *universe)
{
    const struct analysis *analysis = universe->analysis;

    for (unsigned fact = 0; fact < FACT_COUNT; fact++) {
        switch (fact_comparisons[fact]) {
        case IS_ONE_OF: make_choice_of(universe, &universe->one_of[fact], &analysis->facts[fact]); break;
        case IS_AT_LEAST: make_choice(universe, &universe->one_of[fact], assurance_texts, ASSURANCES + 1); break;
        case HAS_ALL:
        case HAS_ANY:
            make_choices(universe, &universe->any_of[fact], &analysis->facts[fact]);
            make_known(universe, &universe->any_of[fact]);
            break;
        default: abort(); /* a row of facts.def names one of these */
        }
    }
}

static void make_target(struct universe *universe)
{
    const struct analysis *analysis = universe->analysis;

    make_choice_of(universe, &universe->geo, &analysis->places);
    make_choice_of(universe, &universe->key_geo, &analysis->key_places);
    make_choice_of(universe, &universe->key_control, &analysis->key_controls);
    make_choices(universe, &universe->controllers, &analysis->controllers);
    make_facts(universe);
    make_choice_of(universe, &universe->projects, &analysis->projects);
    make_choice_of(universe, &universe->targets, &analysis->targets);
    make_choice_of(universe, &universe->digests, &analysis->digests);
}

static size_t count_rules(const struct policy_set *set)
{
    size_t count = 0;

    for (size_t i = 0; i < set->documents->count; i++) count += set->documents->documents[i]->rule_count;
    return count;
}

struct result universe_new(struct analysis *analysis, struct universe **universe_out, struct error *err)
{
    OWNED(universe) *universe = memory_zeroed(1, sizeof *universe);

    if (universe == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an analysis");
    universe->analysis = analysis;
    (void)analysis_spend(analysis, UNIVERSE_STEPS);
    TRY(arena_new(ANALYSIS_BYTES_MAX, &universe->arena, err));
    TRY(logic_new(&analysis->steps, &universe->logic, err));
    make_label(universe);
    make_target(universe);
    for (size_t s = 0; s < analysis->set_count; s++)
        universe->harmless[s] = take(universe, (count_rules(analysis->sets[s]) + 1) * sizeof(int));
    if (analysis->is_lost || logic_is_lost(universe->logic)) return failure(err, ERROR_NO_MEMORY, "no memory for an analysis");
    *universe_out = GIVE(universe);
    return SUCCESS;
}

void universe_free(struct universe *universe)
{
    if (universe == NULL) return;
    logic_free(universe->logic);
    arena_free(universe->arena);
    free(universe);
}

static int literal_of(const char *const *texts, const int *literals, size_t count, const char *text)
{
    for (size_t i = 0; i < count; i++)
        if (texts[i] != NULL && strcmp(texts[i], text) == 0) return literals[i];
    return LOGIC_FALSE;
}

int choice_literal(const struct choice *choice, const char *text)
{
    return literal_of(choice->texts, choice->literals, choice->count, text);
}

int choices_literal(const struct choices *choices, const char *text)
{
    return literal_of(choices->texts, choices->literals, choices->count, text);
}

/* --- predicates --- */

static enum truth ask(const struct predicate *predicate, const struct policy_target *target, const struct policy_groups *groups)
{
    const struct target_test test = {1, predicate};

    return target_meets(&test, target, groups);
}

/* A target of which one thing is known: value `index` of a choice. */
static struct policy_target only(const struct predicate *predicate, const struct choice *choice, size_t index)
{
    const unsigned kind = (unsigned)predicate->kind, fact = kind - TEST_OF_FACT;
    struct policy_target target = {.json = NULL};

    if (fact < FACT_COUNT)
        target.facts[fact] = (struct fact){.is_known = index > 0, .text = choice->texts[index], .number = (int64_t)index - 1};
    else if (kind == TEST_KEY_GEO) target.key_geo = choice->texts[index];
    else if (kind == TEST_KEY_CONTROL) target.key_control = choice->texts[index];
    else target.geo = choice->texts[index];
    return target;
}

/* The predicate looks at one choice alone, so its truth is known for each value. */
static struct proof of_choice(struct universe *universe, const struct predicate *predicate, const struct choice *choice,
                              const struct policy_groups *groups)
{
    struct terms OWNED_TERMS met = TERMS(universe->logic);
    struct terms OWNED_TERMS failed = TERMS(universe->logic);

    for (size_t i = 0; i < choice->count; i++) {
        const struct policy_target target = only(predicate, choice, i);
        const enum truth truth = ask(predicate, &target, groups);
        if (truth == TRUTH_TRUE) terms_add(&met, choice->literals[i]);
        if (truth == TRUTH_FALSE) terms_add(&failed, choice->literals[i]);
    }
    (void)analysis_spend(universe->analysis, choice->count * (predicate->texts.count + 1));
    return (struct proof){terms_any(&met), terms_any(&failed)};
}

static int some_of(struct universe *universe, const struct choices *choices, const struct text_list *list, bool all)
{
    struct terms OWNED_TERMS terms = TERMS(universe->logic);

    for (size_t i = 0; i < list->count; i++) terms_add(&terms, choices_literal(choices, list->texts[i]));
    (void)analysis_spend(universe->analysis, list->count * (choices->count + 1));
    return all ? terms_all(&terms) : terms_any(&terms);
}

static struct proof of_known(struct universe *universe, const struct choices *choices, int holds)
{
    return (struct proof){logic_both(universe->logic, choices->is_known, holds),
                          logic_both(universe->logic, choices->is_known, -holds)};
}

/* A group of another kind, or none of that name, is unknown: neither true nor false. */
static struct proof of_regime_groups(struct universe *universe, const struct predicate *predicate,
                                     const struct policy_groups *groups)
{
    const struct choices *regimes = &universe->any_of[FACT_REGIMES];
    int is_true = LOGIC_FALSE, is_false = LOGIC_TRUE;

    for (size_t i = 0; i < predicate->texts.count; i++) {
        const struct policy_group *found = NULL;
        for (size_t j = 0; j < groups->count && found == NULL; j++)
            if (strcmp(groups->groups[j].name, predicate->texts.texts[i]) == 0) found = &groups->groups[j];
        struct proof proof = {LOGIC_FALSE, LOGIC_FALSE};
        if (found != NULL && found->kind == GROUP_REGIME)
            proof = of_known(universe, regimes, some_of(universe, regimes, &found->members, false));
        is_true = logic_either(universe->logic, is_true, proof.is_true);
        is_false = logic_both(universe->logic, is_false, proof.is_false);
    }
    return (struct proof){is_true, is_false};
}

/* One controller inside is enough to be false; true needs a known controller, and none that is inside or may be. */
static struct proof of_controllers(struct universe *universe, const struct predicate *predicate,
                                   const struct policy_groups *groups)
{
    const struct choices *controllers = &universe->controllers;
    struct terms OWNED_TERMS any = TERMS(universe->logic);
    struct terms OWNED_TERMS inside = TERMS(universe->logic);
    struct terms OWNED_TERMS perhaps = TERMS(universe->logic);

    for (size_t i = 0; i < controllers->count; i++) {
        const struct policy_target target = {.controllers = {1, &controllers->texts[i]}};
        const enum truth is_free = ask(predicate, &target, groups);
        terms_add(&any, controllers->literals[i]);
        if (is_free == TRUTH_FALSE) terms_add(&inside, controllers->literals[i]);
        if (is_free != TRUTH_TRUE) terms_add(&perhaps, controllers->literals[i]);
    }
    (void)analysis_spend(universe->analysis, controllers->count * (predicate->texts.count + 1));
    return (struct proof){logic_both(universe->logic, terms_any(&any), -terms_any(&perhaps)), terms_any(&inside)};
}

static struct proof of_fact(struct universe *universe, const struct predicate *predicate, const struct policy_groups *groups)
{
    const unsigned fact = (unsigned)predicate->kind - TEST_OF_FACT;
    const struct choices *any = &universe->any_of[fact];

    switch (fact_comparisons[fact]) {
    case HAS_ALL: return of_known(universe, any, some_of(universe, any, &predicate->texts, true));
    case HAS_ANY: return of_known(universe, any, some_of(universe, any, &predicate->texts, false));
    case IS_ONE_OF:
    case IS_AT_LEAST: break;
    }
    return of_choice(universe, predicate, &universe->one_of[fact], groups);
}

static struct proof predicate_proof(struct universe *universe, const struct predicate *predicate,
                                    const struct policy_groups *groups)
{
    switch ((unsigned)predicate->kind) {
    case TEST_GEO_WITHIN:
    case TEST_GEO_IN_GROUP: return of_choice(universe, predicate, &universe->geo, groups);
    case TEST_REGIME_IN_GROUP: return of_regime_groups(universe, predicate, groups);
    case TEST_OPERATOR: return of_controllers(universe, predicate, groups);
    case TEST_KEY_GEO: return of_choice(universe, predicate, &universe->key_geo, groups);
    case TEST_KEY_CONTROL: return of_choice(universe, predicate, &universe->key_control, groups);
    default: break;
    }
    assert((unsigned)predicate->kind - TEST_OF_FACT < FACT_COUNT);
    return of_fact(universe, predicate, groups);
}

struct proof universe_target_meets(struct universe *universe, const struct target_test *test, const struct policy_groups *groups)
{
    struct terms OWNED_TERMS met = TERMS(universe->logic);
    struct terms OWNED_TERMS failed = TERMS(universe->logic);

    for (size_t i = 0; i < test->count; i++) {
        const struct proof proof = predicate_proof(universe, &test->predicates[i], groups);
        terms_add(&met, proof.is_true);
        terms_add(&failed, proof.is_false);
    }
    return (struct proof){terms_all(&met), terms_any(&failed)};
}
