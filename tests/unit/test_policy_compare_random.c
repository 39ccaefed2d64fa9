/*
 * Comparisons of random pairs of sets against random decisions of the evaluator: no difference that these find is missed, and each witness is
 * confirmed.
 *
 * usage: test_policy_compare_random [PAIRS [SEED]]
 */
#include "tests/unit/policy_sets_fixture.h"

#include <stdio.h>

#include "policy/compare.h"
#include "policy/evaluate.h"
#include "policy/set_priv.h"

#define PAIRS     60 /* script/soak asks for more */
#define QUESTIONS 120

static unsigned pairs = PAIRS, seed = 7;

static struct policy_set *compiled(json_t *json)
{
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX);
    const struct policy_set_parts parts = {.epoch = 1,
                                           .policies = json_object_get(json, "policies"),
                                           .regions = json_object_get(json, "regions"),
                                           .groups = json_object_get(json, "groups"),
                                           .networks = json_object_get(json, "networks"),
                                           .exceptions = json_object_get(json, "exceptions")};
    struct policy_set *set = NULL;
    struct error err = {0};

    must(policy_set_compose(&parts, &payload, &err), &err);
    must(policy_set_compile(buffer_bytes(&payload), &set, &err), &err);
    return set;
}

/* --- questions --- */

static struct {
    unsigned compared, loosened, allowed, denied, shorter, witnesses, excepted;
} counted;

/* One question, asked of both sets. */
struct question {
    enum policy_operation op;
    const char *name, *target_id, *digest;
    json_t *target, *own; /* own: NULL without a label */
    int64_t now_us;
    bool is_excepted;
};

static struct question question(const char *target_id)
{
    static const char *const times[] = {T0, T1, T2};
    static const enum policy_operation ops[] = {OP_INGEST, OP_READ, OP_TRAIN};
    struct question asked = {.op = ops[drawn(3)],
                             .name = names[drawn(COUNT(names) - 1)],
                             .target_id = target_id,
                             .target = target_facts(),
                             .is_excepted = chance(40)};

    assert_true(policy_time_parse(bytes_of_text(times[drawn(3)]), &asked.now_us));
    if (chance(85))
        asked.own =
            json_pack("{s:o, s:o, s:o, s:o, s:o}", "class", one_of(classes), "lineage", one_of(lineages), "subjects",
                      some_of(subjects, 0), "attached", some_of(regimes, 0), "pins", chance(20) ? some_of(ids, 0) : json_array());
    if (chance(40)) {
        asked.target_id = "r/one";
        asked.digest = DIGEST;
    }
    return asked;
}

static struct policy_decision *decided(const struct policy_set *set, const struct question *asked)
{
    const struct label_query query = {policy_set_documents(set), asked->name, asked->now_us};
    struct policy_facts facts = {.op = asked->op, .scope = asked->name, .target_id = asked->target_id, .digest = asked->digest};
    OWNED(policy_target) *target = NULL;
    struct policy_decision *decision = NULL;
    struct label own, label;
    bool is_labelled = false;
    struct error err = {0};

    if (asked->own != NULL) must(label_read(asked->own, &own, &err), &err);
    must(policy_effective_label(&query, asked->own == NULL ? NULL : &own, &label, &is_labelled, &err), &err);
    must(policy_target_new(asked->target, &target, &err), &err);
    if (asked->is_excepted) assert_true(uuid_parse(bytes_of_text(PROJECT), &facts.project));
    facts.label = is_labelled ? &label : NULL;
    facts.target = target;
    facts.now_us = asked->now_us;
    facts.exceptions = policy_set_exceptions(set, &facts.project, &facts.exception_count);
    counted.excepted += facts.exception_count > 0;
    must(policy_evaluate(policy_set_documents(set), &facts, policy_set_groups(set), &decision, &err), &err);
    return decision;
}

static bool has_change(const struct policy_comparison *comparison, enum policy_change change, const struct question *asked)
{
    for (size_t i = 0; i < policy_comparison_count(comparison); i++) {
        const struct policy_difference *one = policy_comparison_at(comparison, i);
        if (one->change == change && (one->operations & (uint32_t)asked->op) != 0 && one->from_us <= asked->now_us) return true;
    }
    return false;
}

static void missed(const struct policy_comparison *comparison, const char *what, const struct question *asked)
{
    struct buffer OWNED_BUFFER text = BUFFER(1 << 24);
    struct error err = {0};

    must(policy_comparison_write(comparison, &text, &err), &err);
    fail_msg("%s of %s on %s is not in %.3000s", what, policy_operation_name(asked->op), asked->name, buffer_text(&text));
}

static void compare_answers(const struct policy_comparison *comparison, const struct question *asked,
                            const struct policy_decision *was, const struct policy_decision *is)
{
    const bool allowed = policy_decision_allows(was), allows = policy_decision_allows(is);
    const char *rule = NULL, *policy = NULL;

    counted.allowed += allows && !allowed;
    counted.denied += allowed && !allows;
    if (allows && !allowed && !has_change(comparison, POLICY_NEWLY_ALLOWED, asked)) missed(comparison, "permission", asked);
    if (allowed && !allows && !has_change(comparison, POLICY_NEWLY_DENIED, asked)) missed(comparison, "denial", asked);
    if (!allowed || !allows) return;
    const bool falls = policy_decision_retains(is, &rule, &policy) < policy_decision_retains(was, &rule, &policy) ||
                       policy_decision_approvals(is) < policy_decision_approvals(was) ||
                       policy_decision_signed_request(is) < policy_decision_signed_request(was);
    counted.shorter += falls;
    if (falls && !has_change(comparison, POLICY_DUTY_FALLS, asked)) missed(comparison, "lower duty", asked);
}

static void ask(const struct policy_comparison *comparison, const struct policy_set *old, const struct policy_set *new)
{
    struct question asked = question("t1");
    struct policy_decision *was = decided(old, &asked), *is = decided(new, &asked);

    compare_answers(comparison, &asked, was, is);
    policy_decision_free(was);
    policy_decision_free(is);
    json_decref(asked.target);
    json_decref(asked.own);
}

/* The target is what each set says of the region, or of the network of a client. */
static void ask_place(const struct policy_comparison *comparison, const struct policy_set *old, const struct policy_set *new)
{
    const bool is_region = chance(50);
    struct question asked = question(is_region ? "r/one" : "10.1.0.0/16");
    const struct policy_target *const targets[] = {is_region ? policy_set_region(old, "r/one", 0) : old->networks[0].target,
                                                   is_region ? policy_set_region(new, "r/one", 0) : new->networks[0].target};

    asked.target_id = is_region ? "r/one" : "10.1.0.0/16";
    if (is_region == (asked.op == OP_READ)) asked.op = is_region ? OP_INGEST : OP_READ;
    json_decref(asked.target);
    asked.target = targets[0]->json;
    struct policy_decision *was = decided(old, &asked);
    asked.target = targets[1]->json;
    struct policy_decision *is = decided(new, &asked);
    compare_answers(comparison, &asked, was, is);
    policy_decision_free(was);
    policy_decision_free(is);
    json_decref(asked.own);
}

/* --- witnesses --- */

static bool allows(const struct policy_set *set, const json_t *json)
{
    OWNED(policy_facts_document) *facts = NULL;
    OWNED(policy_decision) *decision = NULL;
    struct error err = {0};

    must(policy_facts_read(json, &facts, &err), &err);
    must(policy_evaluate(policy_set_documents(set), policy_facts_of(facts), policy_set_groups(set), &decision, &err), &err);
    return policy_decision_allows(decision);
}

static void check_witness(const struct policy_difference *difference, const struct policy_set *old, const struct policy_set *new)
{
    if (difference->witness == NULL) return;
    const bool was = allows(old, json_object_get(difference->witness, "old"));
    const bool is = allows(new, json_object_get(difference->witness, "new"));
    assert_int_equal(was, difference->change != POLICY_NEWLY_ALLOWED);
    assert_int_equal(is, difference->change != POLICY_NEWLY_DENIED);
    counted.witnesses++;
}

/* With fewer steps there is more doubt, and never less of a loosening. */
static void check_hurry(const struct policy_compared *compared, const struct policy_comparison *whole)
{
    struct policy_compared hurried = *compared;
    OWNED(policy_comparison) *comparison = NULL;
    struct error err = {0};

    hurried.steps_max = 1 + drawn(drawn(2) == 0 ? 500 : 50000);
    must(policy_compare(&hurried, &comparison, &err), &err);
    if (policy_comparison_is_loosening(whole)) assert_true(policy_comparison_is_loosening(comparison));
}

static void check_pair(json_t *old_json, json_t *new_json)
{
    OWNED(policy_set) *old = compiled(old_json);
    OWNED(policy_set) *new = compiled(new_json);
    OWNED(policy_comparison) *comparison = NULL;
    struct policy_compared compared = {.old_set = old, .new_set = new};
    struct error err = {0};

    assert_true(policy_time_parse(bytes_of_text(T0), &compared.now_us));
    must(policy_compare(&compared, &comparison, &err), &err);
    for (size_t i = 0; i < policy_comparison_count(comparison); i++) {
        const struct policy_difference *difference = policy_comparison_at(comparison, i);
        if (difference->change == POLICY_DOUBT) fail_msg("a doubt: %s", difference->detail);
        check_witness(difference, old, new);
    }
    check_hurry(&compared, comparison);
    for (unsigned i = 0; i < QUESTIONS; i++) {
        if (chance(75)) ask(comparison, old, new);
        else ask_place(comparison, old, new);
    }
    counted.compared++;
    counted.loosened += policy_comparison_is_loosening(comparison);
}

static void may_except(json_t *set)
{
    if (!chance(50)) return;
    (void)json_object_set_new(set, "exceptions",
                              json_pack("[o]", exception_for(json_array_get(json_object_get(set, "policies"), 0))));
}

static void random_pairs(void **state)
{
    (void)state;
    random_state = seed;
    for (unsigned i = 0; i < pairs; i++) {
        json_t *old = set_json();
        may_except(old);
        json_t *new = chance(70) ? edited(old) : set_json();
        may_except(new);
        check_pair(old, new);
        json_decref(old);
        json_decref(new);
    }
    print_message(
        "%u pairs, %u loosen; random decisions: %u newly allowed, %u newly denied, %u lower duties; %u witnesses; %u decisions with exceptions\n",
        counted.compared, counted.loosened, counted.allowed, counted.denied, counted.shorter, counted.witnesses,
        counted.excepted);
    assert_in_range(counted.loosened, pairs / 4, pairs);
    assert_in_range(counted.allowed, pairs, UINT_MAX);
    assert_in_range(counted.denied, pairs, UINT_MAX);
    assert_in_range(counted.shorter, pairs / 20, UINT_MAX);
    assert_in_range(counted.excepted, pairs, UINT_MAX);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_pairs)};

    if (argc > 1) pairs = (unsigned)strtoul(argv[1], NULL, 10);
    if (argc > 2) seed = (unsigned)strtoul(argv[2], NULL, 10);
    return cmocka_run_group_tests_name("policy_compare_random", tests, NULL, NULL);
}
