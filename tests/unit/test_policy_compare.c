/* What a comparison of two sets says of single edits. */
#include "tests/support/unit.h"

#include <stdio.h>

#include "policy/compare.h"
#include "policy/evaluate.h"
#include "tests/support/policy.h"

#define NOW "2026-12-15T00:00:00Z"

/* A set: members of the policy, its rules, and members of the set. */
struct made {
    const char *metadata, *policy, *rules, *set;
};

#define PERMIT  "{\"id\":\"P-1\",\"effect\":\"permit\",\"ops\":[\"ingest\",\"read\"],\"when\":{\"class_at_most\":\"sensitive\"}}"
#define REQUIRE "{\"id\":\"R-1\",\"effect\":\"require\",\"ops\":[\"ingest\"],\"target\":{\"geo_within\":[\"AE\"]}}"
#define OBLIGE(days) \
    "{\"id\":\"O-1\",\"effect\":\"oblige\",\"ops\":[\"ingest\"],\"oblige\":{\"retain_min_days\":" #days ",\"notify\":[\"a\"]}}"
#define GROUP_RULE      "{\"id\":\"G-1\",\"effect\":\"require\",\"ops\":[\"ingest\"],\"target\":{\"geo_in_group\":[\"GCC\"]}}"
#define GROUPS(members) "\"groups\":{\"GCC\":{\"kind\":\"geo\",\"members\":[" members "]}}"
#define REGION(geo)     "\"regions\":{\"azure/one\":{\"geo\":\"" geo "\"}}"
#define NETWORK(cidr)   "\"networks\":[{\"cidr\":\"" cidr "\",\"facts\":{\"geo\":\"AE\"}}]"
#define READ_AE         "{\"id\":\"A-1\",\"effect\":\"require\",\"ops\":[\"read\"],\"target\":{\"geo_within\":[\"AE\"]}}"
#define CERTIFIED       "{\"id\":\"C-1\",\"effect\":\"require\",\"ops\":[\"ingest\"],\"target\":{\"attrs_all\":[\"x\"]}}"
#define ATTESTED(until)                                                                     \
    "\"regions\":{\"azure/one\":{\"attrs\":[\"x\"],\"attested\":{\"x\":{\"until\":\"" until \
    "\",\"evidence\":\"sha256:0000000000000000000000000000000000000000000000000000000000000000\"}}}}"
#define TYPE(days) \
    "\"exception_types\":{\"t\":{\"lifts\":[\"R-1\"],\"required_evidence\":[],\"max_days\":" #days ",\"approvals\":2}}"

static const struct made base = {"", "", PERMIT "," REQUIRE, ""};

static const struct edit_row {
    const char *name;
    struct made old, new;
    int change;                                          /* the first difference; -1: there is none */
    const char *old_rule, *new_rule, *operation, *where; /* where: scope or target_id; NULL: any */
} edits[] = {
    {"the same set", base, base, -1, "", "", "", NULL},
    {"an attestation lasts longer",
     {"", "", PERMIT "," CERTIFIED, ATTESTED("2026-12-31")},
     {"", "", PERMIT "," CERTIFIED, ATTESTED("2027-12-31")},
     POLICY_NEWLY_ALLOWED,
     "C-1",
     "P-1",
     "ingest",
     "azure/one"},
    {"an attestation that has ended is renewed",
     {"", "", PERMIT "," CERTIFIED, ATTESTED("2026-12-01")},
     {"", "", PERMIT "," CERTIFIED, ATTESTED("2027-12-31")},
     POLICY_NEWLY_ALLOWED,
     "C-1",
     "P-1",
     "ingest",
     "azure/one"},
    {"two ends in the past",
     {"", "", PERMIT "," CERTIFIED, ATTESTED("2026-12-01")},
     {"", "", PERMIT "," CERTIFIED, ATTESTED("2026-12-02")},
     -1,
     "",
     "",
     "",
     NULL},
    {"a rule is gone", base, {"", "", PERMIT, ""}, POLICY_NEWLY_ALLOWED, "R-1", "P-1", "ingest", "organisation/project/name"},
    {"a rule comes", {"", "", PERMIT, ""}, base, POLICY_NEWLY_DENIED, "P-1", "R-1", "ingest", NULL},
    {"a redundant rule comes",
     base,
     {"", "",
      PERMIT "," REQUIRE
             ",{\"id\":\"R2-1\",\"effect\":\"require\",\"ops\":[\"ingest\"],\"target\":{\"geo_within\":[\"AE\",\"SA\"]}}",
      ""},
     -1,
     "",
     "",
     "",
     NULL},
    {"a place is wider",
     base,
     {"", "", PERMIT ",{\"id\":\"R-1\",\"effect\":\"require\",\"ops\":[\"ingest\"],\"target\":{\"geo_within\":[\"AE\",\"SA\"]}}",
      ""},
     POLICY_NEWLY_ALLOWED,
     "R-1",
     "P-1",
     "ingest",
     NULL},
    {"a permit is wider",
     base,
     {"", "", "{\"id\":\"P-1\",\"effect\":\"permit\",\"ops\":[\"ingest\",\"read\"]}," REQUIRE, ""},
     POLICY_NEWLY_ALLOWED,
     "SYS-CLOSED",
     "P-1",
     "read",
     NULL},
    {"another id of a rule",
     base,
     {"", "", PERMIT ",{\"id\":\"Q-1\",\"effect\":\"require\",\"ops\":[\"ingest\"],\"any_of\":[{\"geo_within\":[\"AE\"]}]}", ""},
     -1,
     "",
     "",
     "",
     NULL},
    {"the scope is narrower",
     base,
     {"\"scope\":[\"a/**\"],", "", PERMIT "," REQUIRE, ""},
     POLICY_NEWLY_DENIED,
     "P-1",
     "SYS-NO-POLICY",
     "read",
     "organisation/project/name"},
    {"a label that content had goes",
     {"", "\"labels\":{\"class\":\"secret\"},", PERMIT, ""},
     {"", "", PERMIT, ""},
     POLICY_NEWLY_ALLOWED,
     "SYS-CLOSED",
     "P-1",
     "read",
     NULL},
    {"a label comes: what had none may now be read",
     {"", "", PERMIT, ""},
     {"", "\"labels\":{\"class\":\"open\"},", PERMIT, ""},
     POLICY_NEWLY_ALLOWED,
     "SYS-UNLABELLED",
     "P-1",
     "read",
     NULL},
    {"a rule begins later",
     base,
     {"\"effective_from\":\"2027-06-01T00:00:00Z\",", "", PERMIT "," REQUIRE, ""},
     POLICY_NEWLY_DENIED,
     "P-1",
     "SYS-NO-POLICY",
     "read",
     NULL},
    {"a group is wider",
     {"", "", PERMIT "," GROUP_RULE, GROUPS("\"AE\"")},
     {"", "", PERMIT "," GROUP_RULE, GROUPS("\"AE\",\"SA\"")},
     POLICY_NEWLY_ALLOWED,
     "G-1",
     "P-1",
     "ingest",
     NULL},
    {"a group is narrower",
     {"", "", PERMIT "," GROUP_RULE, GROUPS("\"AE\",\"SA\"")},
     {"", "", PERMIT "," GROUP_RULE, GROUPS("\"AE\"")},
     POLICY_NEWLY_DENIED,
     "P-1",
     "G-1",
     "ingest",
     NULL},
    {"a region says another place",
     {"", "", PERMIT "," REQUIRE, REGION("SA")},
     {"", "", PERMIT "," REQUIRE, REGION("AE")},
     POLICY_NEWLY_ALLOWED,
     "R-1",
     "P-1",
     "ingest",
     "azure/one"},
    {"a region is gone",
     {"", "", PERMIT "," REQUIRE, REGION("AE")},
     base,
     POLICY_NEWLY_DENIED,
     "P-1",
     "R-1",
     "ingest",
     "azure/one"},
    {"a network is wider",
     {"", "", PERMIT "," READ_AE, NETWORK("10.1.0.0/16")},
     {"", "", PERMIT "," READ_AE, NETWORK("10.0.0.0/15")},
     POLICY_NEWLY_ALLOWED,
     "A-1",
     "P-1",
     "read",
     "10.0.0.0/15"},
    {"content is kept shorter",
     {"", "", PERMIT "," OBLIGE(30), ""},
     {"", "", PERMIT "," OBLIGE(20), ""},
     POLICY_DUTY_FALLS,
     "O-1",
     "",
     "ingest",
     NULL},
    {"content is kept longer",
     {"", "", PERMIT "," OBLIGE(30), ""},
     {"", "", PERMIT "," OBLIGE(40), ""},
     POLICY_DUTY_RISES,
     "",
     "O-1",
     "ingest",
     NULL},
    {"an exception may last longer",
     {"", TYPE(10) ",", PERMIT "," REQUIRE, ""},
     {"", TYPE(20) ",", PERMIT "," REQUIRE, ""},
     POLICY_TYPE_WIDENED,
     "",
     "t",
     "ingest",
     NULL},
    {"an exception may last shorter",
     {"", TYPE(20) ",", PERMIT "," REQUIRE, ""},
     {"", TYPE(10) ",", PERMIT "," REQUIRE, ""},
     -1,
     "",
     "",
     "",
     NULL},
    {"labels lose their effect",
     base,
     {"", "", PERMIT "," REQUIRE, "\"declassified\":[{\"policy\":\"old\",\"scope\":[\"a/b/**\"],\"reason\":\"r\"}]"},
     POLICY_DECLASSIFIED,
     "",
     "",
     "read",
     "a/b/**"},
    {"a narrower declassification",
     {"", "", PERMIT "," REQUIRE, "\"declassified\":[{\"policy\":\"old\",\"scope\":[\"a/**\"],\"reason\":\"r\"}]"},
     {"", "", PERMIT "," REQUIRE, "\"declassified\":[{\"policy\":\"old\",\"scope\":[\"a/b/*\"],\"reason\":\"r\"}]"},
     -1,
     "",
     "",
     "",
     NULL},
};

static struct policy_set *set_of(const struct made *made)
{
    struct buffer OWNED_BUFFER text = BUFFER(1 << 16), payload = BUFFER(POLICY_SET_BYTES_MAX);
    struct policy_set *set = NULL;
    struct error err = {0};

    must(
        buffer_format(
            &text, &err,
            "{%s%s\"policies\":[{\"apiVersion\":\"sijil.policy/v1\",\"kind\":\"ResidencyPolicy\",\"metadata\":{%s%s%s\"id\":\"pp\","
            "\"version\":1,\"review_by\":\"2027-01-01\"},%s\"rules\":[%s]}]}",
            made->set, made->set[0] == '\0' ? "" : ",", made->metadata,
            strstr(made->metadata, "scope") != NULL ? "" : "\"scope\":[\"**\"],",
            strstr(made->metadata, "effective") != NULL ? "" : "\"effective_from\":\"2026-01-01T00:00:00Z\",", made->policy,
            made->rules),
        &err);
    OWNED_JSON json = policy_json(buffer_text(&text));
    const struct policy_set_parts parts = {.epoch = 1,
                                           .policies = json_object_get(json, "policies"),
                                           .regions = json_object_get(json, "regions"),
                                           .groups = json_object_get(json, "groups"),
                                           .networks = json_object_get(json, "networks"),
                                           .declassified = json_object_get(json, "declassified")};
    must(policy_set_compose(&parts, &payload, &err), &err);
    must(policy_set_compile(buffer_bytes(&payload), &set, &err), &err);
    return set;
}

static struct policy_compared compared_at_now(const struct policy_set *old, const struct policy_set *new)
{
    struct policy_compared compared = {.old_set = old, .new_set = new};

    assert_true(policy_time_parse(bytes_of_text(NOW), &compared.now_us));
    return compared;
}

static bool names_operation(uint32_t operations, const char *name)
{
    for (unsigned op = 0; op < OP_COUNT; op++)
        if ((operations >> op & 1) != 0 && strcmp(policy_operation_name(1U << op), name) == 0) return true;
    return false;
}

static void edit_is_named(void **state)
{
    const struct edit_row *row = *state;
    OWNED(policy_set) *old = set_of(&row->old);
    OWNED(policy_set) *new = set_of(&row->new);
    OWNED(policy_comparison) *comparison = NULL;
    const struct policy_compared compared = compared_at_now(old, new);
    struct buffer OWNED_BUFFER text = BUFFER(1 << 20);
    struct error err = {0};

    must(policy_compare(&compared, &comparison, &err), &err);
    must(policy_comparison_write(comparison, &text, &err), &err);
    if (row->change < 0) {
        if (policy_comparison_count(comparison) > 0) fail_msg("%s", buffer_text(&text));
        assert_false(policy_comparison_is_loosening(comparison));
        return;
    }
    assert_true(policy_comparison_count(comparison) > 0);
    const struct policy_difference *first = policy_comparison_at(comparison, 0);
    if ((int)first->change != row->change || strcmp(first->old_rule, row->old_rule) != 0 ||
        strcmp(first->new_rule, row->new_rule) != 0 || !names_operation(first->operations, row->operation) ||
        (row->where != NULL && strcmp(row->where, first->target_id[0] == '\0' ? first->scope : first->target_id) != 0))
        fail_msg("%.4000s", buffer_text(&text));
    assert_int_equal(policy_comparison_is_loosening(comparison), policy_change_loosens(first->change));
}

static void what_begins_later_says_when(void **state)
{
    const struct made later = {"\"effective_from\":\"2027-06-01T00:00:00.0004Z\",", "",
                               "{\"id\":\"P-1\",\"effect\":\"permit\",\"ops\":[\"read\"]}", ""};
    const struct made never = {"\"effective_from\":\"2099-06-01T00:00:00Z\",", "",
                               "{\"id\":\"P-1\",\"effect\":\"permit\",\"ops\":[\"read\"]}", ""};
    OWNED(policy_set) *old = set_of(&never);
    OWNED(policy_set) *new = set_of(&later);
    OWNED(policy_comparison) *comparison = NULL;
    const struct policy_compared compared = compared_at_now(old, new);
    struct error err = {0};
    int64_t begins = 0;

    (void)state;
    must(policy_compare(&compared, &comparison, &err), &err);
    assert_true(policy_time_parse(bytes_of_text("2027-06-01T00:00:00.001Z"), &begins)); /* the first whole millisecond */
    assert_int_equal(policy_comparison_at(comparison, 0)->change, POLICY_NEWLY_ALLOWED);
    assert_int_equal(policy_comparison_at(comparison, 0)->from_us, begins);
}

/* A label may hold the pin of a policy that an earlier set had: then a new policy of that id lets its content go free. */
static void pins_count_unless_the_id_is_new(void **state)
{
    const struct made two = {"", "", PERMIT, ""};
    OWNED(policy_set) *old = set_of(&two);
    OWNED(policy_comparison) *comparison = NULL;
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX);
    OWNED(policy_set) *new = NULL;
    static const char *const unused[] = {"another"};
    struct error err = {0};

    (void)state;
    struct buffer OWNED_BUFFER written = BUFFER(POLICY_SET_BYTES_MAX);
    must(policy_set_write(old, &written, &err), &err);
    OWNED_JSON json = policy_json(buffer_text(&written));
    OWNED_JSON another =
        policy_json("{\"apiVersion\":\"sijil.policy/v1\",\"kind\":\"ResidencyPolicy\",\"closed\":false,\"metadata\":{"
                    "\"id\":\"another\",\"version\":1,\"scope\":[\"**\"],\"effective_from\":\"2026-01-01T00:00:00Z\","
                    "\"review_by\":\"2027-01-01\"},\"rules\":[" REQUIRE "]}");
    assert_int_equal(json_array_append(json_object_get(json, "policies"), another), 0);
    const struct policy_set_parts parts = {.epoch = 2, .policies = json_object_get(json, "policies")};
    must(policy_set_compose(&parts, &payload, &err), &err);
    must(policy_set_compile(buffer_bytes(&payload), &new, &err), &err);

    struct policy_compared compared = compared_at_now(old, new);
    must(policy_compare(&compared, &comparison, &err), &err);
    assert_string_equal(policy_comparison_at(comparison, 0)->old_rule, "SYS-PIN-MISSING");
    assert_true(policy_comparison_is_loosening(comparison));
    policy_comparison_free(GIVE(comparison));

    compared.unused_id_count = 1;
    compared.unused_ids = unused;
    must(policy_compare(&compared, &comparison, &err), &err);
    assert_false(policy_comparison_is_loosening(comparison));
    assert_int_equal(policy_comparison_at(comparison, 0)->change, POLICY_NEWLY_DENIED);
}

#define DIGEST "sha256:1111111111111111111111111111111111111111111111111111111111111111"

/* What an exception lifts is allowed for its project, digest and target alone, while it lasts. */
static void an_exception_loosens(void **state)
{
    const struct made liftable = {"", TYPE(40) ",", PERMIT "," REQUIRE, ""};
    OWNED(policy_set) *old = set_of(&liftable);
    OWNED(policy_set) *new = NULL;
    OWNED(policy_comparison) *comparison = NULL;
    struct buffer OWNED_BUFFER written = BUFFER(POLICY_SET_BYTES_MAX), payload = BUFFER(POLICY_SET_BYTES_MAX),
                               described = BUFFER(1 << 16);
    struct error err = {0};

    (void)state;
    must(policy_set_write(old, &written, &err), &err);
    must(policy_set_describe(old, &described, &err), &err);
    OWNED_JSON json = policy_json(buffer_text(&written));
    OWNED_JSON policies = policy_json(buffer_text(&described));
    const char *digest = json_text_of(json_array_get(json_object_get(policies, "policies"), 0), "digest");
    OWNED_JSON exceptions = json_pack(
        "[{s:s, s:s, s:s, s:s, s:s, s:{s:s, s:i, s:s}, s:[s], s:[s], s:[s], s:[s], s:s, s:s, s:{s:s, s:s}, s:[{s:s, s:s}, {s:s, s:s}], s:{}}]",
        "apiVersion", "sijil.policy/v1", "kind", "ResidencyException", "id", "x1", "type", "t", "project",
        "5f0c8f0e-93a1-4c1a-8a4e-0d8f6d1f2b30", "policy", "id", "pp", "version", 1, "digest", digest, "lifts", "R-1", "ops",
        "ingest", "targets", "azure/one", "digests", DIGEST, "not_before", "2027-01-01T00:00:00Z", "not_after",
        "2027-01-20T00:00:00Z", "requested_by", "iss", "i", "sub", "a", "approvals", "iss", "i", "sub", "b", "iss", "i", "sub",
        "c", "evidence");
    const struct policy_set_parts parts = {.epoch = 2, .policies = json_object_get(json, "policies"), .exceptions = exceptions};
    must(policy_set_compose(&parts, &payload, &err), &err);
    must(policy_set_compile(buffer_bytes(&payload), &new, &err), &err);
    const struct policy_compared compared = compared_at_now(old, new);
    must(policy_compare(&compared, &comparison, &err), &err);

    assert_int_equal(policy_comparison_count(comparison), 1);
    const struct policy_difference *only = policy_comparison_at(comparison, 0);
    const json_t *facts = json_object_get(only->witness, "new");
    int64_t begins = 0;
    assert_true(policy_time_parse(bytes_of_text("2027-01-01T00:00:00Z"), &begins));
    assert_int_equal(only->change, POLICY_NEWLY_ALLOWED);
    assert_string_equal(only->old_rule, "R-1");
    assert_int_equal(only->from_us, begins);
    assert_int_equal(only->operations, OP_INGEST);
    assert_string_equal(json_text_of(facts, "digest"), DIGEST);
    assert_string_equal(json_text_of(facts, "target_id"), "azure/one");
}

/* No sample is taken: what is not looked at is a doubt, and a doubt loosens. */
static void without_steps_there_is_doubt(void **state)
{
    const struct made tighter = {"", "", PERMIT "," REQUIRE "," READ_AE, ""};
    OWNED(policy_set) *old = set_of(&base);
    OWNED(policy_set) *new = set_of(&tighter);
    struct policy_compared compared = compared_at_now(old, new);
    struct error err = {0};

    (void)state;
    for (uint64_t steps = 1; steps < 100000; steps = steps * 3 + 1) {
        OWNED(policy_comparison) *comparison = NULL;
        compared.steps_max = steps;
        must(policy_compare(&compared, &comparison, &err), &err);
        const bool loosens = policy_comparison_is_loosening(comparison);
        if (steps < 1000) assert_true(loosens);
        if (loosens) assert_int_equal(policy_comparison_at(comparison, 0)->change, POLICY_DOUBT);
    }
    OWNED(policy_comparison) *whole = NULL;
    compared.steps_max = 0;
    must(policy_compare(&compared, &whole, &err), &err);
    assert_false(policy_comparison_is_loosening(whole));
}

static struct result compare_once(void *context, struct error *err)
{
    OWNED(policy_comparison) *comparison = NULL;
    struct buffer OWNED_BUFFER text = BUFFER(1 << 20);

    TRY(policy_compare(context, &comparison, err));
    return policy_comparison_write(comparison, &text, err);
}

static void each_failure_is_said(void **state)
{
    const struct made looser = {"", TYPE(5) ",", PERMIT, REGION("AE")};
    OWNED(policy_set) *old = set_of(&base);
    OWNED(policy_set) *new = set_of(&looser);
    struct policy_compared compared = compared_at_now(old, new);

    (void)state;
    fail_each(compare_once, &compared, ERROR_NO_MEMORY, 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_begins_later_says_when), cmocka_unit_test(pins_count_unless_the_id_is_new),
        cmocka_unit_test(an_exception_loosens),        cmocka_unit_test(without_steps_there_is_doubt),
        cmocka_unit_test(each_failure_is_said),
    };

    return RUN_TABLE(edits, edit_is_named) + cmocka_run_group_tests_name("policy_compare", tests, NULL, NULL);
}
