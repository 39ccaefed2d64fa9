/* The main cases by name. tests/policy/ compares all answers with the oracle. */
#include "tests/unit/policy_cases.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "policy/compiled_priv.h"
#include "tests/support/policy.h"

static void write_names(struct buffer *text, const char *const *names, size_t count)
{
    struct error err = {0};

    for (size_t i = 0; i < count; i++) assert_true(buffer_format(text, &err, "%s%s", i > 0 ? "," : "", names[i]).ok);
}

static void write_denials(struct buffer *text, const struct policy_decision *decision)
{
    struct error err = {0};

    for (size_t i = 0; i < policy_decision_denial_count(decision); i++) {
        const struct policy_denial *denial = policy_decision_denial(decision, i);
        assert_true(buffer_format(text, &err, "%s%s(", i > 0 ? " " : "", denial->rule).ok);
        write_names(text, denial->unknown, denial->unknown_count);
        assert_true(buffer_add_u8(text, '|', &err).ok);
        write_names(text, denial->failed, denial->failed_count);
        assert_true(buffer_add_u8(text, ')', &err).ok);
    }
}

static void cases(void **state)
{
    const struct case_row *row = *state;
    const struct label label = label_in(&the_world, row->scope);
    OWNED(policy_target) *target = target_of(&the_world, row->target);
    const struct policy_facts facts = facts_of(row, &label, target);
    OWNED(policy_decision) *decision = NULL;
    struct buffer OWNED_BUFFER denied = BUFFER(4096);
    struct error err = {0};

    assert_true(policy_evaluate(the_world.documents, &facts, the_world.groups, &decision, &err).ok);
    write_denials(&denied, decision);
    assert_string_equal(buffer_text(&denied), row->denied);
    assert_int_equal(policy_decision_allows(decision), row->denied[0] == '\0');
}

static void labels_join(void **state)
{
    struct label a = {.class = LABEL_SECRET,
                      .lineage = LINEAGE_DECLARED,
                      .subjects = 1,
                      .regime_count = 1,
                      .regimes = {"DIFC"},
                      .pin_count = 1,
                      .pins = {"p"}};
    const struct label b = {.class = LABEL_OPEN,
                            .lineage = LINEAGE_UNKNOWN,
                            .subjects = 4,
                            .regime_count = 2,
                            .regimes = {"ADGM", "DIFC"},
                            .pin_count = 1,
                            .pins = {"a"}};
    struct buffer OWNED_BUFFER text = BUFFER(4096);
    struct error err = {0};

    (void)state;
    assert_false(label_covers(&a, &b));
    assert_true(label_join(&a, &b, &err).ok);
    assert_true(label_covers(&a, &b));
    assert_true(label_write(&text, &a, &err).ok);
    assert_string_equal(buffer_text(&text), "{\"attached\":[\"ADGM\",\"DIFC\"],\"class\":\"secret\",\"lineage\":"
                                            "\"unknown\",\"pins\":[\"a\",\"p\"],\"subjects\":[\"health\",\"personal\"]}");
}

static void a_label_has_a_largest_size(void **state)
{
    static char names[LABEL_REGIMES_MAX + 1][8];
    struct label label = label_initial();
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i <= LABEL_REGIMES_MAX; i++) {
        (void)snprintf(names[i], sizeof names[i], "R-%zu", i);
        const struct label one = {.lineage = LINEAGE_ATTESTED, .regime_count = 1, .regimes = {names[i]}};
        assert_int_equal(label_join(&label, &one, &err).ok, i < LABEL_REGIMES_MAX);
    }
    assert_int_equal(err.kind, ERROR_LIMIT);
}

/* A label covers a floor when no member of the floor is more than its own. */
static const struct cover_row {
    const char *name;
    struct label floor;
    bool is_covered;
} cover_rows[] = {
    {"an open floor", {.class = LABEL_OPEN, .lineage = LINEAGE_ATTESTED}, true},
    {"the same",
     {.class = LABEL_SENSITIVE,
      .lineage = LINEAGE_DECLARED,
      .subjects = 3,
      .regime_count = 1,
      .regimes = {"DIFC"},
      .pin_count = 1,
      .pins = {"p"}},
     true},
    {"a higher class", {.class = LABEL_SECRET, .lineage = LINEAGE_ATTESTED}, false},
    {"a weaker lineage", {.class = LABEL_OPEN, .lineage = LINEAGE_UNKNOWN}, false},
    {"another subject", {.lineage = LINEAGE_ATTESTED, .subjects = 4}, false},
    {"another regime", {.lineage = LINEAGE_ATTESTED, .regime_count = 1, .regimes = {"ADGM"}}, false},
    {"another pin", {.lineage = LINEAGE_ATTESTED, .pin_count = 1, .pins = {"q"}}, false},
};

static void labels_cover(void **state)
{
    const struct cover_row *row = *state;
    const struct label label = {.class = LABEL_SENSITIVE,
                                .lineage = LINEAGE_DECLARED,
                                .subjects = 3,
                                .regime_count = 1,
                                .regimes = {"DIFC"},
                                .pin_count = 1,
                                .pins = {"p"}};

    assert_int_equal(label_covers(&label, &row->floor), row->is_covered);
}

/* A stored label is joined with that of its place; alone, it is the label; without both there is none. */
/* "AE/AZ" is not the beginning of "AE/AZU": places are compared piece by piece. */
static void places_are_compared_piece_by_piece(void **state)
{
    static const struct {
        const char *geo;
        bool is_allowed;
    } places[] = {{"{\"geo\":\"AE/AZ\",\"key\":{\"geo\":\"AE\",\"control\":\"customer-hsm\"}}", true},
                  {"{\"geo\":\"AE/AZU\",\"key\":{\"geo\":\"AE\",\"control\":\"customer-hsm\"}}", false}};
    OWNED_JSON array = json_array();
    OWNED_JSON policy = policy_example("health-ae");
    OWNED(policy_documents) *documents = NULL;
    struct error err = {0};

    (void)state;
    json_t *rule = json_array_get(json_object_get(policy, "rules"), 0);
    assert_int_equal(json_object_set_new(rule, "target", policy_json("{\"geo_within\":[\"AE/AZ\"]}")), 0);
    assert_int_equal(json_array_append(array, policy), 0);
    assert_true(policy_documents_new(array, &documents, &err).ok);
    for (size_t i = 0; i < COUNT(places); i++) {
        const struct label label = label_in(&the_world, "health/ct");
        OWNED(policy_target) *target = target_of(&the_world, places[i].geo);
        const struct policy_facts facts = facts_of(&case_rows[0], &label, target);
        OWNED(policy_decision) *decision = NULL;

        assert_true(policy_evaluate(documents, &facts, the_world.groups, &decision, &err).ok);
        size_t stored = 0;
        for (size_t j = 0; j < policy_decision_denial_count(decision); j++)
            stored += strcmp(policy_decision_denial(decision, j)->rule, "H-STORE-AE") == 0;
        assert_int_equal(stored, places[i].is_allowed ? 0 : 1);
    }
}

static void stored_labels_rise(void **state)
{
    const struct label stored = {.class = LABEL_SECRET, .lineage = LINEAGE_DECLARED};
    const struct label own = {.class = LABEL_OPEN, .lineage = LINEAGE_UNKNOWN};
    const struct label_query query = {.documents = the_world.documents, .scope = "other/x", .now_us = -1};
    struct label label;
    bool is_labelled = true;
    struct error err = {0};

    (void)state;
    assert_true(policy_stored_label(&query, NULL, NULL, &label, &is_labelled, &err).ok);
    assert_false(is_labelled);
    assert_true(policy_stored_label(&query, NULL, &own, &label, &is_labelled, &err).ok);
    assert_true(is_labelled && label.class == LABEL_OPEN);
    assert_true(policy_stored_label(&query, &stored, NULL, &label, &is_labelled, &err).ok);
    assert_true(is_labelled && label.class == LABEL_SECRET && label.lineage == LINEAGE_DECLARED);
    assert_true(policy_stored_label(&query, &stored, &own, &label, &is_labelled, &err).ok);
    assert_true(is_labelled && label.class == LABEL_SECRET && label.lineage == LINEAGE_UNKNOWN);
}

static void scopes_have_a_largest_size(void **state)
{
    static char scope[POLICY_SCOPE_MAX + 2];
    const struct label label = label_initial();
    OWNED(policy_target) *target = target_of(&the_world, "{}");
    struct policy_facts facts = facts_of(&case_rows[0], &label, target);
    struct label_query query = {.documents = the_world.documents, .scope = scope};
    struct policy_decision *decision = NULL;
    struct label out;
    bool is_labelled = false;
    struct error err = {0};

    (void)state;
    memset(scope, 'a', sizeof scope - 1);
    facts.scope = scope;
    assert_false(policy_evaluate(the_world.documents, &facts, the_world.groups, &decision, &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
    assert_null(decision);
    assert_false(policy_effective_label(&query, NULL, &out, &is_labelled, &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
}

static struct result decide_once(void *facts, struct error *err)
{
    OWNED(policy_decision) *decision = NULL;

    TRY_UNTOUCHED_BYTES(decision, policy_evaluate(the_world.documents, facts, the_world.groups, &decision, err));
    return SUCCESS;
}

static void deciding_survives_lack_of_memory(void **state)
{
    const struct case_row *row = &case_rows[2];
    const struct label label = label_in(&the_world, row->scope);
    OWNED(policy_target) *target = target_of(&the_world, row->target);
    struct policy_facts facts = facts_of(row, &label, target);

    (void)state;
    fail_each(decide_once, &facts, ERROR_NO_MEMORY, 3);
}

static struct policy_documents *documents_of_rules(const char *text)
{
    OWNED_JSON array = json_array();
    OWNED_JSON policy = policy_example("health-ae");
    OWNED_JSON rules = policy_json(text);
    struct policy_documents *documents = NULL;
    struct error err = {0};

    assert_int_equal(json_object_set(policy, "rules", rules), 0);
    (void)json_object_del(policy, "exception_types");
    assert_int_equal(json_array_append(array, policy), 0);
    assert_true(policy_documents_new(array, &documents, &err).ok);
    return documents;
}

/* Three rules with the same test between others: all refuse, in the order of the document; equal duties count once, and the first rule is named. */
static void equal_tests_keep_the_order_of_rules(void **state)
{
    OWNED(policy_documents) *documents = documents_of_rules(
        "[{\"id\":\"R-A\",\"effect\":\"require\",\"ops\":[\"ingest\"],\"target\":{\"geo_within\":[\"SA\"]}},"
        "{\"id\":\"R-K\",\"effect\":\"oblige\",\"ops\":[\"ingest\"],\"oblige\":{\"retain_min_days\":10}},"
        "{\"id\":\"R-B\",\"effect\":\"deny\",\"ops\":[\"ingest\",\"read\"],\"target\":{\"geo_within\":[\"AE\"]}},"
        "{\"id\":\"R-C\",\"effect\":\"require\",\"ops\":[\"ingest\"],\"target\":{\"geo_within\":[\"SA\"]}},"
        "{\"id\":\"R-D\",\"effect\":\"require\",\"ops\":[\"read\"],\"target\":{\"geo_within\":[\"SA\"]}},"
        "{\"id\":\"R-L\",\"effect\":\"oblige\",\"ops\":[\"ingest\"],\"oblige\":{\"retain_min_days\":10}},"
        "{\"id\":\"R-E\",\"effect\":\"require\",\"ops\":[\"ingest\"],\"when\":{\"subjects_any\":[\"child\"]},\"target\":{\"geo_within\":[\"SA\"]}},"
        "{\"id\":\"R-F\",\"effect\":\"require\",\"ops\":[\"ingest\"],\"target\":{\"geo_within\":[\"SA\"]}},"
        "{\"id\":\"R-P\",\"effect\":\"permit\",\"ops\":[\"ingest\"]}]");
    const struct case_row *row = &case_rows[0];
    const struct label label = label_in(&the_world, row->scope);
    OWNED(policy_target) *target = target_of(&the_world, row->target);
    const struct policy_facts facts = facts_of(row, &label, target);
    OWNED(policy_decision) *decision = NULL;
    struct buffer OWNED_BUFFER denied = BUFFER(4096);
    const char *rule = NULL, *name = NULL;
    struct error err = {0};

    (void)state;
    assert_true(policy_judge(documents, &facts, the_world.groups, &decision, &err).ok);
    write_denials(&denied, decision);
    assert_string_equal(buffer_text(&denied), "R-A(|geo) R-B(|) R-C(|geo) R-F(|geo)");
    assert_int_equal(policy_decision_retains(decision, &rule, &name), 10);
    assert_string_equal(rule, "R-K");
    assert_string_equal(policy_decision_permit(decision, &name), "R-P");
    assert_string_equal(policy_decision_id(decision), "");
}

/* The longest minimum, the shortest maximum with its rule, the most sites, and each different copy once. */
static void duties_of_several_rules_are_one(void **state)
{
    OWNED(policy_documents) *documents = documents_of_rules(
        "[{\"id\":\"R-A\",\"effect\":\"oblige\",\"ops\":[\"ingest\"],\"oblige\":{\"retain_max_days\":40,\"min_sites\":2,"
        "\"anchor_copy\":{\"geo_within\":[\"AE\"],\"max_staleness_s\":60}}},"
        "{\"id\":\"R-B\",\"effect\":\"oblige\",\"ops\":[\"ingest\"],\"oblige\":{\"retain_max_days\":30,\"min_sites\":3,"
        "\"anchor_copy\":{\"geo_within\":[\"AE\"],\"max_staleness_s\":60}}},"
        "{\"id\":\"R-C\",\"effect\":\"oblige\",\"ops\":[\"ingest\"],\"oblige\":{\"retain_max_days\":35,"
        "\"anchor_copy\":{\"geo_within\":[\"AE\"],\"max_staleness_s\":61}}},"
        "{\"id\":\"R-D\",\"effect\":\"oblige\",\"ops\":[\"read\"],\"oblige\":{\"retain_max_days\":1,\"min_sites\":9}}]");
    const struct case_row *row = &case_rows[0];
    const struct label label = label_in(&the_world, row->scope);
    OWNED(policy_target) *target = target_of(&the_world, row->target);
    struct policy_facts facts = facts_of(row, &label, target);
    OWNED(policy_decision) *decision = NULL, *other = NULL;
    const char *rule = NULL, *name = NULL;
    struct error err = {0};
    int64_t days = 0;

    (void)state;
    assert_true(policy_judge(documents, &facts, the_world.groups, &decision, &err).ok);
    assert_true(policy_decision_ends(decision, &days, &rule, &name));
    assert_int_equal(days, 30);
    assert_string_equal(rule, "R-B");
    assert_int_equal(policy_decision_sites(decision), 3);
    assert_int_equal(policy_decision_anchors(decision), 2);
    assert_string_equal(policy_decision_anchor(decision, 0), "{\"geo_within\":[\"AE\"],\"max_staleness_s\":60}");
    facts.op = OP_LOG;
    assert_true(policy_judge(documents, &facts, the_world.groups, &other, &err).ok);
    assert_false(policy_decision_ends(other, &days, &rule, &name));
    assert_int_equal(policy_decision_sites(other) + (int64_t)policy_decision_anchors(other), 0);
}

static struct policy_documents *documents_requiring(const char *test)
{
    char rules[512];

    (void)snprintf(
        rules, sizeof rules,
        "[{\"id\":\"R-A\",\"effect\":\"require\",\"ops\":[\"ingest\"],\"target\":%s},{\"id\":\"R-P\",\"effect\":\"permit\",\"ops\":[\"ingest\"]}]",
        test);
    return documents_of_rules(rules);
}

static struct policy_groups *groups_with(const char *json)
{
    OWNED_JSON groups = policy_json(json);
    struct policy_groups *compiled = NULL;
    struct error err = {0};

    assert_true(policy_groups_new(groups, &compiled, &err).ok);
    return compiled;
}

/* What one set found out about a target is nothing to another set, nor to other groups, not even at the same address. */
static void each_set_tests_a_target_itself(void **state)
{
    static const struct {
        const char *test, *groups;
        bool is_allowed;
    } sets[] = {
        {"{\"geo_within\":[\"AE\"]}", "{}", true},
        {"{\"geo_within\":[\"SA\"]}", "{}", false},
        {"{\"geo_in_group\":[\"HERE\"]}", "{\"HERE\":{\"kind\":\"geo\",\"members\":[\"AE\"],\"as_of\":\"2026-01-01\"}}", true},
        {"{\"geo_in_group\":[\"HERE\"]}", "{\"HERE\":{\"kind\":\"geo\",\"members\":[\"SA\"],\"as_of\":\"2026-01-01\"}}", false},
    };
    const struct case_row *row = &case_rows[0];
    const struct label label = label_in(&the_world, row->scope);
    struct error err = {0};

    (void)state;
    for (size_t first = 0; first < 4; first++) {
        OWNED(policy_target) *target = target_of(&the_world, row->target);
        const struct policy_facts facts = facts_of(row, &label, target);
        for (size_t i = 0; i < 8; i++) {
            OWNED(policy_documents) *documents = documents_requiring(sets[(first + i / 2) % 4].test);
            OWNED(policy_groups) *groups = groups_with(sets[(first + i / 2) % 4].groups);
            for (size_t again = 0; again < 2; again++) {
                OWNED(policy_decision) *decision = NULL;
                assert_true(policy_judge(documents, &facts, groups, &decision, &err).ok);
                assert_int_equal(policy_decision_allows(decision), sets[(first + i / 2) % 4].is_allowed);
            }
        }
    }
}

/* Rules that had nothing to say about a place are passed over: each answer is that about a place of which nothing is known yet. */
static void silence_about_a_place_hides_no_rule(void **state)
{
    OWNED(policy_documents) *documents = documents_of_rules(
        "[{\"id\":\"R-A\",\"effect\":\"require\",\"ops\":[\"ingest\"],\"when\":{\"subjects_any\":[\"health\"]},\"target\":{\"geo_within\":[\"AE\"]}},"
        "{\"id\":\"R-B\",\"effect\":\"require\",\"ops\":[\"ingest\"],\"when\":{\"subjects_any\":[\"health\"]},\"target\":{\"geo_within\":[\"AE\",\"SA\"]}},"
        "{\"id\":\"R-C\",\"effect\":\"require\",\"ops\":[\"ingest\",\"log\"],\"when\":{\"subjects_any\":[\"child\"]},\"target\":{\"geo_within\":[\"AE\"]}},"
        "{\"id\":\"R-D\",\"effect\":\"require\",\"ops\":[\"ingest\"],\"when\":{\"subjects_any\":[\"child\"]},\"target\":{\"geo_within\":[\"OM\"]}},"
        "{\"id\":\"R-E\",\"effect\":\"deny\",\"ops\":[\"ingest\",\"log\"],\"target\":{\"geo_within\":[\"SA\"]}},"
        "{\"id\":\"R-F\",\"effect\":\"deny\",\"ops\":[\"ingest\",\"log\"],\"target\":{\"geo_within\":[\"OM\"]}},"
        "{\"id\":\"R-G\",\"effect\":\"require\",\"ops\":[\"ingest\"],\"target\":{\"geo_within\":[\"AE\"]}},"
        "{\"id\":\"R-H\",\"effect\":\"require\",\"ops\":[\"ingest\"],\"label\":{\"lineage_at_least\":\"declared\"}},"
        "{\"id\":\"R-P\",\"effect\":\"permit\",\"ops\":[\"ingest\"]}]");
    const struct case_row *row = &case_rows[0];
    struct label label = label_in(&the_world, row->scope);
    OWNED(policy_target) *known = target_of(&the_world, row->target);
    unsigned refused[2] = {0};
    struct error err = {0};

    (void)state;
    for (unsigned i = 0; i < 512; i++) {
        OWNED(policy_target) *fresh = target_of(&the_world, row->target);
        struct buffer texts[2] = {BUFFER(4096), BUFFER(4096)};
        struct policy_facts facts = facts_of(row, &label, known);
        label.subjects = (uint8_t)(i * 37);
        label.lineage = i % 3 == 0 ? LINEAGE_UNKNOWN : LINEAGE_DECLARED;
        facts.op = i % 2 == 0 ? OP_INGEST : OP_LOG;
        for (size_t k = 0; k < 2; k++) {
            OWNED(policy_decision) *decision = NULL;
            facts.target = k == 0 ? known : fresh;
            assert_true(policy_judge(documents, &facts, the_world.groups, &decision, &err).ok);
            write_denials(&texts[k], decision);
        }
        assert_string_equal(buffer_text(&texts[0]), buffer_text(&texts[1]));
        refused[0] += strstr(buffer_text(&texts[0]), "R-D") != NULL;
        refused[1] += strstr(buffer_text(&texts[0]), "R-H") != NULL;
        for (size_t k = 0; k < 2; k++) buffer_done(&texts[k]);
    }
    assert_true(refused[0] > 20 && refused[1] > 20);
}

/* "**" again and again must not take exponential time. */
static void scopes_match_in_bounded_time(void **state)
{
    OWNED_JSON array = json_array();
    OWNED_JSON policy = policy_example("public-models");
    OWNED(policy_documents) *documents = NULL;
    struct label_query query = {.now_us = INT64_MAX};
    struct label label;
    bool is_labelled = true;
    char scope[POLICY_SCOPE_MAX + 1] = {0};
    struct error err = {0};

    (void)state;
    assert_int_equal(json_object_set_new(json_object_get(policy, "metadata"), "scope",
                                         policy_json("[\"**/a/**/a/**/a/**/a/**/a/**/a/**/a/**/a/**/a/**/a/b\"]")),
                     0);
    assert_int_equal(json_array_append(array, policy), 0);
    assert_true(policy_documents_new(array, &documents, &err).ok);
    for (size_t i = 0; i + 2 < sizeof scope; i += 2) memcpy(scope + i, "a/", 2);
    query.documents = documents;
    query.scope = scope;
    const int64_t started_ms = clock_monotonic_ms();
    assert_true(policy_effective_label(&query, NULL, &label, &is_labelled, &err).ok);
    assert_false(is_labelled);
    assert_true(clock_monotonic_ms() - started_ms < 10000);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(labels_join),
        cmocka_unit_test(a_label_has_a_largest_size),
        cmocka_unit_test(deciding_survives_lack_of_memory),
        cmocka_unit_test(equal_tests_keep_the_order_of_rules),
        cmocka_unit_test(duties_of_several_rules_are_one),
        cmocka_unit_test(each_set_tests_a_target_itself),
        cmocka_unit_test(silence_about_a_place_hides_no_rule),
        cmocka_unit_test(scopes_match_in_bounded_time),
        cmocka_unit_test(stored_labels_rise),
        cmocka_unit_test(places_are_compared_piece_by_piece),
        cmocka_unit_test(scopes_have_a_largest_size),
    };
    void *opened = NULL;

    if (world_open(&opened) != 0) return 1;
    the_world = *(struct world *)opened;
    const int failed = RUN_TABLE(case_rows, cases) + RUN_TABLE(cover_rows, labels_cover) +
                       cmocka_run_group_tests_name("others", others, NULL, NULL);
    return failed + world_close(&opened);
}
