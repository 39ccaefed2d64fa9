/* What the event of an export states, the keys that follow from it, and the vectors. */
#include "tests/support/unit.h"

#include <stdio.h>

#include "audit/format/export_check.h"
#include "base/json.h"

/* ---- terms ---- */

static const struct terms_row {
    const char *name, *text;
} bad_terms[] = {
    {"no words", ""},
    {"another unit", "seq 0 1 00112233445566778899aabbccddeeff sealed org:acme"},
    {"a short nonce", "number 0 1 00112233445566778899aabbccddeef sealed org:acme"},
    {"a nonce in capitals", "number 0 1 00112233445566778899AABBCCDDEEFF sealed org:acme"},
    {"a range that ends before it begins", "number 2 1 00112233445566778899aabbccddeeff sealed org:acme"},
    {"a leading zero", "number 00 1 00112233445566778899aabbccddeeff sealed org:acme"},
    {"a number over 2^53", "number 0 9007199254740992 00112233445566778899aabbccddeeff sealed org:acme"},
    {"neither sealed nor opened", "number 0 1 00112233445566778899aabbccddeeff closed org:acme"},
    {"no key", "number 0 1 00112233445566778899aabbccddeeff sealed "},
    {"two spaces", "number 0 1  00112233445566778899aabbccddeeff sealed org:acme"},
};

static void bad_terms_are_refused(void **state)
{
    const struct terms_row *row = *state;
    struct export_terms terms;

    assert_false(export_terms_read(bytes_of_text(row->text), &terms));
}

static void an_export_stands_under_its_key_and_what_contains_it(void **state)
{
    static const struct {
        const char *resource, *outcome, *key;
        size_t keys;
    } rows[] = {
        {"#number 0 1 00112233445566778899aabbccddeeff sealed res:acme/a/b", "allowed", "prj:acme/a", 4},
        {"#number 0 1 00112233445566778899aabbccddeeff sealed out:denied", "allowed", "out:denied", 2},
        {"acme#time 0 1 00112233445566778899aabbccddeeff opened prj:acme/a", "allowed", "prj:acme/a", 5},
        {"#number 0 1 00112233445566778899aabbccddeeff sealed out:denied", "failed", "out:failed", 2},
        {"#number 0 1 00112233445566778899aabbccddeeff sealed bad:key", "allowed", "act:system", 1},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct leaf leaf = {.target_count = 1, .actor = "system"};
        uint64_t ordinal = 0;
        (void)snprintf(leaf.targets[0].action, sizeof leaf.targets[0].action, EXPORT_ACTION);
        (void)snprintf(leaf.targets[0].resource, sizeof leaf.targets[0].resource, "%s", rows[i].resource);
        (void)snprintf(leaf.outcome, sizeof leaf.outcome, "%s", rows[i].outcome);
        leaf_fill_keys(&leaf);
        assert_int_equal(leaf.key_count, rows[i].keys);
        assert_true(export_ordinal(&leaf, rows[i].key, &ordinal));
    }
}

/* ---- vectors ---- */

static struct result check_vector(const json_t *vkey, const json_t *row, struct export_report *report, struct error *err)
{
    OWNED(export_check) *check = NULL;
    const json_t *file = json_object_get(row, "file");

    TRY(export_check_new(&(struct proof_trust){.vkey = bytes_of_text(json_string_value(vkey))}, &check, err));
    TRY(export_check_bytes(check, (struct bytes){(const uint8_t *)json_string_value(file), json_string_length(file)}, err));
    return export_check_end(check, report, err);
}

static void vectors_hold(void **state)
{
    OWNED_JSON vectors = json_load_file(AUDIT_EXPORT_VECTORS, 0, NULL);
    const json_t *vkey = json_object_get(vectors, "vkey"), *row;
    struct export_report report;
    struct error err = {0};
    size_t i;

    (void)state;
    assert_in_range(json_array_size(json_object_get(vectors, "complete")), 12, 1000);
    assert_in_range(json_array_size(json_object_get(vectors, "refused")), 12, 1000);
    json_array_foreach (json_object_get(vectors, "complete"), i, row) {
        must(check_vector(vkey, row, &report, &err), &err);
        assert_int_equal(report.events, json_integer_value(json_object_get(row, "events")));
        assert_string_equal(report.terms.nonce, json_string_value(json_object_get(row, "nonce")));
    }
    json_array_foreach (json_object_get(vectors, "refused"), i, row)
        if (check_vector(vkey, row, &report, &err).ok) fail_msg("%s is taken", json_string_value(json_object_get(row, "name")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_export_stands_under_its_key_and_what_contains_it),
        cmocka_unit_test(vectors_hold),
    };

    return cmocka_run_group_tests(tests, NULL, NULL) + RUN_TABLE(bad_terms, bad_terms_are_refused);
}
