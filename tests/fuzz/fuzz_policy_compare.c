/* Sets of policies, compared with the set of the samples and linted: no loosening without a reason, each witness is one. */
#include <assert.h>
#include <string.h>

#include "policy/compare.h"
#include "policy/evaluate.h"
#include "policy/lint.h"
#include "tests/fuzz/default_set.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool allows(const struct policy_set *set, const json_t *json)
{
    OWNED(policy_facts_document) *facts = NULL;
    OWNED(policy_decision) *decision = NULL;
    struct error err;

    assert(policy_facts_read(json, &facts, &err).ok);
    assert(policy_evaluate(policy_set_documents(set), policy_facts_of(facts), policy_set_groups(set), &decision, &err).ok);
    return policy_decision_allows(decision);
}

static void check_comparison(const struct policy_set *old, const struct policy_set *new)
{
    const struct policy_compared compared = {.old_set = old, .new_set = new, .now_us = 1795171186000000, .steps_max = 300000};
    OWNED(policy_comparison) *comparison = NULL;
    bool loosens = false;
    struct error err;

    assert(policy_compare(&compared, &comparison, &err).ok);
    for (size_t i = 0; i < policy_comparison_count(comparison); i++) {
        const struct policy_difference *one = policy_comparison_at(comparison, i);
        loosens |= policy_change_loosens(one->change);
        assert(one->operations != 0);
        if (one->witness == NULL) continue;
        assert(allows(old, json_object_get(one->witness, "old")) == (one->change != POLICY_NEWLY_ALLOWED));
        assert(allows(new, json_object_get(one->witness, "new")) == (one->change != POLICY_NEWLY_DENIED));
    }
    assert(loosens == policy_comparison_is_loosening(comparison));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct policy_set *usual;
    OWNED(policy_set) *set = NULL;
    OWNED(policy_findings) *findings = NULL;
    struct error err;

    if (usual == NULL) usual = default_set();
    if (!policy_set_compile((struct bytes){data, size}, &set, &err).ok) return 0;
    check_comparison(usual, set);
    check_comparison(set, usual);
    const struct policy_linted linted = {.set = set, .now_us = 1795171186000000, .steps_max = 300000};
    assert(policy_lint(&linted, &findings, &err).ok);
    return 0;
}
