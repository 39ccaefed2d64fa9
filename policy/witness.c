/* From what the solver found back to facts, as the evaluator takes them. */
#include <string.h>

#include "policy/analysis_priv.h"
#include "policy/facts_priv.h"
#include "policy/no_memory_priv.h"

static bool holds(const struct universe *universe, int literal)
{
    return logic_value(universe->logic, literal);
}

/* --- the label --- */

static unsigned reached(const struct universe *universe, const int *steps, unsigned count)
{
    unsigned step = 0;

    while (step + 1 < count && holds(universe, steps[step + 1])) step++;
    return step;
}

static struct result add_regimes(const struct universe *universe, struct label *label, struct error *err)
{
    for (size_t i = 0; i < universe->regimes.count; i++) {
        const struct label one = {.lineage = LINEAGE_ATTESTED, .regime_count = 1, .regimes = {universe->regimes.texts[i]}};
        if (holds(universe, universe->regimes.literals[i])) TRY(label_join(label, &one, err));
    }
    for (size_t i = 0; i < universe->pins.count; i++) {
        const struct label one = {.lineage = LINEAGE_ATTESTED, .pin_count = 1, .pins = {universe->pins.texts[i]}};
        if (holds(universe, universe->pins.literals[i])) TRY(label_join(label, &one, err));
    }
    return SUCCESS;
}

static struct result find_label(const struct universe *universe, const struct cell *cell, struct witness *witness,
                                struct error *err)
{
    struct label own = {.class = (enum label_class)reached(universe, universe->class_from, 4),
                        .lineage = (enum label_lineage)reached(universe, universe->lineage_from, 3)};

    for (unsigned i = 0; i < LABEL_SUBJECT_COUNT; i++)
        if (holds(universe, universe->subjects[i])) own.subjects |= 1U << i;
    TRY(add_regimes(universe, &own, err));
    witness->has_own = !holds(universe, universe->no_label);
    witness->own = own;
    witness->label = own;
    if (cell->has_floor) TRY(label_join(&witness->label, &cell->floor, err));
    return SUCCESS;
}

/* --- the target --- */

static const char *chosen(const struct universe *universe, const struct choice *choice)
{
    for (size_t i = 1; i < choice->count; i++)
        if (holds(universe, choice->literals[i])) return choice->texts[i];
    return NULL;
}

/* A member of JSON; nothing for NULL. False when out of memory. */
static bool put(json_t *object, const char *name, json_t *value)
{
    return value == NULL || json_object_set_new(object, name, value) == 0;
}

static bool put_text(json_t *object, const char *name, const char *text)
{
    return text == NULL || json_object_set_new(object, name, json_string(text)) == 0;
}

static bool put_texts(const struct universe *universe, json_t *object, const char *name, const struct choices *choices)
{
    json_t *array = json_array();
    bool is_put = array != NULL;

    for (size_t i = 0; i < choices->count && is_put; i++)
        if (holds(universe, choices->literals[i])) is_put = json_array_append_new(array, json_string(choices->texts[i])) == 0;
    return put(object, name, array) && is_put;
}

static bool put_facts(const struct universe *universe, json_t *object)
{
    bool is_put = true;

    for (unsigned fact = 0; fact < FACT_COUNT && is_put; fact++) {
        const char *text = chosen(universe, &universe->one_of[fact]);
        switch (fact_comparisons[fact]) {
        case IS_ONE_OF: is_put = put_text(object, fact_names[fact], text); break;
        case IS_AT_LEAST: is_put = text == NULL || put(object, fact_names[fact], json_integer(text[0] - '0')); break;
        case HAS_ALL:
        case HAS_ANY:
            if (holds(universe, universe->any_of[fact].is_known))
                is_put = put_texts(universe, object, fact_names[fact], &universe->any_of[fact]);
            break;
        }
    }
    return is_put;
}

static struct result find_target(const struct universe *universe, struct policy_target **target_out, struct error *err)
{
    const unsigned before = json_lacks();
    OWNED_JSON json = json_object();
    OWNED_JSON key = json_object();
    OWNED_JSON operator_facts = json_object();

    if (json == NULL || key == NULL || operator_facts == NULL || !put_text(json, "geo", chosen(universe, &universe->geo)) ||
        !put_text(key, "geo", chosen(universe, &universe->key_geo)) ||
        !put_text(key, "control", chosen(universe, &universe->key_control)) ||
        !put_texts(universe, operator_facts, "controlled_from", &universe->controllers) || !put_facts(universe, json))
        return policy_no_memory(err);
    if (json_object_size(key) > 0 && json_object_set(json, "key", key) != 0) return policy_no_memory(err);
    if (json_array_size(json_object_get(operator_facts, "controlled_from")) > 0 &&
        json_object_set(json, "operator", operator_facts) != 0)
        return policy_no_memory(err);
    if (json_lacks() != before) return policy_no_memory(err);
    return policy_target_new(json, target_out, err);
}

/* --- the whole --- */

struct result witness_find(const struct universe *universe, const struct cell *cell, struct witness *witness_out,
                           struct error *err)
{
    struct witness *witness = witness_out;
    const char *project = chosen(universe, &universe->projects), *target_id = chosen(universe, &universe->targets);
    struct policy_facts *facts = &witness->facts;

    *witness = (struct witness){.target = NULL};
    TRY(find_label(universe, cell, witness, err));
    if (cell->target == NULL) TRY(find_target(universe, &witness->target, err));
    facts->op = cell->op;
    facts->scope = cell->name->name;
    if (project != NULL) (void)uuid_parse(bytes_of_text(project), &facts->project); /* the shapes have read it */
    facts->policy_epoch = universe->analysis->sets[cell->set]->epoch;
    facts->label = witness->has_own || cell->has_floor ? &witness->label : NULL;
    facts->digest = chosen(universe, &universe->digests);
    facts->target_id = cell->target_id != NULL ? cell->target_id : target_id != NULL ? target_id : "any";
    facts->target = cell->target != NULL ? cell->target : witness->target;
    facts->now_us = cell->now_us;
    facts->exceptions = policy_set_exceptions(universe->analysis->sets[cell->set], &facts->project, &facts->exception_count);
    return SUCCESS;
}

struct result witness_ask(const struct analysis *analysis, const struct cell *cell, const struct witness *witness,
                          bool *allows_out, struct error *err)
{
    const struct policy_set *set = analysis->sets[cell->set];
    OWNED(policy_decision) *decision = NULL;

    TRY(policy_evaluate(set->documents, &witness->facts, set->groups, &decision, err));
    *allows_out = policy_decision_allows(decision);
    return SUCCESS;
}

struct result witness_json(const struct witness *witness, json_t **json_out, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(POLICY_FACTS_BYTES_MAX);

    TRY(facts_write(&text, &witness->facts, err));
    return json_read(buffer_bytes(&text), POLICY_FACTS_BYTES_MAX, json_out, err);
}

void witness_done(struct witness *witness)
{
    policy_target_free(witness->target);
    witness->target = NULL;
}
