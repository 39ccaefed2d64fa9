/* Facts: after they are written and read, the decision is the same; and their form and size are limited. */
#include "tests/unit/policy_cases.h"

#include <stdio.h>
#include <string.h>

#include "policy/compiled_priv.h"
#include "tests/support/policy.h"

/* The decision of a replay must be the same as that of the decider, with the same id. */
static void facts_survive_being_written_down(void **state)
{
    const struct case_row *row = &case_rows[3];
    const struct label label = label_in(&the_world, row->scope);
    OWNED(policy_target) *target = target_of(&the_world, row->target);
    const struct policy_facts facts = facts_of(row, &label, target);
    OWNED(policy_decision) *first = NULL;
    OWNED(policy_decision) *again = NULL;
    OWNED(policy_facts_document) *read = NULL;
    struct buffer OWNED_BUFFER text = BUFFER(65536), label_text = BUFFER(4096);
    struct error err = {0};

    (void)state;
    assert_true(label_write(&label_text, &label, &err).ok);
    assert_true(buffer_format(&text, &err,
                              "{\"digest\":\"" DIGEST "\",\"exceptions\":[],\"label\":%s,"
                              "\"now\":\"2026-12-15T00:00:00.000Z\",\"op\":\"ingest\",\"policy_epoch\":7,"
                              "\"project\":\"" PROJECT "\",\"scope\":\"%s\",\"target\":%s,\"target_id\":\"%s\"}",
                              buffer_text(&label_text), row->scope, policy_target_canonical(target), row->target)
                    .ok);
    OWNED_JSON json = policy_json(buffer_text(&text));
    assert_true(policy_facts_read(json, &read, &err).ok);
    assert_true(policy_evaluate(the_world.documents, &facts, the_world.groups, &first, &err).ok);
    assert_true(policy_evaluate(the_world.documents, policy_facts_of(read), the_world.groups, &again, &err).ok);
    assert_string_equal(policy_decision_id(first), policy_decision_id(again));
    buffer_done(&label_text);
}

/* All parts of a decision: a lifted rule, a malformed exception, a pin that is not in force, an overdue review. */
static json_t *full_exception(void)
{
    char text[2048];

    (void)snprintf(text, sizeof text,
                   "{\"apiVersion\":\"sijil.policy/v1\",\"kind\":\"ResidencyException\",\"id\":\"x1\",\"type\":\"continuity\","
                   "\"policy\":{\"id\":\"health-ae\",\"version\":3,\"digest\":\"%s\"},\"project\":\"" PROJECT "\","
                   "\"lifts\":[\"H-STORE-AE\"],\"ops\":[\"ingest\"],\"targets\":[\"elsewhere\"],\"digests\":[\"" DIGEST "\"],"
                   "\"not_before\":\"2027-06-10T00:00:00Z\",\"not_after\":\"2027-06-20T00:00:00Z\","
                   "\"evidence\":{\"incident_ref\":\"a\",\"authority_approval_ref\":\"b\",\"return_plan_digest\":\"c\"},"
                   "\"requested_by\":{\"iss\":\"i\",\"sub\":\"z\"},\"approvals\":[{\"iss\":\"i\",\"sub\":\"a\"},"
                   "{\"iss\":\"i\",\"sub\":\"b\"},{\"iss\":\"i\",\"sub\":\"c\"}]}",
                   policy_document_digest(the_world.documents->documents[1]));
    return policy_json(text);
}

static json_t *full_facts(void)
{
    json_t *facts =
        policy_json("{\"digest\":\"" DIGEST "\",\"exceptions\":[{\"id\":\"broken\"}],\"label\":{\"attached\":[],"
                    "\"class\":\"sensitive\",\"lineage\":\"declared\",\"pins\":[\"gone-policy\"],"
                    "\"subjects\":[\"health\"]},\"now\":\"2027-06-15T00:00:00Z\",\"op\":\"ingest\",\"policy_epoch\":7,"
                    "\"project\":\"" PROJECT "\",\"scope\":\"health/ct\",\"target\":{\"geo\":\"DE\"},"
                    "\"target_id\":\"elsewhere\"}");

    assert_int_equal(json_array_append_new(json_object_get(facts, "exceptions"), full_exception()), 0);
    return facts;
}

static struct result read_and_decide(void *context, struct error *err)
{
    OWNED(policy_documents) *documents = NULL;
    OWNED(policy_groups) *groups = NULL;
    OWNED(policy_facts_document) *read = NULL;
    OWNED(policy_decision) *decision = NULL;
    struct buffer OWNED_BUFFER text = BUFFER(1 << 16);

    TRY_UNTOUCHED_BYTES(documents, policy_documents_new(the_world.policies, &documents, err));
    TRY_UNTOUCHED_BYTES(groups, policy_groups_new(json_object_get(the_world.regions, "groups"), &groups, err));
    TRY_UNTOUCHED_BYTES(read, policy_facts_read(context, &read, err));
    TRY_UNTOUCHED_BYTES(decision, policy_evaluate(documents, policy_facts_of(read), groups, &decision, err));
    return policy_decision_write(&text, decision, err);
}

static void all_of_it_survives_lack_of_memory(void **state)
{
    OWNED_JSON facts = full_facts();

    (void)state;
    fail_each(read_and_decide, facts, ERROR_NO_MEMORY, 100);
}

static const struct fact_row {
    const char *name, *member, *value; /* value NULL: a long text */
} fact_rows[] = {
    {"no scope", "scope", "\"\""},
    {"a scope of 300 letters", "scope", NULL},
    {"no target", "target_id", "\"\""},
    {"a target of 300 letters", "target_id", NULL},
    {"a digest of another kind", "digest", "\"sha512:11\""},
    {"a label of unknown members", "label", "{\"x\":1}"},
};

static void facts_have_their_form(void **state)
{
    const struct fact_row *row = *state;
    OWNED_JSON facts = full_facts();
    struct policy_facts_document *read = NULL;
    char large[304] = "\"";
    struct error err = {0};

    memset(large + 1, 'a', 300), large[301] = '"';
    assert_int_equal(json_object_set_new(facts, row->member, policy_json(row->value == NULL ? large : row->value)), 0);
    assert_false(policy_facts_read(facts, &read, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_null(read);
}

static void decisions_need_their_room(void **state)
{
    OWNED_JSON facts = full_facts();
    OWNED(policy_facts_document) *read = NULL;
    OWNED(policy_decision) *decision = NULL;
    struct buffer OWNED_BUFFER whole = BUFFER(1 << 16);
    struct error err = {0};

    (void)state;
    if (!policy_facts_read(facts, &read, &err).ok) fail_msg("%s", err.message);
    assert_true(policy_evaluate(the_world.documents, policy_facts_of(read), the_world.groups, &decision, &err).ok);
    assert_true(policy_decision_write(&whole, decision, &err).ok);
    static const char *const held[] = {"\"lifted\":[{\"exception\":\"x1\"", "EXCEPTION-MALFORMED", "REVIEW-OVERDUE",
                                       "SYS-PIN-MISSING"};
    for (size_t i = 0; i < COUNT(held); i++) assert_non_null(strstr(buffer_text(&whole), held[i]));
    for (size_t room = 1; room < whole.length; room += 3) {
        struct buffer OWNED_BUFFER narrow = BUFFER(room);
        assert_false(policy_decision_write(&narrow, decision, &err).ok);
        assert_int_equal(err.kind, ERROR_LIMIT);
    }
}

/* Facts without a document are written for the id. */
static void unwritten_facts_have_an_id_too(void **state)
{
    OWNED_JSON json = full_facts();
    OWNED(policy_facts_document) *read = NULL;
    struct error err = {0};
    char first[SHA_TEXT_SIZE] = "";

    (void)state;
    assert_true(policy_facts_read(json, &read, &err).ok);
    struct policy_facts facts = *policy_facts_of(read);
    facts.canonical = NULL;
    for (int i = 0; i < 3; i++) {
        OWNED(policy_decision) *decision = NULL;
        if (i == 1) facts.label = NULL;
        if (i == 2) facts.exception_count = 1;
        assert_true(policy_evaluate(the_world.documents, &facts, the_world.groups, &decision, &err).ok);
        if (i > 0) assert_string_equal(policy_decision_denial(decision, 0)->rule, "SYS-UNLABELLED");
        assert_string_not_equal(policy_decision_id(decision), first);
        memcpy(first, policy_decision_id(decision), sizeof first);
    }
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(facts_survive_being_written_down),
        cmocka_unit_test(all_of_it_survives_lack_of_memory),
        cmocka_unit_test(decisions_need_their_room),
        cmocka_unit_test(unwritten_facts_have_an_id_too),
    };
    void *opened = NULL;

    if (world_open(&opened) != 0) return 1;
    the_world = *(struct world *)opened;
    const int failed = RUN_TABLE(fact_rows, facts_have_their_form) + cmocka_run_group_tests_name("others", others, NULL, NULL);
    return failed + world_close(&opened);
}
