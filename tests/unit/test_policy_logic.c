/* The solver against all assignments of small formulas. */
#include "tests/support/unit.h"

#include <stdlib.h>

#include "policy/logic_priv.h"

#define VARIABLES 6
#define GATES     14
#define FORMULAS  4000

static unsigned drawn(unsigned *state, unsigned below)
{
    *state = *state * 1664525U + 1013904223U; /* Numerical Recipes, so that a failure comes again */
    return (*state >> 16) % below;
}

/* Gates over variables and earlier gates: literal i + 1 is variable i, or gate i - VARIABLES. */
struct formula {
    size_t counts[GATES];
    int inputs[GATES][4];
    bool is_and[GATES];
    int demanded[3][3], asked[2];
};

static int any_literal(unsigned *state, unsigned below)
{
    const int literal = (int)drawn(state, below) + 1;
    return drawn(state, 2) == 0 ? literal : -literal;
}

static struct formula drawn_formula(unsigned *state)
{
    struct formula formula;

    for (unsigned g = 0; g < GATES; g++) {
        formula.counts[g] = drawn(state, 5);
        formula.is_and[g] = drawn(state, 2) == 0;
        for (size_t i = 0; i < 4; i++) formula.inputs[g][i] = any_literal(state, VARIABLES + g);
    }
    for (size_t i = 0; i < 9; i++) formula.demanded[i / 3][i % 3] = any_literal(state, VARIABLES + GATES);
    for (size_t i = 0; i < 2; i++) formula.asked[i] = any_literal(state, VARIABLES + GATES);
    return formula;
}

static bool true_in(const bool *values, int literal)
{
    return literal > 0 ? values[literal - 1] : !values[-literal - 1];
}

static void evaluate(const struct formula *formula, unsigned assignment, bool values[VARIABLES + GATES])
{
    for (unsigned i = 0; i < VARIABLES; i++) values[i] = (assignment >> i & 1) != 0;
    for (size_t g = 0; g < GATES; g++) {
        bool value = formula->is_and[g];
        for (size_t i = 0; i < formula->counts[g]; i++)
            if (true_in(values, formula->inputs[g][i]) != formula->is_and[g]) value = !formula->is_and[g];
        values[VARIABLES + g] = value;
    }
}

static bool is_good(const struct formula *formula, const bool *values)
{
    for (size_t i = 0; i < 3; i++) {
        const int *clause = formula->demanded[i];
        if (!true_in(values, clause[0]) && !true_in(values, clause[1]) && !true_in(values, clause[2])) return false;
    }
    return true_in(values, formula->asked[0]) && true_in(values, formula->asked[1]);
}

static bool by_force(const struct formula *formula)
{
    bool values[VARIABLES + GATES];

    for (unsigned assignment = 0; assignment < 1U << VARIABLES; assignment++) {
        evaluate(formula, assignment, values);
        if (is_good(formula, values)) return true;
    }
    return false;
}

static int mapped(const int *literals, int literal)
{
    return literal > 0 ? literals[literal - 1] : -literals[-literal - 1];
}

static void build(struct logic *logic, const struct formula *formula, int literals[VARIABLES + GATES])
{
    for (size_t i = 0; i < VARIABLES; i++) literals[i] = logic_variable(logic);
    for (size_t g = 0; g < GATES; g++) {
        int inputs[4];
        for (size_t i = 0; i < formula->counts[g]; i++) inputs[i] = mapped(literals, formula->inputs[g][i]);
        literals[VARIABLES + g] =
            formula->is_and[g] ? logic_and(logic, inputs, formula->counts[g]) : logic_or(logic, inputs, formula->counts[g]);
    }
}

static void check_model(struct logic *logic, const struct formula *formula, const int *literals)
{
    bool values[VARIABLES + GATES];
    unsigned assignment = 0;

    for (unsigned i = 0; i < VARIABLES; i++) assignment |= (unsigned)logic_value(logic, literals[i]) << i;
    evaluate(formula, assignment, values);
    for (size_t i = 0; i < VARIABLES + GATES; i++) assert_int_equal(values[i], logic_value(logic, literals[i]));
    assert_true(is_good(formula, values));
}

static void solver_agrees_with_brute_force(void **state)
{
    unsigned random = 11, satisfied = 0;

    (void)state;
    for (unsigned round = 0; round < FORMULAS; round++) {
        const struct formula formula = drawn_formula(&random);
        uint64_t steps = 1000000;
        int literals[VARIABLES + GATES];
        struct error err = {0};
        OWNED(logic) *logic = NULL;
        assert_true(logic_new(&steps, &logic, &err).ok);
        build(logic, &formula, literals);
        const int first[] = {mapped(literals, formula.asked[0])};
        if (drawn(&random, 2) == 0) (void)logic_solve(logic, first, 1); /* what was learned before the demands stays right */
        for (size_t i = 0; i < 3; i++) {
            int clause[3];
            for (size_t j = 0; j < 3; j++) clause[j] = mapped(literals, formula.demanded[i][j]);
            logic_demand(logic, clause, 3);
        }
        const int asked[] = {first[0], mapped(literals, formula.asked[1])};
        const bool wanted = by_force(&formula);
        assert_int_equal(logic_solve(logic, asked, 2), wanted ? LOGIC_YES : LOGIC_NO);
        if (wanted) check_model(logic, &formula, literals);
        satisfied += wanted;
    }
    assert_in_range(satisfied, FORMULAS / 10, FORMULAS - FORMULAS / 10);
}

/* Seven pigeons do not fit into six holes, and that takes long to find out. */
static void demand_pigeons(struct logic *logic)
{
    int in[7][6];

    for (size_t p = 0; p < 7; p++)
        for (size_t h = 0; h < 6; h++) in[p][h] = logic_variable(logic);
    for (size_t p = 0; p < 7; p++) logic_demand(logic, in[p], 6);
    for (size_t h = 0; h < 6; h++)
        for (size_t p = 0; p < 7; p++)
            for (size_t q = 0; q < p; q++) logic_demand(logic, (int[]){-in[p][h], -in[q][h]}, 2);
}

static void no_steps_no_answer(void **state)
{
    uint64_t few = 2000, many = 100000000;
    struct error err = {0};
    OWNED(logic) *poor = NULL;
    OWNED(logic) *rich = NULL;

    (void)state;
    assert_true(logic_new(&few, &poor, &err).ok && logic_new(&many, &rich, &err).ok);
    demand_pigeons(poor);
    demand_pigeons(rich);
    assert_int_equal(logic_solve(poor, NULL, 0), LOGIC_UNDECIDED);
    assert_int_equal(few, 0);
    assert_int_equal(logic_solve(poor, NULL, 0), LOGIC_UNDECIDED);
    assert_int_equal(logic_solve(rich, NULL, 0), LOGIC_NO);
    assert_int_equal(logic_solve(rich, NULL, 0), LOGIC_NO);
}

static void equal_formulas_are_one(void **state)
{
    uint64_t steps = 10000;
    struct error err = {0};
    OWNED(logic) *logic = NULL;

    (void)state;
    assert_true(logic_new(&steps, &logic, &err).ok);
    const int a = logic_variable(logic), b = logic_variable(logic);
    assert_int_equal(logic_both(logic, a, b), logic_both(logic, b, a));
    assert_int_equal(logic_either(logic, -a, -b), -logic_both(logic, a, b));
    assert_int_equal(logic_both(logic, a, a), a);
    assert_int_equal(logic_both(logic, a, -a), LOGIC_FALSE);
    assert_int_equal(logic_both(logic, a, LOGIC_TRUE), a);
    assert_int_equal(logic_either(logic, a, LOGIC_TRUE), LOGIC_TRUE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_formulas_are_one),
        cmocka_unit_test(solver_agrees_with_brute_force),
        cmocka_unit_test(no_steps_no_answer),
    };
    return cmocka_run_group_tests_name("policy_logic", tests, NULL, NULL);
}
