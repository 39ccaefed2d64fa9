/* The lists and the terms of the index of searches. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#include "audit/format/posting.h"
#include "audit/format/search_terms.h"
#include "audit/search_blind_priv.h"

/* Lists of every length, also around the length at which the form changes. */
static void lists_come_back_as_they_were(void **state)
{
    struct error err = {0};

    (void)state;
    for (unsigned step = 1; step < 600; step++) {
        struct posting posting = {{0}}, again = {{0}};
        uint8_t list[POSTING_BYTES];
        for (unsigned place = step % 7; place < POSTING_BLOCK; place += step) posting_set(&posting, place);
        const size_t length = posting_write(&posting, list);
        assert_true(length > 0 && length <= POSTING_BYTES);
        if (!posting_add(&again, (struct bytes){list, length}, &err).ok) fail_msg("%s", err.message);
        assert_memory_equal(&again, &posting, sizeof again);
    }
    struct posting none = {{0}};
    uint8_t list[POSTING_BYTES];
    assert_int_equal(posting_write(&none, list), 0);
}

static void lists_are_united_and_intersected(void **state)
{
    struct posting odd = {{0}}, small = {{0}};
    uint8_t list[POSTING_BYTES];
    struct error err = {0};

    (void)state;
    for (unsigned place = 1; place < POSTING_BLOCK; place += 2) posting_set(&odd, place);
    posting_set(&small, 0);
    posting_set(&small, 4095);
    struct posting both = odd;
    posting_intersect(&both, &small);
    assert_true(posting_has(&both, 4095) && !posting_has(&both, 0) && !posting_has(&both, 1));
    struct posting first = {{0}};
    posting_set(&first, 0);
    assert_false(posting_is_empty(&both) || posting_is_empty(&first));
    posting_intersect(&both, &first);
    assert_true(posting_is_empty(&both));
    assert_true(posting_add(&odd, (struct bytes){list, posting_write(&small, list)}, &err).ok);
    assert_true(posting_has(&odd, 0) && posting_has(&odd, 1) && posting_has(&odd, 4095) && !posting_has(&odd, 2));
}

static void broken_lists_are_refused(void **state)
{
    static const struct row {
        const char *name;
        uint8_t bytes[6];
        size_t length;
    } rows[] = {
        {"empty", {0}, 0},
        {"half a place", {0, 1, 0}, 3},
        {"a place beyond the block", {0x10, 0}, 2},
        {"descending", {0, 2, 0, 1}, 4},
        {"twice", {0, 2, 0, 2}, 4},
    };
    static const uint8_t large[POSTING_BYTES + 2];
    struct posting posting = {{0}};
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        if (posting_add(&posting, (struct bytes){rows[i].bytes, rows[i].length}, &err).ok) fail_msg("%s is taken", rows[i].name);
        assert_int_equal(err.kind, ERROR_CORRUPT);
    }
    assert_false(posting_add(&posting, (struct bytes){large, sizeof large}, &err).ok);
}

static bool has(const struct search_terms *terms, enum search_field field, const char *value)
{
    return search_terms_have(terms, search_key(field, bytes_of_text(value)));
}

static void a_leaf_has_its_terms_and_no_others(void **state)
{
    struct leaf *leaf = calloc(1, sizeof *leaf);
    struct search_terms terms;

    (void)state;
    assert_non_null(leaf);
    (void)snprintf(leaf->actor, sizeof leaf->actor, "system");
    (void)snprintf(leaf->outcome, sizeof leaf->outcome, "denied");
    (void)snprintf(leaf->reason.rules[0], sizeof leaf->reason.rules[0], "H-READ-AE");
    leaf->reason.rule_count = 1;
    leaf->target_count = 2;
    (void)snprintf(leaf->targets[0].action, sizeof leaf->targets[0].action, "manifest.push");
    (void)snprintf(leaf->targets[0].resource, sizeof leaf->targets[0].resource, "a/b/c#sha256:00 v1  latest");
    (void)snprintf(leaf->targets[0].region, sizeof leaf->targets[0].region, "local/main");
    (void)snprintf(leaf->targets[1].action, sizeof leaf->targets[1].action, "run.order");
    (void)snprintf(leaf->targets[1].resource, sizeof leaf->targets[1].resource, "x#0f0f0f0f-0f0f-4f0f-8f0f-0f0f0f0f0f0f word");
    search_terms_of(leaf, &terms);
    assert_true(has(&terms, SEARCH_ACTOR, "system") && has(&terms, SEARCH_OUTCOME, "denied") &&
                has(&terms, SEARCH_RULE, "H-READ-AE"));
    assert_true(has(&terms, SEARCH_ACTION, "manifest.push") && has(&terms, SEARCH_ACTION, "run.order"));
    assert_true(has(&terms, SEARCH_RESOURCE, "a/b/c") && has(&terms, SEARCH_RESOURCE, "x") &&
                !has(&terms, SEARCH_RESOURCE, "a/b"));
    assert_true(has(&terms, SEARCH_PREFIX, "a") && has(&terms, SEARCH_PREFIX, "a/b") && has(&terms, SEARCH_PREFIX, "a/b/c"));
    assert_true(has(&terms, SEARCH_DIGEST, "sha256:00") && has(&terms, SEARCH_TAG, "v1") && has(&terms, SEARCH_TAG, "latest"));
    assert_true(has(&terms, SEARCH_RUN, "0f0f0f0f-0f0f-4f0f-8f0f-0f0f0f0f0f0f") && has(&terms, SEARCH_DETAIL, "word"));
    assert_true(has(&terms, SEARCH_REGION, "local/main") && !has(&terms, SEARCH_DETAIL, "v1") && !has(&terms, SEARCH_TAG, ""));
    assert_int_equal(terms.count, 17);
    free(leaf);
}

static void append(char resource[LEAF_RESOURCE_MAX + 1], const char *separator, int value)
{
    const size_t length = strlen(resource);

    (void)snprintf(resource + length, LEAF_RESOURCE_MAX + 1 - length, "%s%d", separator, value);
}

/* The largest leaf that there can be fits: segments and words beyond the bounds are left out. */
static void a_full_leaf_fits(void **state)
{
    struct leaf *leaf = calloc(1, sizeof *leaf);
    struct search_terms terms;

    (void)state;
    assert_non_null(leaf);
    memset(leaf->actor, 'f', sizeof leaf->actor - 1);
    memset(leaf->outcome, 'x', sizeof leaf->outcome - 1);
    memset(leaf->reason.decision, 'd', sizeof leaf->reason.decision - 1);
    memset(leaf->request, 'q', sizeof leaf->request - 1);
    leaf->reason.rule_count = LEAF_RULES_MAX;
    for (size_t i = 0; i < LEAF_RULES_MAX; i++) (void)snprintf(leaf->reason.rules[i], sizeof leaf->reason.rules[i], "R%zu", i);
    leaf->target_count = LEAF_TARGETS_MAX;
    for (size_t i = 0; i < LEAF_TARGETS_MAX; i++) {
        char *resource = leaf->targets[i].resource;
        (void)snprintf(leaf->targets[i].action, sizeof leaf->targets[i].action, "a%zu", i);
        (void)snprintf(leaf->targets[i].region, sizeof leaf->targets[i].region, "r%zu", i);
        for (size_t k = 0; k < 100; k++) append(resource, k == 0 ? "" : "/", (int)i);
        for (int k = 0; k < 300; k++) append(resource, k == 0 ? "#" : " ", k + 1000 * (int)i);
    }
    search_terms_of(leaf, &terms);
    assert_int_equal(terms.count, 4 + LEAF_RULES_MAX + LEAF_TARGETS_MAX * (3 + SEARCH_SEGMENTS_MAX) + SEARCH_WORDS_MAX);
    free(leaf);
}

static void blind_keys_depend_on_key_field_and_value(void **state)
{
    struct secret *keys[2] = {NULL, NULL};
    struct error err = {0};

    (void)state;
    assert_true(secret_random(32, &keys[0], &err).ok && secret_random(32, &keys[1], &err).ok);
    const int64_t key = blind_key_of(keys[0], SEARCH_ADDRESS, "192.0.2.7");
    assert_true(key == blind_key_of(keys[0], SEARCH_ADDRESS, "192.0.2.7"));
    assert_true(key != blind_key_of(keys[1], SEARCH_ADDRESS, "192.0.2.7"));
    assert_true(key != blind_key_of(keys[0], SEARCH_NETWORK, "192.0.2.7"));
    assert_true(key != blind_key_of(keys[0], SEARCH_ADDRESS, "192.0.2.8"));
    secret_free(keys[0]);
    secret_free(keys[1]);
}

static void addresses_have_one_form(void **state)
{
    char address[BLIND_TEXT_SIZE], network[BLIND_TEXT_SIZE];

    (void)state;
    assert_true(blind_address("192.0.2.77", address, network));
    assert_string_equal(address, "192.0.2.77");
    assert_string_equal(network, "192.0.2.0/24");
    assert_true(blind_address("2001:DB8:0:1ff:0:0:0:1", address, network));
    assert_string_equal(address, "2001:db8:0:1ff::1");
    assert_string_equal(network, "2001:db8:0:100::/56");
    assert_false(blind_address("unix", address, network));
    assert_int_equal(blind_year(0), 1970);
    assert_int_equal(blind_year(INT64_C(1767225599999)), 2025);
    assert_int_equal(blind_year(INT64_C(1767225600000)), 2026);
    assert_int_equal(blind_year(-1), 1970);
}

static void values_that_no_event_has_are_refused(void **state)
{
    static const struct row {
        enum search_field field;
        const char *value, *kept; /* NULL: refused */
    } rows[] = {
        {SEARCH_ADDRESS, "192.0.2.7", "192.0.2.7"},
        {SEARCH_ADDRESS, "2001:DB8::7", "2001:db8::7"},
        {SEARCH_ADDRESS, "unix", "unix"},
        {SEARCH_ADDRESS, "192.0.2.0/24", NULL},
        {SEARCH_ADDRESS, "somewhere", NULL},
        {SEARCH_NETWORK, "192.0.2.0/24", "192.0.2.0/24"},
        {SEARCH_NETWORK, "2001:db8:0:100::/56", "2001:db8:0:100::/56"},
        {SEARCH_NETWORK, "192.0.0.0/16", NULL},
        {SEARCH_NETWORK, "192.0.2.1/24", NULL},
        {SEARCH_NETWORK, "192.0.2.0", NULL},
        {SEARCH_COUNTRY, "AE", "AE"},
        {SEARCH_COUNTRY, "ae", NULL},
        {SEARCH_COUNTRY, "ARE", NULL},
        {SEARCH_PREFIX, "acme/models/", "acme/models"},
        {SEARCH_PREFIX, "/", NULL},
        {SEARCH_PREFIX, "1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17", NULL},
        {SEARCH_TAG, "", NULL},
        {SEARCH_TAG, "v1", "v1"},
    };
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct search_condition condition = {.field = rows[i].field};
        const bool is_taken = search_condition_add(&condition, rows[i].value, &err).ok;
        if (is_taken != (rows[i].kept != NULL)) fail_msg("%s %s", search_field_name(rows[i].field), rows[i].value);
        if (is_taken) assert_string_equal(condition.values[0], rows[i].kept);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_come_back_as_they_were),
        cmocka_unit_test(lists_are_united_and_intersected),
        cmocka_unit_test(broken_lists_are_refused),
        cmocka_unit_test(a_leaf_has_its_terms_and_no_others),
        cmocka_unit_test(a_full_leaf_fits),
        cmocka_unit_test(blind_keys_depend_on_key_field_and_value),
        cmocka_unit_test(addresses_have_one_form),
        cmocka_unit_test(values_that_no_event_has_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
