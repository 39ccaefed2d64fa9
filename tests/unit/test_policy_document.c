/* Accepted and refused documents: each row changes one thing in a good document. */
#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "base/memory.h"
#include "tests/support/policy.h"

/* Puts `value` at "a.b.0.c" in a copy of the health policy; a NULL value removes the member. */
static json_t *changed(const char *path, const char *value)
{
    json_t *document = policy_example("health-ae"), *place = document;
    char step[64];

    for (const char *at = path;; at += strlen(step) + 1) {
        const size_t length = strcspn(at, ".");
        (void)snprintf(step, sizeof step, "%.*s", (int)length, at);
        if (at[length] == '\0') break;
        place = json_is_array(place) ? json_array_get(place, (size_t)(step[0] - '0')) : json_object_get(place, step);
        assert_non_null(place);
    }
    if (value == NULL) assert_int_equal(json_object_del(place, step), 0);
    else assert_int_equal(json_object_set_new(place, step, policy_json(value)), 0);
    return document;
}

#define A_26  "aaaaaaaaaaaaaaaaaaaaaaaaaa"
#define A_260 A_26 A_26 A_26 A_26 A_26 A_26 A_26 A_26 A_26 A_26

static const struct document_row {
    const char *name, *path, *value; /* value NULL: the member is removed */
    const char *said;                /* of the refusal; NULL: it is a good document */
} document_rows[] = {
    {"another version", "metadata.version", "9", NULL},
    {"a fraction of a second", "metadata.effective_from", "\"2026-12-01T00:00:00.123456789+04:00\"", NULL},
    {"an empty when", "rules.0.when", "{}", NULL},
    {"an empty floor", "labels", "{}", NULL},
    {"an unknown member", "floor", "{\"class\":\"secret\"}", "policy: a member that is not known: floor"},
    {"a name that is no name", "a b", "1", "(its name has other letters)"},
    {"a name of 41 letters", "abcdefghijklmnopqrstuvwxyzabcdefghijklmno", "1", "(its name has other letters)"},
    {"a name of none", "", "1", "(its name has other letters)"},
    {"open", "closed", "false", NULL},
    {"closed", "closed", "true", NULL},
    {"a boolean that is null", "closed", "null", "policy.closed: true or false expected"},
    {"an id that is null", "metadata.id", "null", "an identifier expected"},
    {"rules that are an object", "rules", "{}", "policy.rules: a list of at least 1 expected"},
    {"types that are a list", "exception_types", "[]", "policy.exception_types: an object expected"},
    {"labels that are a list", "labels", "[]", "policy.labels: an object expected"},
    {"a segment that begins with a dot", "metadata.scope", "[\".health\"]", "a scope pattern expected"},
    {"a scope of 260 letters", "metadata.scope", "[\"" A_260 "\"]", "a scope pattern expected"},
    {"a place of one letter", "rules.0.target", "{\"geo_within\":[\"A\"]}", "a place such as"},
    {"a place with a hyphen", "rules.0.target", "{\"geo_within\":[\"AE-DU\"]}", "a place such as"},
    {"half a place", "rules.0.target", "{\"geo_within\":[\"AE/D\"]}", "a place such as"},
    {"a place that is too long", "rules.0.target", "{\"geo_within\":[\"AE/DUBA\"]}", "a place such as"},
    {"a place in small letters behind the slash", "rules.0.target", "{\"geo_within\":[\"AE/du\"]}", "a place such as"},
    {"a regime of one letter", "labels", "{\"attached\":[\"D\"]}", "the name of a regime expected"},
    {"a regime of 25 letters", "labels", "{\"attached\":[\"ABCDEFGHIJKLMNOPQRSTUVWXY\"]}", "the name of a regime expected"},
    {"a regime in small letters", "labels", "{\"attached\":[\"difc\"]}", "the name of a regime expected"},
    {"a day of eleven letters", "metadata.review_by", "\"2027-02-281\"", "a day expected"},
    {"no metadata", "metadata", NULL, "policy.metadata: is missing"},
    {"another kind", "kind", "\"Policy\"", "policy.kind: \"ResidencyPolicy\" expected"},
    {"a version of 0", "metadata.version", "0", "policy.metadata.version"},
    {"a version in a text", "metadata.version", "\"3\"", "policy.metadata.version"},
    {"a version with a fraction", "metadata.version", "3.0", "policy.metadata.version"},
    {"a version past 2^53", "metadata.version", "9007199254740993", "policy.metadata.version"},
    {"an id with a blank", "metadata.id", "\"health ae\"", "an identifier expected"},
    {"an id of one letter", "metadata.id", "\"h\"", "an identifier expected"},
    {"half a scope segment", "metadata.scope", "[\"heal*/**\"]", "a scope pattern expected"},
    {"a scope that ends in a slash", "metadata.scope", "[\"health/\"]", "a scope pattern expected"},
    {"three asterisks", "metadata.scope", "[\"***\"]", "a scope pattern expected"},
    {"no scope at all", "metadata.scope", "[]", "a list of at least 1 expected"},
    {"a day without a time", "metadata.effective_from", "\"2026-12-01\"", "a timestamp with an offset expected"},
    {"a time without an offset", "metadata.effective_from", "\"2026-12-01T00:00:00\"", "a timestamp with an offset"},
    {"a day that does not exist", "metadata.review_by", "\"2027-02-29\"", "a day expected"},
    {"an empty applies_to_labels", "metadata.applies_to_labels", "{}", "applies_to_labels: is empty"},
    {"applies_to_labels that falls", "metadata.applies_to_labels", "{\"class_at_most\":\"open\"}", "class_at_most"},
    {"closed in a text", "closed", "\"false\"", "policy.closed: true or false expected"},
    {"a subject that is not known", "labels.subjects", "[\"helth\"]", "a subject expected"},
    {"no rules", "rules", "[]", "policy.rules: a list of at least 1 expected"},
    {"an effect that is not known", "rules.0.effect", "\"forbid\"",
     "policy.rules.H-STORE-AE: effect: require, deny, oblige or permit expected"},
    {"an operation that is not known", "rules.0.ops", "[\"ingests\"]", "an operation expected"},
    {"a predicate that is not known", "rules.0.target", "{\"geo_withn\":[\"AE\"]}", "not known: geo_withn"},
    {"an empty target", "rules.0.target", "{}", "rule H-STORE-AE: an empty condition"},
    {"an empty list of places", "rules.0.target", "{\"geo_within\":[]}", "a list of at least 1 expected"},
    {"a place in small letters", "rules.0.target", "{\"geo_within\":[\"ae\"]}",
     "policy.rules.H-STORE-AE.target.geo_within: a place such as AE/DU expected, and not ae"},
    {"a condition that falls", "rules.0.when", "{\"class_at_most\":\"open\"}", "not known: class_at_most"},
    {"lineage as a condition", "rules.0.when", "{\"lineage_at_least\":\"declared\"}", "not known: lineage_at_least"},
    {"a text for a list", "rules.0.when", "{\"subjects_any\":\"health\"}", "a list of at least 1 expected"},
    {"two conditions", "rules.0.any_of", "[{\"geo_within\":[\"SA\"]}]", "exactly one of target, any_of, label"},
    {"no condition", "rules.0.target", NULL, "exactly one of target, any_of, label"},
    {"an empty alternative", "rules.0.any_of", "[{}]", "rule H-STORE-AE"},
    {"a duty of a require", "rules.0.oblige", "{\"receipt\":true}", "not known: oblige"},
    {"a duty that is not known", "rules.3.oblige", "{\"retain_days\":1}", "not known: retain_days"},
    {"approvals of an ingest", "rules.3.oblige", "{\"approvals\":1}",
     "rule H-RETAIN: approvals and signed_request are duties of train"},
    {"a signed request of an ingest", "rules.3.oblige", "{\"signed_request\":true}", "add it to ops"},
    {"nine approvals", "rules.3.oblige", "{\"approvals\":9}", "a whole number in its range expected"},
    {"a target of an oblige", "rules.3.target", "{\"geo_within\":[\"AE\"]}", "not known: target"},
    {"a target of a permit", "rules.4.target", "{\"geo_within\":[\"AE\"]}", "not known: target"},
    {"a permit that rises", "rules.4.when", "{\"subjects_any\":[\"health\"]}", "not known: subjects_any"},
    {"an assurance of 5", "rules.2.target", "{\"min_assurance\":5}", "a whole number in its range expected"},
    {"two rules of one id", "rules.1.id", "\"H-STORE-AE\"", "rule H-STORE-AE: there are two of this id"},
    {"one approval", "exception_types.continuity.approvals", "1", "policy.exception_types.*.approvals"},
    {"a year and two days", "exception_types.continuity.max_days", "367", "policy.exception_types.*.max_days"},
};

static void documents(void **state)
{
    const struct document_row *row = *state;
    OWNED(policy_document) *document = NULL;
    struct error err = {0};

    OWNED_JSON json = changed(row->path, row->value);
    const bool ok = policy_document_new(json, &document, &err).ok;
    assert_int_equal(ok, row->said == NULL);
    if (ok) return;
    assert_int_equal(err.kind, ERROR_INVALID);
    if (strstr(err.message, row->said) == NULL) fail_msg("said: %s", err.message);
}

static void a_rule_must_be_an_object(void **state)
{
    OWNED_JSON json = policy_example("health-ae");
    struct policy_document *document = NULL;
    struct error err = {0};

    (void)state;
    assert_int_equal(json_array_set_new(json_object_get(json, "rules"), 0, json_string("x")), 0);
    assert_false(policy_document_new(json, &document, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_null(document);
}

static void names_and_digests(void **state)
{
    OWNED_JSON json = policy_example("health-ae");
    OWNED(policy_document) *document = NULL;
    struct error err = {0};

    (void)state;
    assert_true(policy_document_new(json, &document, &err).ok);
    assert_string_equal(policy_document_name(document), "health-ae@3");
    assert_string_equal(policy_document_digest(document),
                        "sha256:1ac04bbb18d89020d3b37b8de584555bb82f20c15cfbe970d6e7f78c538f6d76");
}

/* Limits are ERROR_LIMIT, and each holds by itself. */
static const struct limit_row {
    const char *name, *member;
    size_t count;
} limit_rows[] = {
    {"too many places", "\"AE\"", POLICY_LIST_MAX + 1},
    {"as many places as there may be", "\"AE\"", POLICY_LIST_MAX},
};

static void limits(void **state)
{
    const struct limit_row *row = *state;
    struct buffer OWNED_BUFFER places = BUFFER(1 << 20);
    OWNED(policy_document) *document = NULL;
    struct error err = {0};

    assert_true(buffer_add_text(&places, "{\"geo_within\":[", &err).ok);
    for (size_t i = 0; i < row->count; i++) assert_true(buffer_format(&places, &err, "%s%s", i > 0 ? "," : "", row->member).ok);
    assert_true(buffer_add_text(&places, "]}", &err).ok);
    OWNED_JSON json = changed("rules.0.target", buffer_text(&places));
    const bool ok = policy_document_new(json, &document, &err).ok;
    assert_int_equal(ok, row->count <= POLICY_LIST_MAX);
    if (!ok) assert_int_equal(err.kind, ERROR_LIMIT);
}

static void a_document_has_so_many_types(void **state)
{
    struct buffer OWNED_BUFFER types = BUFFER(1 << 20);
    struct policy_document *document = NULL;
    struct error err = {0};

    (void)state;
    assert_true(buffer_add_u8(&types, '{', &err).ok);
    for (size_t i = 0; i <= POLICY_LIST_MAX; i++)
        assert_true(buffer_format(&types, &err, "%s\"type-%zu\":{}", i > 0 ? "," : "", i).ok);
    assert_true(buffer_add_u8(&types, '}', &err).ok);
    OWNED_JSON json = changed("exception_types", buffer_text(&types));
    assert_false(policy_document_new(json, &document, &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
}

static void a_list_of_documents_is_a_list(void **state)
{
    OWNED_JSON object = json_object();
    struct policy_documents *documents = NULL;
    struct error err = {0};

    (void)state;
    assert_false(policy_documents_new(object, &documents, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_false(policy_documents_new(NULL, &documents, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_null(documents);
}

static void an_error_of_a_list_names_the_policy(void **state)
{
    OWNED_JSON array = json_array();
    OWNED_JSON wrong = changed("closed", "null");
    struct policy_documents *documents = NULL;
    struct error err = {0};

    (void)state;
    assert_int_equal(json_array_append(array, wrong), 0);
    assert_false(policy_documents_new(array, &documents, &err).ok);
    assert_string_equal(err.message, "policy health-ae: policy.closed: true or false expected");
}

static void a_document_has_a_largest_size(void **state)
{
    char *text = memory_zeroed(POLICY_DOCUMENT_BYTES_MAX + 2, 1);
    struct policy_document *document = NULL;
    struct error err = {0};

    (void)state;
    memset(text, ' ', POLICY_DOCUMENT_BYTES_MAX + 1);
    assert_false(policy_document_read(bytes_of_text(text), &document, &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
    free(text);
}

static void a_long_text_is_refused(void **state)
{
    char text[POLICY_TEXT_MAX + 8] = "\"";
    struct policy_document *document = NULL;
    struct error err = {0};

    (void)state;
    memset(text + 1, 'x', POLICY_TEXT_MAX + 1);
    text[POLICY_TEXT_MAX + 2] = '"';
    OWNED_JSON json = changed("rules.0.message", text);
    assert_false(policy_document_new(json, &document, &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
}

static void a_set_has_a_largest_number_of_policies(void **state)
{
    OWNED_JSON array = json_array();
    OWNED_JSON json = policy_example("health-ae");
    OWNED(policy_documents) *documents = NULL;
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < POLICY_COUNT_MAX; i++) assert_int_equal(json_array_append(array, json), 0);
    assert_true(policy_documents_new(array, &documents, &err).ok);
    assert_int_equal(policy_documents_count(documents), 1); /* the same document is one */
    policy_documents_free(GIVE(documents));
    assert_int_equal(json_array_append(array, json), 0);
    assert_false(policy_documents_new(array, &documents, &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
}

static const struct floor_row {
    const char *name, *text;
    bool is_good, is_stated;
} floor_rows[] = {
    {"nothing", "{}", true, false},
    {"a class", "{\"class\":\"secret\"}", true, true},
    {"all of it", "{\"class\":\"open\",\"subjects\":[\"health\"],\"attached\":[\"DIFC\"],\"lineage\":\"declared\"}", true, true},
    {"pins are for policies", "{\"pins\":[\"health-ae\"]}", false, false},
    {"a class that is not known", "{\"class\":\"top\"}", false, false},
    {"a list", "[]", false, false},
    {"null", "null", false, false},
};

static void floors(void **state)
{
    const struct floor_row *row = *state;
    OWNED_JSON json = policy_json(row->text);
    struct label label;
    bool is_stated = false;
    struct error err = {0};

    assert_int_equal(label_read_floor(json, &label, &is_stated, &err).ok, row->is_good);
    assert_int_equal(is_stated, row->is_stated);
}

static struct result read_all(void *policies, struct error *err)
{
    OWNED(policy_documents) *documents = NULL;

    TRY_UNTOUCHED_BYTES(documents, policy_documents_new(policies, &documents, err));
    return SUCCESS;
}

static void reading_survives_lack_of_memory(void **state)
{
    OWNED_JSON policies = policy_examples();

    (void)state;
    fail_each(read_all, policies, ERROR_NO_MEMORY, 20);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(a_rule_must_be_an_object),
        cmocka_unit_test(names_and_digests),
        cmocka_unit_test(a_document_has_so_many_types),
        cmocka_unit_test(a_list_of_documents_is_a_list),
        cmocka_unit_test(an_error_of_a_list_names_the_policy),
        cmocka_unit_test(a_document_has_a_largest_size),
        cmocka_unit_test(a_long_text_is_refused),
        cmocka_unit_test(a_set_has_a_largest_number_of_policies),
        cmocka_unit_test(reading_survives_lack_of_memory),
    };

    return RUN_TABLE(document_rows, documents) + RUN_TABLE(limit_rows, limits) + RUN_TABLE(floor_rows, floors) +
           cmocka_run_group_tests_name("others", others, NULL, NULL);
}
