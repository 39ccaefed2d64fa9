/* Files that people give to `sijil policy`: of a set what is taken has its lines within the file; of expectations each can be asked, and its answer
 * fits what it says. */
#include <assert.h>
#include <string.h>

#include "client/commands/policy_expectations_priv.h"
#include "client/commands/policy_source_priv.h"
#include "policy/expectation.h"
#include "tests/fuzz/default_set.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ask(const struct policy_set *set, const json_t *test, enum policy_operation op)
{
    struct policy_expectation_answer OWNED_ANSWER answer = {.decision = NULL};
    struct error err;

    if (!policy_expectation_ask(set, test, op, 1795171186000000, &answer, &err).ok) {
        assert(err.kind == ERROR_INVALID || err.kind == ERROR_LIMIT);
        return;
    }
    assert(answer.allows == policy_decision_allows(answer.decision));
    if (answer.holds) assert(answer.allows == (strcmp(json_text_of(test, "expect"), "allow") == 0));
}

static void read_set(struct bytes text)
{
    struct policy_source OWNED_SOURCE source = {.name = "set.json"};
    struct error err = {0};

    if (!policy_source_parse(text, &source, &err).ok) return;
    assert(source.set != NULL && json_is_array(json_object_get(source.document, "policies")));
    assert(policy_source_line(&source, "registry-default@1", "H-STORE-AE") <= text.length);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct policy_set *set;
    struct expectations OWNED_EXPECTATIONS expectations = {.document = NULL};
    struct error err = {0};

    if (set == NULL) set = default_set();
    read_set((struct bytes){data, size});
    if (!expectations_parse((struct bytes){data, size}, "t.yaml", &expectations, &err).ok) return 0;
    const json_t *tests = json_object_get(expectations.document, "tests");
    assert(json_array_size(tests) >= 1 && json_array_size(tests) <= POLICY_EXPECTATIONS_MAX);
    for (size_t i = 0; i < json_array_size(tests); i++) {
        const uint32_t operations = policy_expectation_operations(json_array_get(tests, i));
        assert(operations != 0);
        ask(set, json_array_get(tests, i), (enum policy_operation)(operations & -operations));
    }
    return 0;
}
