/* Places and regimes: which exist, and where a set names one that does not. */
#include "tests/support/unit.h"
#include "tests/unit/policy_parts.h"

#include <string.h>

#include "policy/places.h"
#include "policy/set_priv.h"
#include "tests/support/policy.h"

static const struct word_row {
    const char *name; /* the word */
    bool is_regime, is_known;
} word_rows[] = {
    {"AE", false, true},      {"AE/DU", false, true},     {"AE/AZ", false, true},        {"AE/UQ", false, true},
    {"ZW", false, true},      {"US/CA", false, true},     {"FR/IDF", false, true},       {"GB/ENG", false, true},
    {"UK", false, false},     {"XX", false, false},       {"XK", false, false},          {"EU", false, false},
    {"AE/XX", false, false},  {"AE/D", false, false},     {"AE/DUB", false, false},      {"AE/", false, false},
    {"AE/DU ", false, false}, {"SA/AA", false, false},    {"AEE", false, false},         {"A", false, false},
    {"", false, false},       {"AE/AJ AZ", false, false}, {"ae", false, false},          {"AF/ZAB", false, true},
    {"DIFC", true, true},     {"ADGM", true, true},       {"AE-FED", true, true},        {"EU-GDPR", true, true},
    {"ADGN", true, false},    {"AE", true, false},        {"X-ACME-EXPORT", true, true}, {"XACME", true, false},
    {"difc", true, false},    {"", true, false},
};

static void words_are_known(void **state)
{
    const struct word_row *row = *state;

    assert_int_equal(row->is_regime ? regime_is_known(row->name) : place_is_known(row->name), row->is_known);
}

/* Each member of a set that has such a word, with a wrong one. */
static const struct member_row {
    const char *name, *set, *said;
} member_rows[] = {
    {"a region's place", "{\"regions\":{\"a/b\":{\"geo\":\"AE/XX\"}}}", "regions a/b: geo: AE/XX is no country"},
    {"a region's regimes", "{\"regions\":{\"a/b\":{\"regimes\":[\"DIFC\",\"DIFK\"]}}}", "regions a/b: regimes: DIFK is no known"},
    {"who controls it", "{\"regions\":{\"a/b\":{\"operator\":{\"controlled_from\":[\"US\",\"UX\"]}}}}", "controlled_from: UX"},
    {"where its keys are", "{\"regions\":{\"a/b\":{\"key\":{\"geo\":\"AX/AE\"}}}}", "regions a/b: geo: AX/AE"},
    {"a network", "{\"networks\":[{\"cidr\":\"10.0.0.0/8\",\"facts\":{\"geo\":\"UK\"}}]}", "networks 10.0.0.0/8: geo: UK"},
    {"a group of places", "{\"groups\":{\"GCC\":{\"kind\":\"geo\",\"members\":[\"AE\",\"KX\"]}}}", "groups GCC: members: KX"},
    {"a group of regimes", "{\"groups\":{\"OK\":{\"kind\":\"regime\",\"members\":[\"AE\"]}}}",
     "groups OK: members: AE is no known"},
    {"a rule's places",
     "{\"policies\":[{\"metadata\":{\"id\":\"p1\"},\"rules\":[{\"target\":{\"geo_within\":[\"AX\",\"AY\"]}}]}]}",
     "policies p1: geo_within: AY"},
    {"one of several targets",
     "{\"policies\":[{\"metadata\":{\"id\":\"p1\"},\"rules\":[{\"any_of\":[{\"key_geo_within\":[\"QQ\"]}]}]}]}",
     "policies p1: key_geo_within: QQ"},
    {"an operator's country", "{\"policies\":[{\"rules\":[{\"target\":{\"operator_not_controlled_from\":[\"QQ\"]}}]}]}",
     "policies: operator_not_controlled_from: QQ"},
    {"a rule's regimes", "{\"policies\":[{\"metadata\":{\"id\":\"p1\"},\"rules\":[{\"target\":{\"regime_any\":[\"QQQ\"]}}]}]}",
     "policies p1: regime_any: QQQ"},
    {"a rule's condition", "{\"policies\":[{\"metadata\":{\"id\":\"p1\"},\"rules\":[{\"when\":{\"attached_any\":[\"QQQ\"]}}]}]}",
     "policies p1: attached_any: QQQ"},
    {"a policy's label", "{\"policies\":[{\"metadata\":{\"id\":\"p1\"},\"labels\":{\"attached\":[\"QQQ\"]}}]}",
     "p1: attached: QQQ"},
    {"an anchor's place",
     "{\"policies\":[{\"metadata\":{\"id\":\"p1\"},\"exception_types\":{\"t\":{\"adds\":{\"anchor_copy\":{\"geo_within\":[\"QQ\"]}}}}}]}",
     "policies p1: geo_within: QQ"},
    {"evidence may say what it wants", "{\"exceptions\":[{\"id\":\"e1\",\"evidence\":{\"geo\":\"a house in Al Ain\"}}]}", ""},
    {"a region that is called geo", "{\"groups\":{\"geo\":{\"kind\":\"geo\",\"members\":[\"AE\"]}}}", ""},
};

static struct result first(void *context, const struct unknown_word *word, struct error *err)
{
    (void)context;
    return failure(err, ERROR_INVALID, "%s%s%s: %s: %s is no %s", word->part, word->owner[0] == '\0' ? "" : " ", word->owner,
                   word->member, word->word, word->is_regime ? "known regime" : "country");
}

static void wrong_words_are_found(void **state)
{
    const struct member_row *row = *state;
    OWNED_JSON set = policy_json(row->set);
    struct error err = {0};

    const struct result searched = places_search(set, first, NULL, &err);
    assert_int_equal(searched.ok, row->said[0] == '\0');
    if (strstr(err.message, row->said) == NULL) fail_msg("%s", err.message);
}

static struct result count(void *context, const struct unknown_word *word, struct error *err)
{
    (void)word, (void)err;
    ++*(size_t *)context;
    return SUCCESS;
}

static void all_of_them_are_found(void **state)
{
    OWNED_JSON set =
        policy_json("{\"regions\":{\"a/b\":{\"geo\":\"QQ\",\"regimes\":[\"QQQ\",\"DIFC\"]},\"a/c\":{\"geo\":\"AE/QQ\"}}}");
    struct error err = {0};
    size_t found = 0;

    (void)state;
    assert_true(places_search(set, count, &found, &err).ok);
    assert_int_equal(found, 3);
}

static void the_examples_name_known_places(void **state)
{
    OWNED_JSON policies = policy_examples();
    OWNED_JSON world = policy_example("regions");
    OWNED(policy_set) *set = NULL;
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX);
    struct error err = {0};
    const struct policy_set_parts parts = {.epoch = 1,
                                           .policies = policies,
                                           .regions = json_object_get(world, "regions"),
                                           .groups = json_object_get(world, "groups")};

    (void)state;
    assert_true(policy_set_compose(&parts, &payload, &err).ok);
    assert_true(policy_set_compile(buffer_bytes(&payload), &set, &err).ok);
    if (!places_check(set, &err).ok) fail_msg("%s", err.message);

    OWNED_JSON wrong = policy_json("{\"geo\":\"AE/XY\"}");
    assert_int_equal(json_object_set(json_object_get(world, "regions"), "azure/uaenorth", wrong), 0);
    policy_set_free(GIVE(set));
    buffer_clear(&payload);
    assert_true(policy_set_compose(&parts, &payload, &err).ok); /* a set in force stays readable */
    assert_true(policy_set_compile(buffer_bytes(&payload), &set, &err).ok);
    assert_false(places_check(set, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_non_null(strstr(err.message, "regions azure/uaenorth: geo: AE/XY is no country"));
}

/* The page's table has the rows of regimes.def, and no other. */
static void the_page_has_each_regime(void **state)
{
    static const char *const rows[] = {
#define REGIME(name, what) "| `" name "` | " what " |\n",
#include "policy/regimes.def"
#undef REGIME
    };
    struct buffer OWNED_BUFFER page = BUFFER(1 << 20);
    struct error err = {0};
    size_t length = 0;

    (void)state;
    must(file_read(POLICIES_PAGE, &page, &err), &err);
    const char *table = strstr(buffer_text(&page), "| regime | what it is |\n|---|---|\n");
    assert_non_null(table);
    table += strlen("| regime | what it is |\n|---|---|\n");
    for (size_t i = 0; i < COUNT(rows); i++) {
        if (strncmp(table + length, rows[i], strlen(rows[i])) != 0) fail_msg("the page lacks %s", rows[i]);
        length += strlen(rows[i]);
    }
    assert_true(table[length] == '\n');
}

int policy_places_cases(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(all_of_them_are_found),
        cmocka_unit_test(the_examples_name_known_places),
        cmocka_unit_test(the_page_has_each_regime),
    };

    return RUN_TABLE(word_rows, words_are_known) + RUN_TABLE(member_rows, wrong_words_are_found) +
           cmocka_run_group_tests_name("others", others, NULL, NULL);
}
