/* The search: propagation with two watched literals, a clause learned from each conflict, and a jump back to where the clause first acts. */
#include <assert.h>
#include <string.h>

#include "base/memory.h"
#include "policy/logic_form_priv.h"

#define BUMP_GROWTH (1 / 0.95) /* older conflicts count less */
#define BUMP_MAX    1e100

/* Moves the watch of a false literal to another that is not false. */
static bool rewatch(struct logic *logic, struct clause *clause, int falsified)
{
    for (size_t i = 2; i < clause->count; i++) {
        if (value_of(logic, clause->literals[i]) < 0) continue;
        clause->literals[1] = clause->literals[i];
        clause->literals[i] = falsified;
        struct watch_list *list = &logic->watches[literal_place(clause->literals[1])];
        if (!logic_grow(logic, (void **)&list->clauses, &list->room, list->count + 1, sizeof(struct clause *))) return true;
        list->clauses[list->count++] = clause;
        return true;
    }
    return false;
}

/* Visits the clauses that watch a literal that has become false. The clause in which all is false, or NULL. */
static const struct clause *visit(struct logic *logic, int falsified)
{
    struct watch_list *list = &logic->watches[literal_place(falsified)];
    const struct clause *conflict = NULL;
    size_t kept = 0;

    (void)logic_spend(logic, list->count + 1);
    for (size_t i = 0; i < list->count; i++) {
        struct clause *clause = list->clauses[i];
        if (clause->literals[0] == falsified) {
            clause->literals[0] = clause->literals[1];
            clause->literals[1] = falsified;
        }
        const int value = conflict != NULL ? 1 : value_of(logic, clause->literals[0]);
        if (value <= 0 && rewatch(logic, clause, falsified)) continue;
        list->clauses[kept++] = clause;
        if (value < 0) conflict = clause;
        if (value == 0) logic_assign(logic, clause->literals[0], clause);
    }
    list->count = kept;
    return conflict;
}

static const struct clause *propagate(struct logic *logic)
{
    const struct clause *conflict = NULL;

    while (conflict == NULL && logic->propagated < logic->trail_count && !logic->is_lost)
        conflict = visit(logic, -logic->trail[logic->propagated++]);
    return conflict;
}

static void back_to(struct logic *logic, size_t level)
{
    if (logic->level_count <= level) return;
    const size_t start = logic->levels[level];
    while (logic->trail_count > start) logic->variables[variable_of(logic->trail[--logic->trail_count])].value = 0;
    logic->level_count = level;
    logic->propagated = start;
}

static bool open_level(struct logic *logic, int literal)
{
    if (!logic_grow(logic, (void **)&logic->levels, &logic->level_room, logic->level_count + 1, sizeof *logic->levels))
        return false;
    logic->levels[logic->level_count++] = logic->trail_count;
    if (value_of(logic, literal) == 0) logic_assign(logic, literal, NULL);
    return true;
}

/* --- learning --- */

static void bump(struct logic *logic, struct variable *variable)
{
    variable->activity += logic->bump;
    if (variable->activity < BUMP_MAX) return;
    for (size_t i = 1; i < logic->variable_count; i++) logic->variables[i].activity /= BUMP_MAX;
    logic->bump /= BUMP_MAX;
}

/* The state of one analysis: how many literals of the conflict's level are still to be replaced by their reasons. */
struct lesson {
    struct terms terms; /* the first is for the literal that acts */
    size_t open;
};

static void note_reason(struct logic *logic, const struct clause *clause, int implied, struct lesson *lesson)
{
    for (size_t i = 0; i < clause->count; i++) {
        const int literal = clause->literals[i];
        struct variable *variable = &logic->variables[variable_of(literal)];
        if (literal == implied || variable->is_seen || variable->level == 0) continue;
        variable->is_seen = true;
        bump(logic, variable);
        if (variable->level == logic->level_count) lesson->open++;
        else terms_add(&lesson->terms, literal);
    }
    (void)logic_spend(logic, clause->count);
}

/* The first point through which all of the conflict goes (Marques-Silva and Sakallah 1996). */
static void learn(struct logic *logic, const struct clause *conflict, struct lesson *lesson)
{
    size_t at = logic->trail_count;
    int literal = 0;

    terms_add(&lesson->terms, 0);
    note_reason(logic, conflict, 0, lesson);
    do {
        do literal = logic->trail[--at];
        while (!logic->variables[variable_of(literal)].is_seen);
        logic->variables[variable_of(literal)].is_seen = false;
        lesson->open--;
        if (lesson->open > 0) note_reason(logic, logic->variables[variable_of(literal)].reason, literal, lesson);
    } while (lesson->open > 0);
    if (logic->is_lost) return;
    lesson->terms.literals[0] = -literal;
    for (size_t i = 1; i < lesson->terms.count; i++) logic->variables[variable_of(lesson->terms.literals[i])].is_seen = false;
}

/* The second highest level of a lesson; its literal comes to the second place, because it is watched. */
static size_t level_to_keep(struct logic *logic, struct terms *terms)
{
    size_t highest = 1;

    if (terms->count == 1) return 0;
    for (size_t i = 2; i < terms->count; i++)
        if (logic->variables[variable_of(terms->literals[i])].level >
            logic->variables[variable_of(terms->literals[highest])].level)
            highest = i;
    const int literal = terms->literals[highest];
    terms->literals[highest] = terms->literals[1];
    terms->literals[1] = literal;
    return logic->variables[variable_of(literal)].level;
}

/* False: what is known contradicts itself. */
static bool resolve(struct logic *logic, const struct clause *conflict)
{
    struct lesson lesson = {.terms = TERMS(logic)};

    if (logic->level_count == 0) {
        logic->is_contradictory = true;
        return false;
    }
    learn(logic, conflict, &lesson);
    logic->bump *= BUMP_GROWTH;
    if (!logic->is_lost) {
        back_to(logic, level_to_keep(logic, &lesson.terms));
        struct clause *clause = logic_clause(logic, lesson.terms.literals, lesson.terms.count);
        if (clause != NULL && clause->count > 1) logic_watch(logic, clause);
        if (clause != NULL) logic_assign(logic, clause->literals[0], clause->count > 1 ? clause : NULL);
    }
    terms_done(&lesson.terms);
    return true;
}

/* --- deciding --- */

/* The most active open input, as what is likely; 0 if none is open. All other variables follow from the inputs. */
static int choose(const struct logic *logic)
{
    const struct variable *best = NULL;
    int chosen = 0;

    for (size_t i = 0; i < logic->input_count; i++) {
        const struct variable *variable = &logic->variables[logic->inputs[i]];
        if (variable->value != 0 || (best != NULL && variable->activity <= best->activity)) continue;
        best = variable;
        chosen = variable->is_likely ? logic->inputs[i] : -logic->inputs[i];
    }
    return chosen;
}

static void keep_model(struct logic *logic)
{
    for (size_t i = 1; i < logic->variable_count; i++) logic->variables[i].found = logic->variables[i].value;
}

static enum logic_answer search(struct logic *logic, const int *literals, size_t count)
{
    while (logic_spend(logic, 1)) {
        const struct clause *conflict = propagate(logic);
        if (logic->is_lost) break;
        if (conflict != NULL) {
            if (!resolve(logic, conflict)) return LOGIC_NO;
            continue;
        }
        int next = logic->level_count < count ? literals[logic->level_count] : choose(logic);
        if (next == 0) {
            keep_model(logic);
            return LOGIC_YES;
        }
        if (logic->level_count < count && value_of(logic, next) < 0) return LOGIC_NO;
        (void)logic_spend(logic, logic->level_count < count ? 1 : logic->input_count / 8);
        if (!open_level(logic, next)) break;
    }
    return LOGIC_UNDECIDED;
}

enum logic_answer logic_solve(struct logic *logic, const int *literals, size_t count)
{
    if (logic->is_lost || *logic->steps == 0) return LOGIC_UNDECIDED;
    if (logic->is_contradictory) return LOGIC_NO;
    const enum logic_answer answer = search(logic, literals, count);
    back_to(logic, 0);
    return answer;
}

bool logic_value(const struct logic *logic, int literal)
{
    const int found = logic->variables[variable_of(literal)].found;

    return literal < 0 ? found < 0 : found > 0;
}
