#include "policy/logic_priv.h"

#include <assert.h>
#include <limits.h>
#include <string.h>

#include "base/memory.h"
#include "policy/logic_form_priv.h"
#include "policy/no_memory_priv.h"

#define VARIABLES_MAX ((size_t)1 << 24) /* far above what the steps allow */

bool logic_spend(struct logic *logic, uint64_t steps)
{
    *logic->steps = *logic->steps > steps ? *logic->steps - steps : 0;
    return *logic->steps > 0 && !logic->is_lost;
}

bool logic_grow(struct logic *logic, void **items, size_t *room, size_t wanted, size_t size)
{
    if (wanted <= *room) return true;
    size_t more = *room < 16 ? 16 : *room;
    while (more < wanted) more *= 2;
    void *grown = memory_resize(*items, more * size);
    if (grown == NULL) {
        logic->is_lost = true;
        return false;
    }
    memset((uint8_t *)grown + *room * size, 0, (more - *room) * size);
    *items = grown;
    *room = more;
    return true;
}

/* Three arrays have a place for each variable, or for each literal. */
static bool make_room(struct logic *logic)
{
    const size_t room = logic->variable_room < 16 ? 16 : 2 * logic->variable_room;
    size_t watch_room = 2 * logic->variable_room, trail_room = logic->variable_room;

    if (logic->variable_count < logic->variable_room) return true;
    if (room > VARIABLES_MAX) logic->is_lost = true;
    return !logic->is_lost && logic_grow(logic, (void **)&logic->watches, &watch_room, 2 * room, sizeof *logic->watches) &&
           logic_grow(logic, (void **)&logic->trail, &trail_room, room, sizeof *logic->trail) &&
           logic_grow(logic, (void **)&logic->variables, &logic->variable_room, room, sizeof *logic->variables);
}

static int new_variable(struct logic *logic)
{
    if (logic->is_lost || !make_room(logic)) return LOGIC_TRUE;
    logic->variables[logic->variable_count] = (struct variable){.value = 0};
    return (int)logic->variable_count++;
}

struct result logic_new(uint64_t *steps, struct logic **logic_out, struct error *err)
{
    OWNED(logic) *logic = memory_zeroed(1, sizeof *logic);

    if (logic == NULL) return policy_no_memory(err);
    logic->steps = steps;
    logic->bump = 1;
    logic->variable_count = 1; /* a literal has no 0 */
    TRY(arena_new(LOGIC_BYTES_MAX, &logic->arena, err));
    const int truth = new_variable(logic);
    if (logic->is_lost) return policy_no_memory(err);
    assert(truth == LOGIC_TRUE);
    logic_assign(logic, truth, NULL);
    *logic_out = GIVE(logic);
    return SUCCESS;
}

int logic_variable(struct logic *logic)
{
    const int variable = new_variable(logic);

    if (logic->is_lost || !logic_grow(logic, (void **)&logic->inputs, &logic->input_room, logic->input_count + 1, sizeof(int)))
        return LOGIC_TRUE;
    logic->variables[variable].is_input = true;
    logic->inputs[logic->input_count++] = variable;
    return variable;
}

int logic_likely(struct logic *logic)
{
    const int variable = logic_variable(logic);

    if (!logic->is_lost) logic->variables[variable].is_likely = true;
    return variable;
}

struct clause *logic_clause(struct logic *logic, const int *literals, size_t count)
{
    struct clause *clause = arena_take(logic->arena, sizeof *clause + count * sizeof *literals);

    if (clause == NULL) {
        logic->is_lost = true;
        return NULL;
    }
    clause->count = count;
    memcpy(clause->literals, literals, count * sizeof *literals);
    return clause;
}

void logic_watch(struct logic *logic, struct clause *clause)
{
    for (size_t i = 0; i < 2; i++) {
        struct watch_list *list = &logic->watches[literal_place(clause->literals[i])];
        if (!logic_grow(logic, (void **)&list->clauses, &list->room, list->count + 1, sizeof(struct clause *))) return;
        list->clauses[list->count++] = clause;
    }
}

void logic_assign(struct logic *logic, int literal, const struct clause *reason)
{
    struct variable *variable = &logic->variables[variable_of(literal)];

    variable->value = literal > 0 ? 1 : -1;
    variable->level = (unsigned)logic->level_count;
    variable->reason = reason;
    logic->trail[logic->trail_count++] = literal;
}

void logic_demand(struct logic *logic, const int *literals, size_t count)
{
    struct clause *clause = logic->is_lost ? NULL : logic_clause(logic, literals, count);
    size_t kept = 0;

    assert(logic->level_count == 0);
    if (clause == NULL) return;
    for (size_t i = 0; i < count; i++) {
        const int value = value_of(logic, literals[i]);
        if (value > 0) return;
        if (value == 0) clause->literals[kept++] = literals[i];
    }
    clause->count = kept;
    if (kept == 0) logic->is_contradictory = true;
    else if (kept == 1) logic_assign(logic, clause->literals[0], NULL);
    else logic_watch(logic, clause);
}

/* --- gates --- */

static int compare_literals(const void *a, const void *b)
{
    const int left = *(const int *)a, right = *(const int *)b;
    const size_t left_variable = variable_of(left), right_variable = variable_of(right);

    if (left_variable != right_variable) return left_variable < right_variable ? -1 : 1;
    return (left > right) - (left < right);
}

/* Sorts, and drops what is there twice or always true. False: they can't all be true. */
static bool simplify(int *literals, size_t *count)
{
    size_t kept = 0;

    qsort(literals, *count, sizeof *literals, compare_literals);
    for (size_t i = 0; i < *count; i++) {
        if (literals[i] == LOGIC_FALSE || (kept > 0 && literals[kept - 1] == -literals[i])) return false;
        if (literals[i] != LOGIC_TRUE && (kept == 0 || literals[kept - 1] != literals[i])) literals[kept++] = literals[i];
    }
    *count = kept;
    return true;
}

static size_t hash_of(const int *literals, size_t count)
{
    uint64_t hash = 14695981039346656037U; /* FNV-1a */

    for (size_t i = 0; i < count; i++) hash = (hash ^ (uint32_t)literals[i]) * 1099511628211U;
    return (size_t)(hash ^ hash >> 32);
}

static struct gate *find_gate(struct gate *gates, size_t room, const int *literals, size_t count)
{
    size_t at = hash_of(literals, count) & (room - 1);

    while (gates[at].inputs != NULL &&
           (gates[at].count != count || memcmp(gates[at].inputs, literals, count * sizeof *literals) != 0))
        at = (at + 1) & (room - 1);
    return &gates[at];
}

static bool grow_gates(struct logic *logic)
{
    size_t room = 0;
    struct gate *gates = NULL;

    if (2 * logic->gate_count < logic->gate_room) return true;
    if (!logic_grow(logic, (void **)&gates, &room, logic->gate_room == 0 ? 1024 : 2 * logic->gate_room, sizeof *gates))
        return false;
    for (size_t i = 0; i < logic->gate_room; i++)
        if (logic->gates[i].inputs != NULL)
            *find_gate(gates, room, logic->gates[i].inputs, logic->gates[i].count) = logic->gates[i];
    free(logic->gates);
    logic->gates = gates;
    logic->gate_room = room;
    return true;
}

/* output -> each input, and all inputs -> output */
static void define_gate(struct logic *logic, int output, int *literals, size_t count)
{
    for (size_t i = 0; i < count; i++) logic_demand(logic, (int[]){-output, literals[i]}, 2);
    for (size_t i = 0; i < count; i++) literals[i] = -literals[i];
    literals[count] = output;
    logic_demand(logic, literals, count + 1);
}

/* `literals` has room for one more. */
static int gate_of(struct logic *logic, int *literals, size_t count)
{
    if (count == 0) return LOGIC_TRUE;
    if (count == 1) return literals[0];
    if (!grow_gates(logic)) return LOGIC_FALSE;
    struct gate *gate = find_gate(logic->gates, logic->gate_room, literals, count);
    if (gate->inputs != NULL) return gate->output;
    const struct clause *inputs = logic_clause(logic, literals, count);
    const int output = new_variable(logic);
    if (logic->is_lost) return LOGIC_FALSE;
    *gate = (struct gate){inputs->literals, count, output};
    logic->gate_count++;
    define_gate(logic, output, literals, count);
    return output;
}

static int make_gate(struct logic *logic, const int *literals, size_t count, int sign)
{
    int few[16]; /* most gates have fewer inputs */
    int *copy = count + 1 <= sizeof few / sizeof few[0] ? few : memory_zeroed(count + 1, sizeof *copy);

    if (copy == NULL) logic->is_lost = true;
    if (copy == NULL || !logic_spend(logic, count + 1)) {
        if (copy != few) free(copy);
        return LOGIC_FALSE;
    }
    for (size_t i = 0; i < count; i++) copy[i] = sign * literals[i];
    const int output = simplify(copy, &count) ? gate_of(logic, copy, count) : LOGIC_FALSE;
    if (copy != few) free(copy);
    return sign * output;
}

int logic_and(struct logic *logic, const int *literals, size_t count)
{
    return make_gate(logic, literals, count, 1);
}

int logic_or(struct logic *logic, const int *literals, size_t count)
{
    return make_gate(logic, literals, count, -1);
}

int logic_both(struct logic *logic, int left, int right)
{
    return logic_and(logic, (int[]){left, right}, 2);
}

int logic_either(struct logic *logic, int left, int right)
{
    return logic_or(logic, (int[]){left, right}, 2);
}

bool logic_is_lost(const struct logic *logic)
{
    return logic->is_lost;
}

void logic_free(struct logic *logic)
{
    if (logic == NULL) return;
    for (size_t i = 0; logic->watches != NULL && i < 2 * logic->variable_room; i++) free(logic->watches[i].clauses);
    free(logic->watches);
    free(logic->variables);
    free(logic->gates);
    free(logic->trail);
    free(logic->levels);
    free(logic->inputs);
    arena_free(logic->arena);
    free(logic);
}

/* --- lists of literals --- */

void terms_add(struct terms *terms, int literal)
{
    if (!logic_grow(terms->logic, (void **)&terms->literals, &terms->room, terms->count + 1, sizeof *terms->literals)) return;
    terms->literals[terms->count++] = literal;
}

int terms_all(struct terms *terms)
{
    const size_t count = terms->count;

    terms->count = 0;
    return logic_and(terms->logic, terms->literals, count);
}

int terms_any(struct terms *terms)
{
    const size_t count = terms->count;

    terms->count = 0;
    return logic_or(terms->logic, terms->literals, count);
}

void terms_done(struct terms *terms)
{
    free(terms->literals);
    *terms = (struct terms){.logic = terms->logic};
}
