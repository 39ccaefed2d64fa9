/*
 * policy/logic_priv.h -- formulas of propositional logic, and whether they can be true.
 *
 * A literal is a variable (from 1) or, negative, its opposite. Equal formulas are one variable, so what two policy sets have in common
 * costs no search. Rule: nothing here fails at once. When memory or the budget of steps is used up, every later answer is LOGIC_UNDECIDED.
 */
#pragma once

#include "base/arena.h"

#define LOGIC_TRUE  1
#define LOGIC_FALSE (-1)

enum logic_answer { LOGIC_NO, LOGIC_YES, LOGIC_UNDECIDED };

struct logic;

/** `steps` is counted down to 0, also by building formulas, and must outlive the logic. ERROR_NO_MEMORY. */
RESULT logic_new(uint64_t *steps, struct logic **logic_out, struct error *err);
/** A fact that the solver chooses; false if nothing demands otherwise. */
int logic_variable(struct logic *logic);
/** The same, but true if nothing demands otherwise. */
int logic_likely(struct logic *logic);
int logic_and(struct logic *logic, const int *literals, size_t count);
int logic_or(struct logic *logic, const int *literals, size_t count);
int logic_both(struct logic *logic, int left, int right);
int logic_either(struct logic *logic, int left, int right);
/** Demands that one of them is true, in every answer from now on. */
void logic_demand(struct logic *logic, const int *literals, size_t count);
/** Whether all of them can be true at once. */
enum logic_answer logic_solve(struct logic *logic, const int *literals, size_t count);
/** After LOGIC_YES: whether this literal is true in what was found. */
bool logic_value(const struct logic *logic, int literal);
/** Memory has run out: answers were LOGIC_UNDECIDED for that reason. */
bool logic_is_lost(const struct logic *logic);
void logic_free(struct logic *logic);
DEFINE_OWNED(logic);

/** A list of literals that grows. Zeroed: empty. */
struct terms {
    struct logic *logic;
    size_t count, room;
    int *literals; /* owned: terms_done() */
};
#define TERMS(of)     \
    (struct terms)    \
    {                 \
        .logic = (of) \
    }
void terms_add(struct terms *terms, int literal);
/** All, or one, of the terms; the list is empty afterwards. */
int terms_all(struct terms *terms);
int terms_any(struct terms *terms);
void terms_done(struct terms *terms);
#define OWNED_TERMS __attribute__((cleanup(terms_done)))
