/* Patterns, and the rules of projects: the kept tags, and the reasons. */
#include "tests/support/unit.h"

#include <string.h>

#include "registry/rules.h"

static void patterns_fit_whole_names(void **state)
{
    static const struct {
        const char *pattern, *name;
        bool fits;
    } rows[] = {
        {"*", "", true},
        {"*", "anything/at.all", true},
        {"v1", "v1", true},
        {"v1", "v10", false},
        {"v1", "xv1", false},
        {"v*", "v", true},
        {"v*", "v1.2", true},
        {"v*", "V1", false},
        {"v?", "v", false},
        {"v?", "v1", true},
        {"v?", "v12", false},
        {"*.sig", "a.sig", true},
        {"*.sig", "a.sig.x", false},
        {"a*b*c", "abc", true},
        {"a*b*c", "aXbYbZc", true},
        {"a*b*c", "acb", false},
        {"*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
        {"team/*", "team/digits", true},
        {"team/*", "team", false},
        {"**", "x", true},
        {"?*?", "x", false},
        {"?*?", "xy", true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (pattern_fits(rows[i].pattern, rows[i].name) != rows[i].fits) fail_msg("%s on %s", rows[i].pattern, rows[i].name);
}

static void patterns_of_like_mean_the_same(void **state)
{
    static const char *const rows[][2] = {{"*", "%"}, {"v?_*", "v_\\_%"}, {"a.b-c/d", "a.b-c/d"}};
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct buffer text = BUFFER(100);
        assert_true(pattern_write_like(&text, rows[i][0], &err).ok);
        assert_string_equal(buffer_text(&text), rows[i][1]);
        buffer_done(&text);
    }
    assert_false(pattern_is_valid(bytes_of_text("")));
    assert_false(pattern_is_valid(bytes_of_text("%")));
    assert_false(pattern_is_valid(bytes_of_text("a\\b")));
    assert_false(pattern_is_valid((struct bytes){(const uint8_t *)"a\0b", 3}));
}

static void only_whole_documents_are_rules(void **state)
{
    static const struct {
        const char *text, *problem; /* NULL: it is good */
    } rows[] = {
        {"{}", NULL},
        {"{\"retention\":[],\"immutable\":[]}", NULL},
        {"{\"untagged_days\":0}", NULL},
        {"{\"untagged_days\":-1}", "untagged_days"},
        {"{\"untagged_days\":1.5}", "untagged_days"},
        {"{\"untagged_days\":36501}", "untagged_days"},
        {"{\"untaged_days\":1}", "untaged_days"},
        {"[]", "objects"},
        {"{\"retention\":{}}", "list"},
        {"{\"retention\":[1]}", "objects"},
        {"{\"retention\":[{\"tags\":\"*\"}]}", "repositories"},
        {"{\"retention\":[{\"repositories\":\"*\"}]}", "tags"},
        {"{\"retention\":[{\"repositories\":\"*\",\"tags\":\"*\"}]}", NULL},
        {"{\"retention\":[{\"repositories\":\"*\",\"tags\":\"%\"}]}", "tags"},
        {"{\"retention\":[{\"repositories\":\"\",\"tags\":\"*\"}]}", "repositories"},
        {"{\"retention\":[{\"repositories\":\"*\",\"tags\":\"*\",\"keep_last\":\"3\"}]}", "keep_last"},
        {"{\"retention\":[{\"repositories\":\"*\",\"tags\":\"*\",\"keep_lats\":3}]}", "keep_lats"},
        {"{\"immutable\":[{\"repositories\":\"*\",\"tags\":\"v*\"}]}", NULL},
        {"{\"immutable\":[{\"repositories\":\"*\",\"tags\":\"v*\",\"keep_last\":1}]}", "keep_last"},
        {"{\"immutable\":[],\"immutable\":[]}", ""},
        {"{} x", ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct error err = {0};
        struct rules *rules = NULL;
        const bool ok = rules_read(bytes_of_text(rows[i].text), &rules, &err).ok;
        if (ok != (rows[i].problem == NULL)) fail_msg("%s: %s", rows[i].text, err.message);
        if (!ok && strstr(err.message, rows[i].problem) == NULL) fail_msg("%s: %s", rows[i].text, err.message);
        assert_true(ok == (rules != NULL));
        rules_free(rules);
    }
}

static void there_is_an_end_of_rules(void **state)
{
    struct buffer text = BUFFER(RULES_TEXT_MAX);
    struct error err = {0};
    struct rules *rules = NULL;

    (void)state;
    assert_true(buffer_add_text(&text, "{\"immutable\":[", &err).ok);
    for (int i = 0; i <= RULES_MAX; i++)
        assert_true(buffer_format(&text, &err, "%s{\"repositories\":\"*\",\"tags\":\"v%d\"}", i == 0 ? "" : ",", i).ok);
    assert_true(buffer_add_text(&text, "]}", &err).ok);
    assert_false(rules_read(buffer_bytes(&text), &rules, &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
    assert_null(rules);
    buffer_done(&text);
}

#define DAY    INT64_C(86400000)
#define NOW    (INT64_C(20000) * DAY)
#define AGO(n) (NOW - (n)*DAY)

/* Newest first, as the database has them. Digests are letters here. */
static const struct tag_fact tags[] = {
    {"latest", "e", AGO(1), 0, false},  {"v5", "e", AGO(1), 0, false},       {"v4", "d", AGO(2), 0, false},
    {"sig-of-d", "s", AGO(2), 0, true}, {"v3", "c", AGO(30), AGO(3), false}, {"v2", "b", AGO(60), AGO(50), false},
    {"stable", "a", AGO(90), 0, false}, {"v1", "a", AGO(90), 0, false},      {"nightly-1", "n", AGO(100), 0, false},
};
#define TAGS (sizeof tags / sizeof tags[0])

static void a_digest_stays_with_one_tag_that_stays(void **state)
{
    static const struct {
        const char *rules, *kept; /* the digests that stay */
    } rows[] = {
        {"{}", "edscban"},
        {"{\"retention\":[{\"repositories\":\"other\",\"tags\":\"*\",\"keep_last\":0}]}",
         "edscban"}, /* this rule does not match */
        {"{\"retention\":[{\"repositories\":\"*\",\"tags\":\"*\",\"keep_last\":0}]}", "s"},
        {"{\"retention\":[{\"repositories\":\"team/*\",\"tags\":\"v*\",\"keep_last\":2}]}", "eds"},
        {"{\"retention\":[{\"repositories\":\"*\",\"tags\":\"*\",\"keep_last\":2}]}", "es"}, /* tags are counted, not digests */
        {"{\"retention\":[{\"repositories\":\"*\",\"tags\":\"stable\"}]}", "sa"},            /* and v1 with it */
        {"{\"retention\":[{\"repositories\":\"*\",\"tags\":\"v*\",\"pushed_days\":2}]}", "eds"},
        {"{\"retention\":[{\"repositories\":\"*\",\"tags\":\"v*\",\"pulled_days\":3}]}", "sc"},
        {"{\"retention\":[{\"repositories\":\"*\",\"tags\":\"v*\",\"keep_last\":1,\"pulled_days\":50}]}", "escb"},
        {"{\"retention\":[{\"repositories\":\"*\",\"tags\":\"v*\",\"keep_last\":1},"
         "{\"repositories\":\"*\",\"tags\":\"nightly-*\",\"keep_last\":1}]}",
         "esn"},
        {"{\"retention\":[{\"repositories\":\"*\",\"tags\":\"v*\",\"keep_last\":1}],"
         "\"immutable\":[{\"repositories\":\"team/*\",\"tags\":\"v1\"}]}",
         "esa"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct tag_facts facts = {.repository = "team/digits", .count = TAGS, .tags = tags, .now_ms = NOW};
        bool is_kept[TAGS];
        struct error err = {0};
        OWNED(rules) *rules = NULL;
        assert_true(rules_read(bytes_of_text(rows[i].rules), &rules, &err).ok);
        assert_true(rules_evaluate(rules, &facts, is_kept, &err).ok);
        for (size_t t = 0; t < TAGS; t++)
            if (is_kept[t] != (strchr(rows[i].kept, tags[t].digest[0]) != NULL))
                fail_msg("%s: %s is %s", rows[i].rules, tags[t].name, is_kept[t] ? "kept" : "not kept");
    }
}

static struct result judge(void *context, struct error *err)
{
    static const char text[] = "{\"retention\":[{\"repositories\":\"*\",\"tags\":\"*\",\"keep_last\":0}]}";
    const struct tag_facts facts = {.repository = "team/digits", .count = TAGS, .tags = tags, .now_ms = NOW};
    OWNED(rules) *rules = NULL;
    struct {
        bool is_kept[TAGS];
    } judged;

    (void)context;
    TRY_UNTOUCHED_BYTES(rules, rules_read(bytes_of_text(text), &rules, err));
    TRY_UNTOUCHED_BYTES(judged, rules_evaluate(rules, &facts, judged.is_kept, err));
    return SUCCESS;
}

static void judging_survives_lack_of_memory(void **state)
{
    (void)state;
    fail_each(judge, NULL, ERROR_NO_MEMORY, 15);
}

int main(void)
{
    const struct CMUnitTest tests_of_rules[] = {
        cmocka_unit_test(patterns_fit_whole_names),
        cmocka_unit_test(patterns_of_like_mean_the_same),
        cmocka_unit_test(only_whole_documents_are_rules),
        cmocka_unit_test(there_is_an_end_of_rules),
        cmocka_unit_test(a_digest_stays_with_one_tag_that_stays),
        cmocka_unit_test(judging_survives_lack_of_memory),
    };

    return cmocka_run_group_tests_name("rules", tests_of_rules, NULL, NULL);
}
