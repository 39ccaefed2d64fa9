/* The label that a manifest states: one spelling, and whoever reads it reads the same. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "policy/label_annotation.h"

#define LEAST "{\"attached\":[],\"class\":\"open\",\"lineage\":\"attested\",\"pins\":[],\"subjects\":[]}"
#define HEALTH \
    "{\"attached\":[\"AE-FED\"],\"class\":\"sensitive\",\"lineage\":\"declared\",\"pins\":[\"health\"],\"subjects\":[\"health\",\"personal\"]}"

static const struct row {
    const char *name, *text;
    const char *says; /* NULL: it is a label */
} rows[] = {
    {"the least one", LEAST, NULL},
    {"one with all members", HEALTH, NULL},
    {"lists that are not sorted",
     "{\"attached\":[],\"class\":\"open\",\"lineage\":\"attested\",\"pins\":[],\"subjects\":[\"personal\",\"health\"]}",
     "is not canonical; write {\"attached\":[],\"class\":\"open\",\"lineage\":\"attested\",\"pins\":[],\"subjects\":[\"health\",\"personal\"]}"},
    {"a text twice", "{\"attached\":[],\"class\":\"open\",\"lineage\":\"attested\",\"pins\":[\"all\",\"all\"],\"subjects\":[]}",
     "canonical"},
    {"a blank", " " LEAST, "canonical"},
    {"members in another order", "{\"class\":\"open\",\"attached\":[],\"lineage\":\"attested\",\"pins\":[],\"subjects\":[]}",
     "canonical"},
    {"an escape", "{\"attached\":[],\"class\":\"op\\u0065n\",\"lineage\":\"attested\",\"pins\":[],\"subjects\":[]}", "canonical"},
    {"a floor, which may leave out members", "{\"class\":\"sensitive\"}", "is no label"},
    {"an unknown member", "{\"attached\":[],\"class\":\"open\",\"lineage\":\"attested\",\"more\":1,\"pins\":[],\"subjects\":[]}",
     "is no label"},
    {"an unknown class", "{\"attached\":[],\"class\":\"public\",\"lineage\":\"attested\",\"pins\":[],\"subjects\":[]}",
     "is no label"},
    {"an unknown subject", "{\"attached\":[],\"class\":\"open\",\"lineage\":\"attested\",\"pins\":[],\"subjects\":[\"cats\"]}",
     "is no label"},
    {"a member twice",
     "{\"attached\":[],\"attached\":[],\"class\":\"open\",\"lineage\":\"attested\",\"pins\":[],\"subjects\":[]}", "is no label"},
    {"no JSON", "sensitive", "is no label"},
    {"nothing", "", "is no label"},
};

static void check_row(const struct row *row)
{
    OWNED_JSON manifest = json_pack("{s:{s:s, s:s}}", "annotations", "other", "x", LABEL_ANNOTATION, row->text);
    OWNED_STATED_LABEL stated = {.json = NULL};
    struct buffer OWNED_BUFFER again = BUFFER(LABEL_ANNOTATION_MAX);
    struct error err = {0};

    assert_non_null(manifest);
    const struct result read = label_annotation_of(manifest, &stated, &err);
    if (read.ok != (row->says == NULL)) fail_msg("%s: %s", row->name, read.ok ? "is a label" : err.message);
    if (!read.ok) {
        if (err.kind != ERROR_INVALID || strstr(err.message, row->says) == NULL) fail_msg("%s: %s", row->name, err.message);
        return;
    }
    if (!label_write(&again, &stated.label, &err).ok) fail_msg("%s", err.message);
    assert_string_equal(buffer_text(&again), row->text);
}

static void has_one_spelling(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) check_row(&rows[i]);
}

static void may_be_absent(void **state)
{
    static const char *const manifests[] = {"{}", "{\"annotations\":null}", "{\"annotations\":{\"sijil.labels\":\"x\"}}"};

    (void)state;
    for (size_t i = 0; i < COUNT(manifests); i++) {
        OWNED_STATED_LABEL stated = {.json = NULL};
        struct error err = {0};
        if (!label_annotation_of_text(bytes_of_text(manifests[i]), 1000, &stated, &err).ok) fail_msg("%s", err.message);
        assert_null(stated.json);
    }
}

static void is_a_text(void **state)
{
    OWNED_STATED_LABEL stated = {.json = NULL};
    struct error err = {0};

    (void)state;
    assert_false(label_annotation_of_text(bytes_of_text("{\"annotations\":{\"sijil.label\":{}}}"), 1000, &stated, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_null(stated.json);
}

/* One that would fill the memory of each gateway. */
static void is_bounded(void **state)
{
    struct buffer OWNED_BUFFER text = BUFFER(4 * LABEL_ANNOTATION_MAX);
    OWNED_STATED_LABEL stated = {.json = NULL};
    struct error err = {0};

    (void)state;
    assert_true(buffer_add_text(&text, "{\"attached\":[", &err).ok);
    for (int i = 0; i <= LABEL_REGIMES_MAX; i++) assert_true(buffer_format(&text, &err, "%s\"R%02d\"", i > 0 ? "," : "", i).ok);
    assert_true(buffer_add_text(&text, "],\"class\":\"open\",\"lineage\":\"attested\",\"pins\":[],\"subjects\":[]}", &err).ok);
    OWNED_JSON many = json_string(buffer_text(&text));
    assert_false(label_annotation_read(many, &stated, &err).ok);
    buffer_clear(&text);
    for (int i = 0; i <= LABEL_ANNOTATION_MAX; i++) assert_true(buffer_add_u8(&text, ' ', &err).ok);
    OWNED_JSON large = json_string(buffer_text(&text));
    assert_false(label_annotation_read(large, &stated, &err).ok);
    assert_null(stated.json);
}

static void fails_whole(void **state)
{
    OWNED_JSON value = json_string(HEALTH);

    (void)state;
    for (unsigned long n = 1;; n++) {
        OWNED_STATED_LABEL stated = {.json = NULL};
        struct error err = {0};
        fault_arm(n);
        const struct result read = label_annotation_read(value, &stated, &err);
        const bool has_fired = fault_has_fired();
        fault_arm(0);
        if (!has_fired) return;
        assert_false(read.ok);
        assert_null(stated.json);
    }
}

/* docs/formats/run-vectors.json, which tests/vectors/run.py reads, too. */
static void check_vector(const json_t *row)
{
    const json_t *texts = json_object_get(row, "labels");
    const char *joined = json_text_of(row, "joined");
    struct buffer OWNED_BUFFER text = BUFFER(LABEL_ANNOTATION_MAX);
    struct stated_label stated[2] = {{.json = NULL}, {.json = NULL}};
    struct label label = {.class = LABEL_OPEN, .lineage = LINEAGE_ATTESTED};
    struct error err = {0};
    bool are_labels = true;

    assert_in_range(json_array_size(texts), 1, COUNT(stated));
    for (size_t i = 0; i < json_array_size(texts); i++) {
        are_labels = are_labels && label_annotation_read(json_array_get(texts, i), &stated[i], &err).ok;
        if (are_labels) assert_true(label_join(&label, &stated[i].label, &err).ok);
    }
    if (are_labels != (joined != NULL)) fail_msg("%s: %s", json_text_of(row, "name"), err.message);
    if (are_labels) {
        assert_true(label_write(&text, &label, &err).ok);
        assert_string_equal(buffer_text(&text), joined);
    }
    for (size_t i = 0; i < COUNT(stated); i++) stated_label_done(&stated[i]);
}

static void reads_the_vectors(void **state)
{
    OWNED_JSON vectors = json_load_file(RUN_VECTORS, 0, NULL);
    const json_t *rows_of = json_object_get(vectors, "labels");

    (void)state;
    assert_true(json_array_size(rows_of) > 15);
    for (size_t i = 0; i < json_array_size(rows_of); i++) check_vector(json_array_get(rows_of, i));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(has_one_spelling), cmocka_unit_test(may_be_absent),
                                              cmocka_unit_test(is_a_text),        cmocka_unit_test(is_bounded),
                                              cmocka_unit_test(fails_whole),      cmocka_unit_test(reads_the_vectors)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
