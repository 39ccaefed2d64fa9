/* A residency report: that it follows from its evidence, that a wrong row is named, and that hostile texts are no markup. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "crypto/digest.h"
#include "residency/residency_priv.h"

#define MUST_FAIL(expected, call)             \
    do {                                      \
        assert_false((call).ok);              \
        assert_int_equal(err.kind, expected); \
    } while (0)

static struct buffer evidence = {.maximum = (size_t)1 << 20};

static struct result compose(const struct buffer *from, const struct residency_question *question, json_t **report_out,
                             struct error *err)
{
    static const struct residency_trust nothing = {.root = NULL};
    struct residency_findings findings;
    FILE *file = fmemopen((void *)(uintptr_t)from->data, from->length, "rb");

    assert_non_null(file);
    const struct result composed = residency_compose(file, &nothing, question, report_out, &findings, err);
    (void)fclose(file);
    return composed;
}

static json_t *report_of(uint64_t from)
{
    const struct residency_question question = {.unit = EXPORT_BY_NUMBER, .from = from};
    struct error err = {0};
    json_t *report = NULL;

    if (!compose(&evidence, &question, &report, &err).ok) fail_msg("%s", err.message);
    return report;
}

/* ---- what is in it ---- */

static json_int_t count_of(const json_t *report, const char *object, const char *member)
{
    return json_integer_value(json_object_get(json_object_get(report, object), member));
}

static void the_sample_is_reported(void **state)
{
    OWNED_JSON report = report_of(0);
    const json_t *content = json_object_get(report, "content"), *manifest = json_array_get(content, 2);

    (void)state;
    assert_string_equal(json_text_of(report, "project"), "main/scans");
    assert_int_equal(count_of(report, "decisions", "agree"), 15);
    assert_int_equal(count_of(report, "decisions", "differ"), 0);
    assert_int_equal(json_array_size(content), 4); /* two blobs, a manifest, and a mount */
    assert_string_equal(json_text_of(manifest, "removed_by"), "manifest.delete");
    assert_null(json_object_get(json_array_get(content, 0), "until"));
    assert_int_equal(json_array_size(json_object_get(report, "sets")), 1);
    assert_true(json_is_true(json_object_get(json_array_get(json_object_get(report, "sets"), 0), "in_force")));
    assert_int_equal(json_array_size(json_object_get(report, "readers")), 1);
}

/* Content stays, from whenever it is; what was read or removed before is left out. */
static void a_later_beginning_leaves_out_what_was_before(void **state)
{
    OWNED_JSON report = report_of(1000000);

    (void)state;
    assert_int_equal(json_array_size(json_object_get(report, "readers")), 0);
    assert_int_equal(json_array_size(json_object_get(report, "content")), 3);
    assert_true(json_array_size(json_object_get(report, "places")) > 0);
}

/* What is left out of the evidence is said: without the facts of a read, the report has no row of its reader. */
static void what_the_evidence_lacks_is_counted(void **state)
{
    static const struct residency_question all = {.from = 0};
    static const char *const lines[] = {"{\"facts\":", "{\"set\":"};
    struct error err = {0};

    (void)state;
    OWNED_JSON whole = report_of(0);
    assert_int_equal(count_of(whole, "decisions", "lacking"), 0);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        struct buffer OWNED_BUFFER copy = BUFFER((size_t)1 << 20), page = BUFFER(RESIDENCY_PAGE_MAX);
        OWNED_JSON report = NULL;
        for (const char *line = buffer_text(&evidence); *line != '\0'; line += strcspn(line, "\n") + 1)
            if (strncmp(line, lines[i], strlen(lines[i])) != 0)
                assert_true(buffer_add(&copy, line, strcspn(line, "\n") + 1, &err).ok);
        assert_true(compose(&copy, &all, &report, &err).ok && residency_page(report, RESIDENCY_ENGLISH, &page, &err).ok);
        assert_true(count_of(report, "decisions", "lacking") > 0);
        assert_non_null(strstr(buffer_text(&page), "rows of this report are missing"));
    }
}

/* ---- single events ---- */

static struct leaf leaf_of(const char *action, const char *outcome, const char *resource, const char *request)
{
    static uint64_t sequence = 0;
    struct leaf leaf = {.version = LEAF_VERSION, .sequence = sequence++, .target_count = 1};

    (void)snprintf(leaf.targets[0].action, sizeof leaf.targets[0].action, "%s", action);
    (void)snprintf(leaf.targets[0].resource, sizeof leaf.targets[0].resource, "%s", resource);
    (void)snprintf(leaf.targets[0].region, sizeof leaf.targets[0].region, "local/main");
    (void)snprintf(leaf.outcome, sizeof leaf.outcome, "%s", outcome);
    (void)snprintf(leaf.request, sizeof leaf.request, "%s", request);
    return leaf;
}

static const struct story {
    const char *name, *actions[3], *outcomes[3];
    size_t rows;
    const char *removed_by;
} stories[] = {
    {"a promotion brings a manifest", {"manifest.promote"}, {"allowed"}, 1, NULL},
    {"the end of retention removes it", {"manifest.promote", "manifest.expire"}, {"allowed", "allowed"}, 1, "manifest.expire"},
    {"a push that failed has brought nothing", {"manifest.push", "manifest.push"}, {"allowed", "failed"}, 0, NULL},
    {"neither has such a promotion", {"manifest.promote", "manifest.promote"}, {"allowed", "failed"}, 0, NULL},
    {"a removal that failed has removed nothing",
     {"manifest.push", "manifest.delete", "manifest.delete"},
     {"allowed", "allowed", "failed"},
     1,
     NULL},
};

static void content_follows_its_events(void **state)
{
    static const struct residency_question all = {.from = 0};
    const struct story *story = *state;
    OWNED(residency) *residency = NULL;
    struct error err = {0};

    assert_true(residency_new(&all, &residency, &err).ok);
    for (size_t i = 0; i < 3 && story->actions[i] != NULL; i++) {
        const bool is_same = i > 0 && strcmp(story->actions[i], story->actions[i - 1]) == 0;
        const char *request = (is_same ? i : i + 1) == 1 ? "first" : "second";
        const struct leaf leaf = leaf_of(story->actions[i], story->outcomes[i], "main/scans/a#sha256:1 v1", request);
        assert_true(residency_take_content(residency, &leaf, &err).ok);
    }
    const json_t *rows = residency->tables[TABLE_CONTENT], *row = json_array_get(rows, 0);
    const char *removed_by = json_text_of(row, "removed_by");
    assert_int_equal(json_array_size(rows), story->rows);
    if (story->removed_by != NULL) assert_string_equal(removed_by, story->removed_by);
    else assert_null(removed_by);
    if (story->rows > 0) assert_string_equal(json_text_of(row, "kind"), "manifest");
}

/* Whoever may do nothing may ask for any name: that fills no report. */
static void refusals_of_many_names_are_counted_together(void **state)
{
    static const struct residency_question all = {.from = 0};
    OWNED(residency) *residency = NULL;
    struct error err = {0};
    char name[64];

    (void)state;
    assert_true(residency_new(&all, &residency, &err).ok);
    (void)snprintf(residency->project, sizeof residency->project, "main/scans");
    for (int i = 0; i < 2 * RESIDENCY_ROWS_MAX; i++) {
        (void)snprintf(name, sizeof name, "main/scans/%d", i % 9000);
        const struct leaf leaf = leaf_of("manifest.read", "denied", name, "");
        assert_true(residency_take_event(residency, &leaf, &err).ok);
    }
    const json_t *rows = residency->tables[TABLE_REFUSALS], *last = json_array_get(rows, json_array_size(rows) - 1);
    assert_int_equal(json_array_size(rows), 1001);
    assert_string_equal(json_text_of(last, "name"), "main/scans/*");
    assert_int_equal(json_integer_value(json_object_get(last, "count")), 2 * RESIDENCY_ROWS_MAX - 2000);
}

/* ---- what is wrong in it ---- */

static const struct wrong_row {
    const char *name, *table, *said;
} wrong_rows[] = {
    {"a place", "places", "row 1 of \"places\" is wrong: the evidence leads to {\"count\":"},
    {"content", "content", "row 1 of \"content\" is wrong"},
    {"a label", "labels", "row 1 of \"labels\" is wrong"},
    {"a reader", "readers", "row 1 of \"readers\" is wrong"},
    {"a set", "sets", "row 1 of \"sets\" is wrong"},
    {"a rule", "rules", "row 1 of \"rules\" is wrong"},
    {"a control", "controls", "row 1 of \"controls\" is wrong"},
};

static void a_wrong_row_is_named(void **state)
{
    const struct wrong_row *row = *state;
    OWNED_JSON report = report_of(0);
    OWNED_JSON right = report_of(0);
    struct error err = {0};

    assert_true(residency_compare(report, right, &err).ok);
    assert_int_equal(json_object_set_new(json_array_get(json_object_get(report, row->table), 0), "count", json_integer(-1)), 0);
    MUST_FAIL(ERROR_DENIED, residency_compare(report, right, &err));
    if (strstr(err.message, row->said) == NULL) fail_msg("%s", err.message);
}

static void rows_too_many_and_too_few_are_named(void **state)
{
    OWNED_JSON report = report_of(0);
    OWNED_JSON right = report_of(0);
    struct error err = {0};

    (void)state;
    assert_int_equal(json_array_append_new(json_object_get(report, "refusals"), json_object()), 0);
    MUST_FAIL(ERROR_DENIED, residency_compare(report, right, &err));
    assert_string_equal(err.message, "row 1 of \"refusals\" is in the report, and the evidence does not lead to it");
    assert_int_equal(json_array_clear(json_object_get(report, "refusals")), 0);
    assert_int_equal(json_array_remove(json_object_get(report, "labels"), 2), 0);
    MUST_FAIL(ERROR_DENIED, residency_compare(report, right, &err));
    assert_non_null(strstr(err.message, "row 3 of \"labels\" is wrong"));
}

/* A report of another day's mapping is still checked, but for its controls. */
static void another_mapping_is_no_wrong_row(void **state)
{
    OWNED_JSON report = report_of(0);
    OWNED_JSON right = report_of(0);
    struct error err = {0};

    (void)state;
    assert_int_equal(json_array_clear(json_object_get(report, "controls")), 0);
    MUST_FAIL(ERROR_DENIED, residency_compare(report, right, &err));
    assert_int_equal(json_object_set_new(report, "mapping", json_string("2031-01-01")), 0);
    assert_true(residency_compare(report, right, &err).ok);
}

/* ---- evidence ---- */

static const struct bad_evidence {
    const char *name, *from, *into, *said;
} bad_evidence[] = {
    {"an entry that was changed", "\"out\":\"allowed\"", "\"out\":\"allowod\"", "evidence, line "},
    {"another key", "prj:main/scans", "prj:main/scanz", "evidence, line 2: "},
    {"a set of another event", "policy.load", "policy.lord", "evidence, line "},
    {"facts and more", "{\"facts\":{", "{\"facts\":1,\"more\":{", "it has more than facts"},
};

static void bad_evidence_is_refused(void **state)
{
    const struct bad_evidence *bad = *state;
    struct buffer OWNED_BUFFER copy = BUFFER((size_t)1 << 20);
    static const struct residency_question all = {.from = 0};
    OWNED_JSON report = NULL;
    struct error err = {0};
    const char *found = strstr(buffer_text(&evidence), bad->from);

    assert_non_null(found);
    const size_t before = (size_t)(found - buffer_text(&evidence)), length = strlen(bad->from);
    assert_true(buffer_add(&copy, evidence.data, before, &err).ok && buffer_add_text(&copy, bad->into, &err).ok);
    assert_true(buffer_add_text(&copy, found + length, &err).ok);
    MUST_FAIL(ERROR_DENIED, compose(&copy, &all, &report, &err));
    if (strstr(err.message, bad->said) == NULL) fail_msg("%s", err.message);
}

/* ---- pages ---- */

#define HOSTILE                                                                  \
    "</bdi><script>alert(1)</script><img src=x onerror=\"x\">&amp;'\xe2\x80\xae" \
    "gpj"

static void hostile_texts_are_no_markup(void **state)
{
    static const char *const bad[] = {"<script", "<img", "\xe2\x80\xae", "onerror=\""};
    OWNED_JSON report = report_of(0);
    json_t *row = json_array_get(json_object_get(report, "content"), 0);
    struct error err = {0};

    (void)state;
    assert_int_equal(json_object_set_new(row, "repository", json_string(HOSTILE)), 0);
    assert_int_equal(json_object_set_new(report, "project", json_string(HOSTILE)), 0);
    assert_int_equal(json_object_set_new(json_object_get(report, "proof"), "checkpoint", json_string(HOSTILE "\nline\n")), 0);
    for (enum residency_language language = RESIDENCY_ENGLISH; language < RESIDENCY_LANGUAGES; language++) {
        struct buffer OWNED_BUFFER page = BUFFER(RESIDENCY_PAGE_MAX);
        assert_true(residency_page(report, language, &page, &err).ok);
        for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) assert_null(strstr(buffer_text(&page), bad[i]));
        assert_non_null(strstr(buffer_text(&page), "&lt;/bdi&gt;&lt;script&gt;alert(1)&lt;/script&gt;"));
        assert_non_null(strstr(buffer_text(&page), "&amp;amp;&#39;???gpj"));
        assert_non_null(strstr(buffer_text(&page), "\nline\n</pre>"));
    }
}

/* Rows through all tables, each in one part; the controls are in each. A report of one part says nothing of parts. */
static void many_rows_come_in_parts(void **state)
{
    OWNED_JSON report = report_of(0);
    OWNED_JSON small = NULL;
    json_t *readers = json_object_get(report, "readers");
    struct error err = {0};
    size_t seen = 0;

    (void)state;
    must(residency_part(report, 1, &small, &err), &err);
    assert_true(json_equal(small, report));
    for (json_int_t i = 0; i < 2 * RESIDENCY_ROWS_MAX; i++) (void)json_array_append_new(readers, json_pack("{s:I}", "n", i));
    for (size_t number = 1; number <= 3; number++) {
        struct buffer OWNED_BUFFER page = BUFFER(RESIDENCY_PAGE_MAX);
        struct residency_question question;
        OWNED_JSON part = NULL;
        must(residency_part(report, number, &part, &err), &err);
        must(residency_question_of(part, &question, &err), &err);
        assert_int_equal(question.part, number);
        assert_int_equal(count_of(part, "part", "of"), residency_parts(report));
        assert_true(json_equal(json_object_get(part, "controls"), json_object_get(report, "controls")));
        const json_t *part_of_readers = json_object_get(part, "readers");
        for (size_t i = 0; i < json_array_size(part_of_readers); i++)
            assert_ptr_equal(json_array_get(part_of_readers, i), json_array_get(readers, seen++));
        must(residency_page(part, RESIDENCY_ARABIC, &page, &err), &err);
        assert_non_null(strstr(buffer_text(&page), "هذا هو الجزء رقم"));
    }
    assert_int_equal(seen, json_array_size(readers));
    MUST_FAIL(ERROR_DENIED, residency_part(report, 4, &small, &err));
}

static void a_page_has_the_digest_of_its_report(void **state)
{
    struct buffer OWNED_BUFFER text = BUFFER(RESIDENCY_REPORT_MAX), page = BUFFER(RESIDENCY_PAGE_MAX);
    OWNED_JSON report = report_of(0);
    char digest[DIGEST_TEXT_SIZE];
    struct error err = {0};

    (void)state;
    assert_true(residency_write(report, &text, &err).ok && residency_page(report, RESIDENCY_ARABIC, &page, &err).ok);
    const struct digest expected = digest_of(DIGEST_SHA256, buffer_bytes(&text));
    digest_format(&expected, digest);
    assert_non_null(strstr(buffer_text(&page), digest));
    assert_non_null(strstr(buffer_text(&page), "<html lang=\"ar\" dir=\"rtl\">"));
}

/* What Arabic readers would misread: numbers in one row, a date whose hyphen a line break moves, and words that are ours and not the log's. */
static const struct page_words {
    const char *name, *english, *arabic;
} page_words[] = {
    {"decisions have a line each", "again with the same result</th><td><bdi dir=\"ltr\" class=\"short\">15</bdi></td>",
     "بالنتيجة نفسها</th><td><bdi dir=\"ltr\" class=\"short\">15</bdi></td>"},
    {"a short text keeps its line", "<bdi dir=\"ltr\" class=\"short\">2026-11-28</bdi>",
     "<bdi dir=\"ltr\" class=\"short\">2026-11-28</bdi>"},
    {"a digest breaks anywhere", "<bdi dir=\"ltr\" class=\"long\">sha256:", "<bdi dir=\"ltr\" class=\"long\">sha256:"},
    {"controls name tables by their titles", "<td>Places and keys, Content, Labels</td>",
     "<td>الأماكن والمفاتيح، المحتوى، التصنيفات</td>"},
    {"how far a control was compared", "<td>compared with the text of the authority</td>", "<td>قورن بنصّ الجهة المختصة</td>"},
    {"the kind of content", "<td>manifest</td>", "<td>وصف محتوى (manifest)</td>"},
    {"a list of nothing", "; subjects: -</bdi>", "; subjects: -</bdi>"},
    {"whose report it is", "<title>Residency report main/scans</title>", "<title>تقرير إقامة البيانات main/scans</title>"},
};

static void a_page_says_it_in_its_language(void **state)
{
    const struct page_words *row = *state;
    OWNED_JSON report = report_of(0);
    struct error err = {0};

    for (enum residency_language language = RESIDENCY_ENGLISH; language < RESIDENCY_LANGUAGES; language++) {
        struct buffer OWNED_BUFFER page = BUFFER(RESIDENCY_PAGE_MAX);
        assert_true(residency_page(report, language, &page, &err).ok);
        assert_non_null(strstr(buffer_text(&page), language == RESIDENCY_ARABIC ? row->arabic : row->english));
    }
}

static void a_formula_is_no_formula_in_csv(void **state)
{
    struct buffer OWNED_BUFFER csv = BUFFER(RESIDENCY_PAGE_MAX);
    OWNED_JSON report = report_of(0);
    struct error err = {0};

    (void)state;
    assert_int_equal(
        json_object_set_new(json_array_get(json_object_get(report, "content"), 0), "repository", json_string("=1+\"1\"\n")), 0);
    assert_true(residency_csv(report, &csv, &err).ok);
    assert_non_null(strstr(buffer_text(&csv), "\"'=1+\"\"1\"\"?\""));
    static const char *const others[] = {"  =1", "\xef\xbc\x9d\x31", "a\xe2\x80\xae\x62"}, *const cells[] = {
                                                                                               "\"'  =1\"",
                                                                                               "\"'\xef\xbc\x9d\x31\"",
                                                                                               "\"a???b\""};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_int_equal(
            json_object_set_new(json_array_get(json_object_get(report, "content"), 0), "repository", json_string(others[i])), 0);
        buffer_clear(&csv);
        assert_true(residency_csv(report, &csv, &err).ok);
        assert_non_null(strstr(buffer_text(&csv), cells[i]));
    }
}

static struct result compose_all(void *context, struct error *err)
{
    static const struct residency_question all = {.from = 0};
    OWNED_JSON report = NULL;
    struct buffer OWNED_BUFFER page = BUFFER(RESIDENCY_PAGE_MAX);

    TRY(compose(context, &all, &report, err));
    return residency_page(report, RESIDENCY_ARABIC, &page, err);
}

static void reports_survive_lack_of_memory(void **state)
{
    unsigned long nth = 1, failures = 0;

    (void)state;
    for (bool has_fired = true; has_fired; nth += 997) { /* there are thousands, and each costs a whole report */
        struct error err = {0};
        fault_arm(nth);
        const bool ok = compose_all(&evidence, &err).ok;
        has_fired = fault_has_fired();
        fault_arm(0);
        if (ok == has_fired) fail_msg("failure %lu: %s", nth, ok ? "it is not said" : err.message);
        failures += has_fired;
    }
    assert_failures(failures, 3);
}

static void what_is_no_report_is_refused(void **state)
{
    struct residency_question question;
    OWNED_JSON other = json_pack("{s:s}", "kind", "PolicySet");
    OWNED_JSON endless = json_pack("{s:s, s:{s:s, s:i}}", "kind", RESIDENCY_KIND, "from", "unit", "number", "value", -1);
    struct error err = {0};

    (void)state;
    MUST_FAIL(ERROR_DENIED, residency_question_of(other, &question, &err));
    MUST_FAIL(ERROR_DENIED, residency_question_of(endless, &question, &err));
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(the_sample_is_reported),
        cmocka_unit_test(a_later_beginning_leaves_out_what_was_before),
        cmocka_unit_test(what_the_evidence_lacks_is_counted),
        cmocka_unit_test(refusals_of_many_names_are_counted_together),
        cmocka_unit_test(rows_too_many_and_too_few_are_named),
        cmocka_unit_test(another_mapping_is_no_wrong_row),
        cmocka_unit_test(hostile_texts_are_no_markup),
        cmocka_unit_test(many_rows_come_in_parts),
        cmocka_unit_test(a_page_has_the_digest_of_its_report),
        cmocka_unit_test(a_formula_is_no_formula_in_csv),
        cmocka_unit_test(what_is_no_report_is_refused),
        cmocka_unit_test(reports_survive_lack_of_memory),
    };
    struct error err = {0};

    if (!file_read(RESIDENCY_EVIDENCE, &evidence, &err).ok) return 1;
    const int failed = cmocka_run_group_tests_name("report", others, NULL, NULL) + RUN_TABLE(wrong_rows, a_wrong_row_is_named) +
                       RUN_TABLE(stories, content_follows_its_events) + RUN_TABLE(bad_evidence, bad_evidence_is_refused) +
                       RUN_TABLE(page_words, a_page_says_it_in_its_language);
    buffer_done(&evidence);
    return failed;
}
