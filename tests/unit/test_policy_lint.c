/* Findings about policy sets: one of each kind, and over a small universe exactly those that trying all of it gives. */
#include "tests/support/unit.h"

#include <stdio.h>

#include "policy/evaluate.h"
#include "policy/lint.h"
#include "tests/support/policy.h"

#define NOW "2026-12-15T00:00:00Z"

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

static struct policy_findings *linted(const struct policy_set *set, const char *const *projects, size_t count)
{
    struct policy_linted asked = {.set = set, .ending_days = POLICY_LINT_DAYS, .projects = projects, .project_count = count};
    struct policy_findings *findings = NULL;
    struct error err = {0};

    assert_true(policy_time_parse(bytes_of_text(NOW), &asked.now_us));
    must(policy_lint(&asked, &findings, &err), &err);
    return findings;
}

static bool has(const struct policy_findings *findings, enum policy_finding_code code, const char *policy, const char *rule)
{
    for (size_t i = 0; i < policy_findings_count(findings); i++) {
        const struct policy_finding *one = policy_findings_at(findings, i);
        if (one->code == code && strcmp(one->policy, policy) == 0 && (rule == NULL || strcmp(one->rule, rule) == 0)) return true;
    }
    return false;
}

/* --- one of each kind --- */

#define PERMIT "{\"id\":\"P1\",\"effect\":\"permit\",\"ops\":[\"ingest\",\"read\"],\"when\":{\"class_at_most\":\"sensitive\"}}"
#define STORE(id, places) \
    "{\"id\":\"" id "\",\"effect\":\"require\",\"ops\":[\"ingest\"],\"target\":{\"geo_within\":[" places "]}}"
#define OF_KEYS(more) \
    "{\"id\":\"K1\",\"effect\":\"require\",\"ops\":[\"key-wrap\"" more "],\"target\":{\"key_geo_within\":[\"AE\"]}}"
#define DUTY(op, duty) "{\"id\":\"D1\",\"effect\":\"oblige\",\"ops\":[\"" op "\"],\"oblige\":{\"" duty "\":9}}"
#define DIGEST         "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define EXCEPTION(target, days)                                                                                                            \
    "\"exceptions\":[{\"apiVersion\":\"sijil.policy/v1\",\"kind\":\"ResidencyException\",\"id\":\"x1\",\"type\":\"t\",\"policy\":{\"id\":" \
    "\"pp\",\"version\":1,\"digest\":\"" DIGEST "\"},\"project\":\"20000000-0000-4000-8000-000000000001\",\"lifts\":[\"S1\"],"             \
    "\"ops\":[\"ingest\"],\"targets\":[\"" target "\"],\"digests\":[\"" DIGEST "\"],\"not_before\":\"2026-12-01T00:00:00Z\","              \
    "\"not_after\":\"" days "\",\"evidence\":{},\"requested_by\":{\"iss\":\"i\",\"sub\":\"a\"},\"approvals\":[{\"iss\":\"i\","             \
    "\"sub\":\"b\"},{\"iss\":\"i\",\"sub\":\"c\"}]}]"
#define GROUP(kind, members) "\"groups\":{\"GCC\":{\"kind\":\"" kind "\",\"members\":[" members "],\"review_by\":\"2026-12-20\"}}"
#define IN_GROUP             "{\"id\":\"G1\",\"effect\":\"require\",\"ops\":[\"ingest\"],\"target\":{\"geo_in_group\":[\"GCC\"]}}"

static const struct finding_row {
    const char *name, *metadata, *policy, *rules, *set;
    int code; /* -1: there is no finding */
    const char *of_policy, *rule;
} finding_rows[] = {
    {"nothing is wrong", "", "", PERMIT "," STORE("S1", "\"AE\""), "\"regions\":{\"a/one\":{\"geo\":\"AE\"}}", -1, "", ""},
    {"a floor above the label of a permit", "", "\"labels\":{\"class\":\"secret\"},", PERMIT, "", FINDING_NEVER_MATCHES, "pp@1",
     "P1"},
    {"a floor that lets nothing through", "", "\"labels\":{\"class\":\"secret\"},", PERMIT, "", FINDING_NOTHING_ALLOWED, "",
     NULL},
    {"a rule behind a stricter one", "", "", PERMIT "," STORE("S1", "\"AE\",\"SA\"") "," STORE("S2", "\"AE\""), "",
     FINDING_SHADOWED, "pp@1", "S1"},
    {"a permit behind a wider one", "", "",
     PERMIT ",{\"id\":\"P2\",\"effect\":\"permit\",\"ops\":[\"read\"],\"when\":{\"class_at_most\":\"open\"}}", "",
     FINDING_SHADOWED, "pp@1", "P2"},
    {"two rules that no place meets", "", "", PERMIT "," STORE("S1", "\"AE\"") "," STORE("S2", "\"SA\""), "",
     FINDING_CONTRADICTED, "pp@1", "P1"},
    {"a permit of what two rules deny", "", "",
     "{\"id\":\"P2\",\"effect\":\"permit\",\"ops\":[\"ingest\"]}," STORE("S1", "\"AE\"") "," STORE("S2", "\"SA\""), "",
     FINDING_NEVER_ALLOWS, "pp@1", "P2"},
    {"no region for content", "", "", PERMIT "," STORE("S1", "\"AE\""), "\"regions\":{\"a/one\":{\"geo\":\"SA\"}}",
     FINDING_NO_REGION, "", NULL},
    {"duties that contradict each other", "", "",
     PERMIT
     ",{\"id\":\"O1\",\"effect\":\"oblige\",\"ops\":[\"ingest\"],\"oblige\":{\"retain_min_days\":9}},{\"id\":\"O2\",\"effect\":"
     "\"oblige\",\"ops\":[\"ingest\"],\"when\":{\"class_at_least\":\"sensitive\"},\"oblige\":{\"retain_max_days\":5}}",
     "", FINDING_RETENTION, "", NULL},
    {"a rule for keys alone", "", "", PERMIT "," OF_KEYS(""), "", FINDING_NEVER_ASKED, "pp@1", "K1"},
    {"retention of reads", "", "", PERMIT "," DUTY("read", "retain_min_days"), "", FINDING_NEVER_ASKED, "pp@1", "D1"},
    {"events of keys are kept", "", "", PERMIT "," DUTY("key-wrap", "audit_retain_min_days"), "", -1, "", ""},
    {"a rule for keys, too", "", "", PERMIT "," OF_KEYS(",\"ingest\""), "", -1, "", ""},
    {"a group that is not there", "", "", PERMIT "," IN_GROUP, "", FINDING_UNKNOWN_GROUP, "pp@1", "G1"},
    {"a group of another kind", "", "", PERMIT "," IN_GROUP, GROUP("regime", "\"DIFC\""), FINDING_UNKNOWN_GROUP, "pp@1", "G1"},
    {"a group that nobody names", "", "", PERMIT, GROUP("geo", "\"AE\""), FINDING_UNUSED_GROUP, "", NULL},
    {"a group whose review is near", "", "", PERMIT "," IN_GROUP, GROUP("geo", "\"AE\""), FINDING_ENDS_SOON, "", NULL},
    {"a regime that nothing has", "", "",
     PERMIT ",{\"id\":\"R1\",\"effect\":\"require\",\"ops\":[\"ingest\"],\"target\":{\"regime_any\":[\"DIFC\"]}}", "",
     FINDING_UNKNOWN_REGIME, "pp@1", "R1"},
    {"an exception for another content of the policy", "", "", PERMIT, EXCEPTION("a/one", "2026-12-20T00:00:00Z"),
     FINDING_UNKNOWN_POLICY, "", NULL},
    {"an exception for a region that is not there", "", "", PERMIT, EXCEPTION("a/one", "2026-12-20T00:00:00Z"),
     FINDING_UNKNOWN_REGION, "", NULL},
    {"an exception that has ended", "", "", PERMIT, EXCEPTION("a/one", "2026-12-15T00:00:00Z"), FINDING_EXPIRED, "", NULL},
    {"a review that is over", "\"review_by\":\"2026-12-14\",", "", PERMIT, "", FINDING_EXPIRED, "pp@1", ""},
    {"a review of today", "\"review_by\":\"2026-12-15\",", "", PERMIT, "", FINDING_ENDS_SOON, "pp@1", ""},
    {"a review far away", "\"review_by\":\"2027-01-14\",", "", PERMIT, "", -1, "", ""},
    {"a policy of tomorrow", "\"effective_from\":\"2026-12-16T00:00:00Z\",", "", PERMIT, "", FINDING_NOT_YET, "pp@1", ""},
    {"a scope without a project", "\"scope\":[\"**\",\"acme/models/**\",\"acme/other/**\"],", "", PERMIT, "", FINDING_NO_PROJECT,
     "pp@1", ""},
};

static json_t *row_json(const struct finding_row *row)
{
    struct buffer OWNED_BUFFER text = BUFFER(1 << 16);
    struct error err = {0};

    must(
        buffer_format(
            &text, &err,
            "{%s%s\"policies\":[{\"apiVersion\":\"sijil.policy/v1\",\"kind\":\"ResidencyPolicy\",\"metadata\":{%s%s%s%s\"id\":\"pp\","
            "\"version\":1},%s\"rules\":[%s]}]}",
            row->set, row->set[0] == '\0' ? "" : ",", row->metadata,
            strstr(row->metadata, "scope") != NULL ? "" : "\"scope\":[\"**\"],",
            strstr(row->metadata, "effective") != NULL ? "" : "\"effective_from\":\"2026-01-01T00:00:00Z\",",
            strstr(row->metadata, "review") != NULL ? "" : "\"review_by\":\"2028-01-01\",", row->policy, row->rules),
        &err);
    return policy_json(buffer_text(&text));
}

static void finding_is_said(void **state)
{
    static const char *const projects[] = {"main/data", "acme/models"};
    const struct finding_row *row = *state;
    OWNED_JSON json = row_json(row);
    OWNED(policy_set) *set = compiled(json);
    OWNED(policy_findings) *findings = linted(set, projects, COUNT(projects));

    if (row->code < 0 && policy_findings_count(findings) == 0) return;
    if (row->code >= 0 && has(findings, (enum policy_finding_code)row->code, row->of_policy, row->rule)) return;
    for (size_t i = 0; i < policy_findings_count(findings); i++)
        print_message("%s: %s\n", policy_finding_name(policy_findings_at(findings, i)->code),
                      policy_findings_at(findings, i)->what);
    fail();
}

static void a_scope_with_projects_is_not_said(void **state)
{
    static const char *const projects[] = {"main/data", "acme/models"};
    const struct finding_row *row = &finding_rows[COUNT(finding_rows) - 1];
    OWNED_JSON json = row_json(row);
    OWNED(policy_set) *set = compiled(json);
    OWNED(policy_findings) *findings = linted(set, projects, COUNT(projects));
    size_t said = 0;

    (void)state;
    for (size_t i = 0; i < policy_findings_count(findings); i++) {
        if (policy_findings_at(findings, i)->code != FINDING_NO_PROJECT) continue;
        assert_string_equal(policy_findings_at(findings, i)->about, "acme/other/**");
        said++;
    }
    assert_int_equal(said, 1);
}

/* --- by force --- */

static unsigned random_state = 5;

static unsigned drawn(unsigned below)
{
    random_state = random_state * 1664525U + 1013904223U;
    return (random_state >> 16) % below;
}

static const char *const class_words[] = {"open", "confidential", "sensitive", "secret"};
static const char *const scope_words[] = {"**", "a/**", "b/**"};
static const char *const name_words[] = {"a/x/n", "b/x/n", "x/y/z"};
static const char *const policy_ids[] = {"p0", "p1"};

static json_t *random_when(bool permits)
{
    json_t *when = json_object();

    if (drawn(3) == 0)
        (void)json_object_set_new(when, permits ? "class_at_most" : "class_at_least", json_string(class_words[drawn(4)]));
    if (drawn(3) == 0) (void)json_object_set_new(when, permits ? "subjects_none" : "subjects_any", json_pack("[s]", "health"));
    return when;
}

static json_t *random_places(void)
{
    switch (drawn(3)) {
    case 0: return json_pack("[s]", "AE");
    case 1: return json_pack("[s]", "SA");
    default: return json_pack("[s, s]", "AE", "SA");
    }
}

static json_t *random_rule(unsigned number)
{
    static const char *const effects[] = {"require", "deny", "permit", "permit", "oblige"};
    const char *effect = effects[drawn(5)];
    const bool permits = strcmp(effect, "permit") == 0;
    char id[16]; /* "R" and a number */

    (void)snprintf(id, sizeof id, "R%u", number);
    json_t *rule = json_pack("{s:s, s:s, s:o, s:o}", "id", id, "effect", effect, "ops",
                             drawn(2) == 0 ? json_pack("[s]", "ingest") : json_pack("[s, s]", "ingest", "export"), "when",
                             random_when(permits));
    if (strcmp(effect, "oblige") == 0)
        (void)json_object_set_new(rule, "oblige", json_pack("{s:i}", "retain_min_days", (int)drawn(3) + 1));
    else if (!permits) (void)json_object_set_new(rule, "target", json_pack("{s:o}", "geo_within", random_places()));
    return rule;
}

static json_t *random_policy(const char *id)
{
    json_t *rules = json_array(), *metadata = NULL, *policy = NULL;
    const unsigned count = 2 + drawn(3);

    for (unsigned i = 0; i < count; i++) (void)json_array_append_new(rules, random_rule(i));
    metadata = json_pack("{s:s, s:i, s:[s], s:s, s:s}", "id", id, "version", 1, "scope", scope_words[drawn(3)], "effective_from",
                         "2026-01-01T00:00:00Z", "review_by", "2028-01-01");
    if (drawn(5) == 0) (void)json_object_set_new(metadata, "applies_to_labels", json_pack("{s:[s]}", "subjects_any", "health"));
    policy = json_pack("{s:s, s:s, s:b, s:o, s:o}", "apiVersion", "sijil.policy/v1", "kind", "ResidencyPolicy", "closed",
                       (int)drawn(2), "metadata", metadata, "rules", rules);
    if (drawn(3) == 0) (void)json_object_set_new(policy, "labels", json_pack("{s:s}", "class", class_words[drawn(4)]));
    return policy;
}

#define LABELS    (4 * 2 * 4 + 1) /* classes, health or not, pins; and none */
#define TARGETS   4
#define QUESTIONS (LABELS * TARGETS * 3 * 2)

struct answers {
    int64_t all[QUESTIONS]; /* twice the days of retention, and one more where it is allowed */
    bool allowed[3];        /* of each name: something */
};

static struct label label_at(size_t index)
{
    struct label label = {.class = (enum label_class)(index % 4), .lineage = LINEAGE_UNKNOWN};

    if (index / 4 % 2 == 1) label.subjects = 1U << SUBJECT_HEALTH;
    for (size_t i = 0; i < 2; i++)
        if ((index / 8 >> i & 1) != 0) label.pins[label.pin_count++] = policy_ids[i];
    return label;
}

static int64_t answer(const struct policy_set *set, const char *name, size_t label_index, const struct policy_target *target,
                      enum policy_operation op, bool *allows_out)
{
    struct label own = label_at(label_index), label;
    struct policy_facts facts = {.op = op, .scope = name, .target_id = "t", .target = target};
    struct label_query query = {.documents = policy_set_documents(set), .scope = name};
    OWNED(policy_decision) *decision = NULL;
    const char *rule = NULL, *policy = NULL;
    bool is_labelled = false;
    struct error err = {0};

    assert_true(policy_time_parse(bytes_of_text(NOW), &query.now_us));
    facts.now_us = query.now_us;
    must(policy_effective_label(&query, label_index + 1 == LABELS ? NULL : &own, &label, &is_labelled, &err), &err);
    facts.label = is_labelled ? &label : NULL;
    must(policy_evaluate(policy_set_documents(set), &facts, policy_set_groups(set), &decision, &err), &err);
    *allows_out = policy_decision_allows(decision);
    return 2 * policy_decision_retains(decision, &rule, &policy) + *allows_out;
}

static void ask_all(json_t *json, struct policy_target *const targets[TARGETS], struct answers *answers)
{
    OWNED(policy_set) *set = compiled(json);
    size_t at = 0;

    memset(answers, 0, sizeof *answers);
    for (size_t n = 0; n < 3; n++)
        for (size_t l = 0; l < LABELS; l++)
            for (size_t t = 0; t < TARGETS; t++)
                for (size_t o = 0; o < 2; o++) {
                    bool allows = false;
                    answers->all[at++] = answer(set, name_words[n], l, targets[t], o == 0 ? OP_INGEST : OP_EXPORT, &allows);
                    answers->allowed[n] |= allows;
                }
    assert_int_equal(at, QUESTIONS);
}

static bool names_rule(const struct policy_findings *findings, const char *policy, const char *rule)
{
    return has(findings, FINDING_NEVER_MATCHES, policy, rule) || has(findings, FINDING_NEVER_DENIES, policy, rule) ||
           has(findings, FINDING_SHADOWED, policy, rule) || has(findings, FINDING_NEVER_ALLOWS, policy, rule);
}

static unsigned idle, busy, locked;

/* A rule is named exactly if every answer is the same without it. */
static void check_rules(json_t *json, const struct policy_findings *findings, struct policy_target *const targets[TARGETS],
                        const struct answers *whole)
{
    static struct answers without;
    const size_t policies = json_array_size(json_object_get(json, "policies"));

    for (size_t p = 0; p < policies; p++) {
        const size_t rules = json_array_size(json_object_get(json_array_get(json_object_get(json, "policies"), p), "rules"));
        for (size_t r = 0; r < rules; r++) {
            OWNED_JSON copy = json_deep_copy(json);
            json_t *list = json_object_get(json_array_get(json_object_get(copy, "policies"), p), "rules");
            char policy[16], rule[32];
            (void)snprintf(policy, sizeof policy, "%s@1", policy_ids[p]);
            (void)snprintf(rule, sizeof rule, "R%zu", r);
            (void)json_array_remove(list, r);
            ask_all(copy, targets, &without);
            const bool is_idle = memcmp(whole->all, without.all, sizeof without.all) == 0;
            if (is_idle != names_rule(findings, policy, rule)) {
                char *text = json_dumps(json, 0);
                fail_msg("%s %s %s: %s", policy, rule, is_idle ? "decides nothing" : "decides something", text);
            }
            *(is_idle ? &idle : &busy) += 1;
        }
    }
}

static bool has_permit(const json_t *policy)
{
    const json_t *rules = json_object_get(policy, "rules");

    for (size_t i = 0; i < json_array_size(rules); i++)
        if (strcmp(json_text_of(json_array_get(rules, i), "effect"), "permit") == 0) return true;
    return false;
}

/* Whether a policy in scope permits something. */
static bool is_permitted(const json_t *json, const char *name)
{
    const json_t *policies = json_object_get(json, "policies");

    for (size_t i = 0; i < json_array_size(policies); i++) {
        const char *scope = json_string_value(
            json_array_get(json_object_get(json_object_get(json_array_get(policies, i), "metadata"), "scope"), 0));
        if ((scope[0] == '*' || scope[0] == name[0]) && has_permit(json_array_get(policies, i))) return true;
    }
    return false;
}

static void check_set(json_t *json, struct policy_target *const targets[TARGETS])
{
    static struct answers whole;
    OWNED(policy_set) *set = compiled(json);
    OWNED(policy_findings) *findings = linted(set, NULL, 0);
    bool is_locked = false;

    ask_all(json, targets, &whole);
    for (size_t n = 0; n < 3; n++) is_locked |= is_permitted(json, name_words[n]) && !whole.allowed[n];
    assert_int_equal(is_locked, has(findings, FINDING_NOTHING_ALLOWED, "", NULL));
    locked += is_locked;
    check_rules(json, findings, targets, &whole);
}

static void findings_are_those_of_all_facts(void **state)
{
    static const char *const facts[TARGETS] = {"{}", "{\"geo\":\"AE\"}", "{\"geo\":\"SA\"}", "{\"geo\":\"US\"}"};
    struct policy_target *targets[TARGETS];
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < TARGETS; i++) {
        OWNED_JSON json = policy_json(facts[i]);
        must(policy_target_new(json, &targets[i], &err), &err);
    }
    for (unsigned i = 0; i < 20; i++) {
        OWNED_JSON json = json_pack("{s:[o]}", "policies", random_policy(policy_ids[0]));
        if (drawn(3) > 0) (void)json_array_append_new(json_object_get(json, "policies"), random_policy(policy_ids[1]));
        check_set(json, targets);
    }
    for (size_t i = 0; i < TARGETS; i++) policy_target_free(targets[i]);
    print_message("%u rules decide nothing, %u decide something; %u sets with a scope in which nothing is allowed\n", idle, busy,
                  locked);
    assert_in_range(idle, 20, UINT_MAX);
    assert_in_range(busy, 20, UINT_MAX);
    assert_in_range(locked, 2, 18);
}

static struct result lint_once(void *context, struct error *err)
{
    const struct policy_linted asked = {.set = context, .ending_days = 30};
    OWNED(policy_findings) *findings = NULL;

    return policy_lint(&asked, &findings, err);
}

static void each_failure_is_said(void **state)
{
    OWNED_JSON json = row_json(&finding_rows[3]);
    OWNED(policy_set) *set = compiled(json);

    (void)state;
    fail_each(lint_once, set, ERROR_NO_MEMORY, 30);
}

static void a_set_that_is_too_large_is_said(void **state)
{
    OWNED_JSON json = row_json(&finding_rows[3]);
    OWNED(policy_set) *set = compiled(json);
    const struct policy_linted asked = {.set = set, .steps_max = 100};
    OWNED(policy_findings) *findings = NULL;
    struct error err = {0};

    (void)state;
    must(policy_lint(&asked, &findings, &err), &err);
    assert_true(has(findings, FINDING_UNFINISHED, "", NULL));
    assert_true(has(findings, FINDING_UNFINISHED, "pp@1", NULL)); /* of its rules nothing is known, and that is said */
    assert_false(has(findings, FINDING_SHADOWED, "pp@1", "S1"));
}

static bool is_nearly_full(json_t *json, size_t count)
{
    json_t *policies = json_object_get(json, "policies");

    while (json_array_size(policies) < count) {
        json_t *copy = json_deep_copy(json_array_get(policies, 0));
        (void)json_object_set_new(json_object_get(copy, "metadata"), "id", json_sprintf("p%zu", json_array_size(policies)));
        (void)json_array_append_new(policies, copy);
    }
    OWNED(policy_set) *set = compiled(json);
    OWNED(policy_findings) *findings = linted(set, NULL, 0);
    return has(findings, FINDING_NEARLY_FULL, "", NULL);
}

static void a_set_that_is_nearly_full_is_said(void **state)
{
    OWNED_JSON json = row_json(&finding_rows[0]);

    (void)state;
    assert_true(!is_nearly_full(json, 45) && is_nearly_full(json, 46)); /* of at most 60 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_set_that_is_nearly_full_is_said), cmocka_unit_test(a_scope_with_projects_is_not_said),
        cmocka_unit_test(findings_are_those_of_all_facts),   cmocka_unit_test(each_failure_is_said),
        cmocka_unit_test(a_set_that_is_too_large_is_said),
    };

    return RUN_TABLE(finding_rows, finding_is_said) + cmocka_run_group_tests_name("policy_lint", tests, NULL, NULL);
}
