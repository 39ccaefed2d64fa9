/* Sets and their envelopes: an accepted set has its stated digest, and can be read by a person, whatever its texts are; compared with another one it
 * loosens for a reason, and each witness is one. */
#include <assert.h>
#include <string.h>

#include "base/terminal_text.h"
#include "policy/compare.h"
#include "policy/evaluate.h"
#include "policy/lint.h"
#include "policy/places.h"
#include "policy/set_text.h"
#include "tests/fuzz/default_set.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_aloud(const struct policy_set *set)
{
    static const struct set_reading reading = {.now_ms = 1795171186000};
    struct buffer OWNED_BUFFER text = BUFFER(SET_TEXT_MAX);
    struct error err;

    (void)places_check(set, &err).ok;
    assert(policy_set_text(set, &reading, &text, &err).ok);
    for (size_t i = 0; i < text.length; i++)
        if (text.data[i] == '\n') text.data[i] = ' ';
    assert(terminal_is_printable(buffer_text(&text)));
}

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
    const struct policy_compared compared = {.old_set = old, .new_set = new, .now_us = 1795171186000000, .steps_max = 100000};
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

static void look_into(const struct policy_set *set)
{
    static struct policy_set *usual;
    const struct policy_linted linted = {.set = set, .now_us = 1795171186000000, .steps_max = 100000};
    OWNED(policy_findings) *findings = NULL;
    struct error err;

    if (usual == NULL) usual = default_set();
    check_comparison(usual, set);
    check_comparison(set, usual);
    assert(policy_lint(&linted, &findings, &err).ok);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct bytes input = {data, size};
    OWNED(policy_set) *set = NULL;
    static struct ecdsa_key *approver;
    struct policy_set *signed_set = NULL;
    OWNED_JSON json = NULL;
    struct error err;

    if (approver == NULL) assert(ecdsa_key_new(&approver, &err).ok);
    assert(!policy_set_read(input, approver, &signed_set, &err).ok); /* nobody signs with that key */
    if (!policy_set_compile(input, &set, &err).ok) return 0;
    assert(json_read(input, POLICY_SET_BYTES_MAX, &json, &err).ok);
    assert(strcmp(json_text_of(json, "digest"), policy_set_digest(set)) == 0);
    read_aloud(set);
    look_into(set);
    return 0;
}
