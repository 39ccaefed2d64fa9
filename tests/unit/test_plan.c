/* Parts of plans: networks of clients whose address is not known, names that are decided alike, and groups of equal events. */
#include "tests/unit/decide_fixture.h"

#include <stdio.h>

#include "authz/trust_rules_priv.h"
#include "planning/plan_priv.h"
#include "policy/decider/plan_priv.h"

/* ---- networks ---- */

static struct policy_set *set_with(const char *networks)
{
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX);
    json_t *list = json_array();
    struct policy_set *set = NULL;
    struct error err = {0};

    for (const char *at = networks; *at != '\0';) {
        const size_t length = strcspn(at, " ");
        assert_int_equal(json_array_append_new(list, json_pack("{s:s%, s:{s:s}}", "cidr", at, length, "facts", "geo", "AE")), 0);
        at += length + strspn(at + length, " ");
    }
    const struct policy_set_parts parts = {.epoch = 1, .networks = list};
    must(policy_set_compose(&parts, &payload, &err), &err);
    must(policy_set_compile(buffer_bytes(&payload), &set, &err), &err);
    json_decref(list);
    return set;
}

static const struct network_row {
    const char *name, *then; /* networks of the set of the event; NULL: it is not known */
    const char *cidr;        /* that the facts name */
    const char *now;         /* networks of another set */
    const char *expected;    /* of those; NULL: not known */
} network_rows[] = {
    {"the same network", "10.0.0.0/8", "10.0.0.0/8", "10.0.0.0/8", "10.0.0.0/8"},
    {"none, and none now", "10.0.0.0/8", "client", "10.0.0.0/8", "client"},
    {"one that is gone", "10.0.0.0/8", "10.0.0.0/8", "", "client"},
    {"a wider one", "10.1.0.0/16", "10.1.0.0/16", "10.0.0.0/8", "10.0.0.0/8"},
    {"a new one inside", "10.0.0.0/8", "10.0.0.0/8", "10.0.0.0/8 10.1.0.0/16", NULL},
    {"one inside that was there", "10.0.0.0/8 10.1.0.0/16", "10.0.0.0/8", "10.0.0.0/8 10.1.0.0/16", "10.0.0.0/8"},
    {"one inside, of a set that is not known", NULL, "10.0.0.0/8", "10.0.0.0/8 10.1.0.0/16", NULL},
    {"a new one elsewhere", "10.0.0.0/8", "10.0.0.0/8", "10.0.0.0/8 192.0.2.0/24", "10.0.0.0/8"},
    {"a new one elsewhere, and no network then", "10.0.0.0/8", "client", "10.0.0.0/8 192.0.2.0/24", NULL},
    {"a new one inside of an old one, and no network then", "10.0.0.0/8", "client", "10.1.0.0/16", "client"},
    {"no network, of a set that is not known", NULL, "client", "10.0.0.0/8", NULL},
    {"one machine, of a set that is not known", NULL, "10.0.0.1/32", "10.0.0.1/32", "10.0.0.1/32"},
    {"IPv6", "2001:db8::/32", "2001:db8::/32", "2001:db8::/48", NULL},
};

static void a_client_is_found_or_not_known(void **state)
{
    const struct network_row *row = *state;
    OWNED(policy_set) *then = row->then == NULL ? NULL : set_with(row->then);
    OWNED(policy_set) *now = set_with(row->now);
    struct plan_question question = {.target_id = row->cidr};

    assert_int_equal(plan_network(now, row->cidr, then, &question), row->expected != NULL);
    if (row->expected == NULL) return;
    assert_string_equal(question.target_id, row->expected);
    assert_int_equal(question.target != NULL, strcmp(row->expected, "client") != 0);
}

/* ---- classes ---- */

static const char restriction[] =
    "{\"apiVersion\":\"sijil.policy/v1\",\"kind\":\"ResidencyPolicy\",\"closed\":false,\"metadata\":{\"id\":\"acme.shut\",\"version\":1,"
    "\"organisation\":\"acme\",\"scope\":[\"acme/models/shut/**\",\"acme/gone/**\"],\"effective_from\":\"2026-01-01T00:00:00Z\","
    "\"review_by\":\"2030-01-01\"},\"rules\":[{\"id\":\"A-SHUT\",\"effect\":\"deny\",\"ops\":[\"read\"],\"target\":{\"geo_within\":[\"AE\"]},\"message\":\"No.\"}]}";

static const struct class_row {
    const char *name, *other; /* than acme/models/a */
    bool with_restriction, is_same;
} class_rows[] = {
    {"another repository", "acme/models/b", true, true},
    {"one with a label of its own", "acme/models/top", true, false},
    {"another project", "acme/health/a", true, false},
    {"one that its organisation restricts", "acme/models/shut/a", true, false},
    {"one that nobody restricts", "acme/models/shut/a", false, true},
};

static void class_of(const struct policy_plan *plan, const char *name, struct buffer *text)
{
    struct error err = {0};

    buffer_clear(text);
    must(policy_plan_class(plan, name, text, &err), &err);
}

static struct result no_repository(void *context, const char *name, bool *has_out, struct error *err)
{
    (void)context, (void)name, (void)err;
    *has_out = false;
    return SUCCESS;
}

static void names_are_decided_alike(void **state)
{
    const struct class_row *row = *state;
    const struct plan_names nobody = {.has = no_repository};
    struct buffer OWNED_BUFFER one = BUFFER(1 << 16), other = BUFFER(1 << 16);
    OWNED_JSON policy = policy_json(restriction);
    struct restriction_entry entry = {.organisation = "acme", .policy = policy};
    struct trust_rules rules = {.owners = 2, .restrictions = &entry, .restriction_count = row->with_restriction ? 1 : 0};
    struct error err = {0};

    rules.self = &rules;
    struct policy_plan plan = {.snapshot = &snapshot, .proposed = snapshot.set, .now_ms = NOW_MS, .names = &nobody};
    must(restricted_new(snapshot.set, &rules, NULL, &plan.restricted, &err), &err);
    const struct policy_documents *documents = NULL;
    must(restricted_documents(plan.restricted, snapshot.set, "acme/models/a", &documents, &err), &err);
    class_of(&plan, "acme/models/a", &one);
    class_of(&plan, row->other, &other);
    assert_int_equal(strcmp(buffer_text(&one), buffer_text(&other)) == 0, row->is_same);
    restricted_free(plan.restricted);
}

/* ---- groups ---- */

static struct bytes key_of(unsigned number, char text[32])
{
    (void)snprintf(text, 32, "key %08u", number);
    return bytes_of_text(text);
}

static void equal_events_are_one_group(void **state)
{
    OWNED(plan_groups) *groups = NULL;
    struct error err = {0};
    char text[32];
    size_t count = 0;

    (void)state;
    must(plan_groups_new(&groups, &err), &err);
    for (unsigned i = 0; i < 5000; i++) assert_true(plan_groups_add(groups, key_of(i % 1000, text), i));
    const struct plan_group *sorted = plan_groups_sort(groups, &count);
    assert_int_equal(count, 1000);
    for (unsigned i = 0; i < count; i++) {
        const struct bytes key = plan_groups_key(groups, &sorted[i]);
        assert_true(bytes_equal(key, key_of(i, text)));
        assert_int_equal(sorted[i].count, 5);
        for (unsigned k = 0; k < PLAN_EXAMPLES; k++) assert_int_equal(sorted[i].examples[k], i + 1000 * k);
    }
}

/* Full: nothing is lost, and after it was emptied all fits again. */
static void a_full_table_says_so(void **state)
{
    OWNED(plan_groups) *groups = NULL;
    struct error err = {0};
    char text[32];
    unsigned added = 0;
    size_t count = 0;

    (void)state;
    must(plan_groups_new(&groups, &err), &err);
    while (plan_groups_add(groups, key_of(added, text), added)) added++;
    assert_true(plan_groups_add(groups, key_of(0, text), added)); /* one that it has */
    (void)plan_groups_sort(groups, &count);
    assert_int_equal(count, added);
    plan_groups_clear(groups);
    assert_true(plan_groups_add(groups, key_of(added, text), added));
    const struct plan_group *sorted = plan_groups_sort(groups, &count);
    assert_int_equal(count, 1);
    assert_int_equal(sorted[0].count, 1);
}

/* ---- rows ---- */

static struct result add_and_write(void *context, struct error *err)
{
    static const struct plan_answer answers[] = {
        {.change = PLAN_NEWLY_DENIED, .operation = "read", .target = "client", .rule = "R", .policy = "p@1"},
        {.change = PLAN_UNDECIDED, .operation = "", .rule = "network"},
        {.change = PLAN_ALLOWED, .operation = ""}};
    const struct plan_fact facts[] = {{"a", "blob.read", "acme/models/x"}, {"b", "blob.read", "acme/models/x"}};
    const struct plan_group group = {.count = 2, .examples = {7, 9}}, later = {.count = 4, .examples = {1, 8, 10}};
    OWNED_JSON answer = json_object();
    struct planning planning = {.answer = answer};
    struct plan_rows rows;

    if (answer == NULL) return planning_no_memory(err);
    struct result done = plan_rows_init(&rows, err);
    for (size_t i = 0; done.ok && i < COUNT(answers); i++) done = plan_rows_add(&rows, &facts[0], &answers[i], &group, err);
    if (done.ok) done = plan_rows_add(&rows, &facts[0], &answers[0], &later, err);
    if (done.ok) done = plan_rows_add(&rows, &facts[1], &answers[0], &group, err);
    if (done.ok) done = plan_rows_write(&rows, &planning, err);
    plan_rows_done(&rows);
    if (done.ok && context != NULL) *(json_t **)context = json_incref(answer);
    return done;
}

static void rows_are_joined_and_sorted(void **state)
{
    OWNED_JSON answer = NULL;
    struct error err = {0};
    struct buffer OWNED_BUFFER text = BUFFER(4096);

    (void)state;
    must(add_and_write(&answer, &err), &err);
    must(json_write_canonical(&text, answer, &err), &err);
    assert_string_equal(
        buffer_text(&text),
        "{\"newly_allowed\":[],\"newly_denied\":["
        "{\"action\":\"blob.read\",\"actor\":\"a\",\"count\":6,\"examples\":[1,7,8],\"operation\":\"read\",\"policy\":\"p@1\","
        "\"resource\":\"acme/models/x\",\"rule\":\"R\",\"target\":\"client\"},"
        "{\"action\":\"blob.read\",\"actor\":\"b\",\"count\":2,\"examples\":[7,9],\"operation\":\"read\",\"policy\":\"p@1\","
        "\"resource\":\"acme/models/x\",\"rule\":\"R\",\"target\":\"client\"}],"
        "\"requests\":{\"allowed\":2,\"denied\":0,\"newly_allowed\":0,\"newly_denied\":8,\"undecided\":2},"
        "\"undecided\":[{\"action\":\"blob.read\",\"count\":2,\"examples\":[7,9],\"why\":\"network\"}]}");
}

static void each_failure_is_said(void **state)
{
    (void)state;
    fail_each(add_and_write, NULL, ERROR_NONE, 10);
}

static struct result make_groups(void *context, struct error *err)
{
    OWNED(plan_groups) *groups = NULL;

    (void)context;
    return plan_groups_new(&groups, err);
}

static void groups_need_memory(void **state)
{
    (void)state;
    fail_each(make_groups, NULL, ERROR_NO_MEMORY, 4);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(equal_events_are_one_group),
                                              cmocka_unit_test(a_full_table_says_so),
                                              cmocka_unit_test(rows_are_joined_and_sorted),
                                              cmocka_unit_test(each_failure_is_said), cmocka_unit_test(groups_need_memory)};

    make_snapshot();
    const int failed = RUN_TABLE(network_rows, a_client_is_found_or_not_known) + RUN_TABLE(class_rows, names_are_decided_alike) +
                       cmocka_run_group_tests(tests, NULL, NULL);
    forget_snapshot();
    return failed;
}
