/* policy/logic_form_priv.h -- what the two halves of the solver share: logic.c makes formulas, logic_solve.c searches. */
#pragma once

#include "policy/logic_priv.h"

#define LOGIC_BYTES_MAX ((size_t)512 * 1024 * 1024) /* of clauses; the largest policy set needs a part of it */

struct clause {
    size_t count;
    int literals[]; /* the first two are watched */
};

struct watch_list {
    size_t count, room;
    struct clause **clauses;
};

struct gate {
    const int *inputs; /* sorted; NULL: the place is free */
    size_t count;
    int output;
};

struct variable {
    int8_t value; /* 1 true, -1 false, 0 open */
    int8_t found; /* the value in the last answer */
    bool is_seen, is_input, is_likely;
    unsigned level;
    const struct clause *reason;
    double activity;
};

struct logic {
    struct arena *arena;
    uint64_t *steps;
    bool is_lost, is_contradictory;
    size_t variable_count, variable_room;
    struct variable *variables; /* from 1 */
    struct watch_list *watches; /* by literal_place() */
    size_t gate_count, gate_room;
    struct gate *gates; /* hashed, open addressing */
    size_t trail_count, propagated;
    int *trail;
    size_t level_count, level_room;
    size_t *levels; /* where each level begins in the trail */
    size_t input_count, input_room;
    int *inputs;
    double bump;
};

static inline size_t variable_of(int literal)
{
    return (size_t)(literal < 0 ? -literal : literal);
}

static inline size_t literal_place(int literal)
{
    return 2 * variable_of(literal) + (literal < 0);
}

static inline int value_of(const struct logic *logic, int literal)
{
    const int value = logic->variables[variable_of(literal)].value;
    return literal < 0 ? -value : value;
}

/** False when there is no memory; the logic is then lost. */
bool logic_grow(struct logic *logic, void **items, size_t *room, size_t wanted, size_t size);
/** Takes steps from the budget. False: it is used up, or the logic is lost. */
bool logic_spend(struct logic *logic, uint64_t steps);
struct clause *logic_clause(struct logic *logic, const int *literals, size_t count);
void logic_watch(struct logic *logic, struct clause *clause);
void logic_assign(struct logic *logic, int literal, const struct clause *reason);
