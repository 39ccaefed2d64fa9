/* Facts: deciding twice gives the same, and a stricter label never allows more. */
#include <assert.h>
#include <string.h>

#include "policy/evaluate.h"
#include "policy/set.h"
#include "tests/fuzz/default_set.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool decide(const struct policy_set *set, const struct policy_facts *facts, struct buffer *text)
{
    OWNED(policy_decision) *decision = NULL;
    struct error err;

    assert(policy_evaluate(policy_set_documents(set), facts, policy_set_groups(set), &decision, &err).ok);
    assert(policy_decision_write(text, decision, &err).ok);
    assert(policy_decision_allows(decision) == (policy_decision_denial_count(decision) == 0));
    return policy_decision_allows(decision);
}

static void decide_all_ways(const struct policy_set *set, const struct policy_facts *facts)
{
    static const struct label strict = {
        .class = LABEL_SENSITIVE, .lineage = LINEAGE_UNKNOWN, .subjects = 1 << 2, .pin_count = 1, .pins = {"registry-default"}};
    struct buffer OWNED_BUFFER first = BUFFER(4 << 20);
    struct buffer OWNED_BUFFER second = BUFFER(4 << 20);
    struct buffer OWNED_BUFFER third = BUFFER(4 << 20);
    struct label label;
    struct error err;

    const bool allowed = decide(set, facts, &first);
    assert(decide(set, facts, &second) == allowed);
    assert(strcmp(buffer_text(&first), buffer_text(&second)) == 0);
    if (facts->label == NULL) return;
    label = *facts->label;
    if (!label_join(&label, &strict, &err).ok) return;
    struct policy_facts stricter = *facts;
    stricter.label = &label;
    assert(!decide(set, &stricter, &third) || allowed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct policy_set *set;
    OWNED(policy_facts_document) *facts = NULL;
    OWNED_JSON json = NULL;
    struct error err;

    if (set == NULL) set = default_set();
    if (!json_read((struct bytes){data, size}, 1 << 20, &json, &err).ok) return 0;
    if (!policy_facts_read(json, &facts, &err).ok) return 0;
    decide_all_ways(set, policy_facts_of(facts));
    return 0;
}
