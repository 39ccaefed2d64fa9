/*
 * Specifications of runs as people write them: tests/vectors/specs has one a file. Its first line says whether it is accepted, or what is said:
 * "# refused: LINE: MEMBER: RULE". tests/unit/test_run_spec_schema.py checks the JSON Schema with the same files.
 */
#include "tests/support/unit.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "client/commands/printed.h"
#include "client/commands/run_spec.h"
#include "client/yaml.h"

#define CASES_MAX 100 /* files */
#define FILE_NAME "spec.yaml"

static struct report report;

static struct result parse(const char *text, json_t **spec_out, struct error *err)
{
    report = (struct report){.verbose = false};
    return run_spec_parse(bytes_of_text(text), FILE_NAME, &report, spec_out, err);
}

/* ---- the files ---- */

static void read_case(const char *name, struct buffer *text)
{
    char path[PATH_MAX];
    struct error err = {0};

    (void)snprintf(path, sizeof path, "%s/%s", SPECS, name);
    must(file_read(path, text, &err), &err);
}

/* What the first line says: "" for a file that is accepted. */
static void wanted_of(const char *text, char wanted[200])
{
    const char *colon = strstr(text, ": ");

    if (strncmp(text, "# accepted\n", 11) == 0) {
        wanted[0] = '\0';
        return;
    }
    assert_int_equal(strncmp(text, "# refused", 9), 0);
    (void)snprintf(wanted, 200, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
}

static void check_file(void **state)
{
    const char *name = *state;
    struct buffer OWNED_BUFFER text = BUFFER(RUN_SPEC_MAX);
    OWNED_JSON spec = NULL;
    struct error err = {0};
    char wanted[200];

    read_case(name, &text);
    wanted_of(buffer_text(&text), wanted);
    const bool accepted = parse(buffer_text(&text), &spec, &err).ok;
    if (accepted != (wanted[0] == '\0')) fail_msg("%s", accepted ? "it is accepted" : err.message);
    if (accepted) return;
    assert_null(spec);
    assert_int_equal(err.kind, strstr(wanted, "nested") != NULL ? ERROR_LIMIT : ERROR_INVALID);
    assert_int_equal(strncmp(err.message, FILE_NAME ":", strlen(FILE_NAME ":")), 0);
    if (strstr(err.message, wanted) == NULL) fail_msg("said: %s", err.message);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct CMUnitTest *)a)->name, ((const struct CMUnitTest *)b)->name);
}

static int check_files(void)
{
    static struct CMUnitTest cases[CASES_MAX];
    static char names[CASES_MAX][64];
    size_t count = 0;
    DIR *listing = opendir(SPECS);

    for (struct dirent *entry; listing != NULL && (entry = readdir(listing)) != NULL;) {
        if (entry->d_name[0] == '.' || count == CASES_MAX) continue;
        (void)snprintf(names[count], sizeof names[count], "%.63s", entry->d_name);
        cases[count] = (struct CMUnitTest){.name = names[count], .test_func = check_file, .initial_state = names[count]};
        count++;
    }
    if (listing == NULL || closedir(listing) != 0 || count < 40 || count == CASES_MAX) return 1;
    qsort(cases, count, sizeof cases[0], by_name);
    return cmocka_run_group_tests_name("check_file", cases, NULL, NULL); /* it skips rows without a name */
}

/* ---- more ---- */

static void what_is_accepted_is_sorted_and_whole(void **state)
{
    struct buffer OWNED_BUFFER text = BUFFER(RUN_SPEC_MAX), written = BUFFER(RUN_SPEC_MAX);
    OWNED_JSON spec = NULL;
    struct error err = {0};

    (void)state;
    read_case("accepted_all.yaml", &text);
    must(parse(buffer_text(&text), &spec, &err), &err);
    must(json_write_canonical(&written, json_object_get(spec, "inputs"), &err), &err);
    assert_string_equal(buffer_text(&written), "[{\"name\":\"apple\",\"reference\":\"acme/models/apple:v1\"},"
                                               "{\"name\":\"zebra\",\"reference\":\"acme/models/zebra:v1\"}]");
    buffer_clear(&written);
    must(json_write_canonical(&written, json_object_get(spec, "jurisdictions"), &err), &err);
    assert_string_equal(buffer_text(&written), "[\"AE\",\"AE-FED\",\"NO\"]");
    assert_string_equal(json_string_value(json_array_get(json_object_get(spec, "argv"), 2)),
                        "set -e\npython3 train.py --lr=0.1\n");
    assert_string_equal(json_text_of(json_object_get(spec, "environment"), "NAME"), "\xd9\x85");
    size_t artifacts = 0;
    while (run_spec_artifact(spec, artifacts) != NULL) artifacts++;
    assert_int_equal(artifacts, 5);
}

static void defaults_are_those_of_the_pages(void **state)
{
    struct buffer OWNED_BUFFER text = BUFFER(RUN_SPEC_MAX);
    OWNED_JSON spec = NULL;
    struct error err = {0};
    int64_t number = 0;

    (void)state;
    read_case("accepted_least.yaml", &text);
    must(parse(buffer_text(&text), &spec, &err), &err);
    assert_string_equal(json_text_of(spec, "pool"), "default");
    assert_string_equal(json_text_of(spec, "network"), "none");
    assert_true(json_integer_of(spec, "nodes", &number) && number == 1);
    assert_true(json_is_object(json_object_get(spec, "environment")) && json_is_array(json_object_get(spec, "inputs")));
}

static const struct json_row {
    const char *name, *text, *says, *way_out;
} json_rows[] = {
    {"broken JSON names its line", "{\"argv\":\n x}", "spec.yaml: not JSON", ""},
    {"a member of JSON has its line", "{\n \"argvs\":\n  []}", "spec.yaml:2: the member argvs is not known",
     "did you mean argv?"},
    {"an unlike member gets the list", "{\"zzz\": []}", "spec.yaml:1: the member zzz is not known", "known are code image"},
    {"a missing member gets its rule", "{\"code\": {\"reference\": \"a/b/c:1\"}}", "outputs is missing",
     "add outputs: 1 to 16 outputs"},
    {"JSON that is no YAML is told without a line", "{\"argv\": [], \"nodes\": 1.5}", "spec.yaml: ", ""},
    {"not UTF-8", "argv: \xff", "spec.yaml: byte 6 is not UTF-8", ""},
    {"a name of no letters", "\"\": 1", "spec.yaml:1: a name of no letters", ""},
};

static void json_and_odd_texts(void **state)
{
    const struct json_row *row = *state;
    OWNED_JSON spec = NULL;
    struct error err = {0};

    assert_false(parse(row->text, &spec, &err).ok);
    if (strstr(err.message, row->says) == NULL) fail_msg("said: %s", err.message);
    if (strstr(report.explanation, row->way_out) == NULL) fail_msg("the way out: %s", report.explanation);
}

static void a_file_that_is_too_large_is_not_read(void **state)
{
    struct buffer OWNED_BUFFER text = BUFFER(RUN_SPEC_MAX + 2);
    OWNED_JSON value = NULL;
    OWNED_JSON lines = NULL;
    struct error err = {0};

    (void)state;
    while (text.length <= RUN_SPEC_MAX) must(buffer_add_u8(&text, '#', &err), &err);
    assert_false(yaml_read(buffer_bytes(&text), RUN_SPEC_MAX, FILE_NAME, &value, &lines, &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
}

static void lines_are_those_of_names_and_elements(void **state)
{
    OWNED_JSON value = NULL;
    OWNED_JSON lines = NULL;
    struct error err = {0};

    (void)state;
    must(yaml_read(bytes_of_text("a:\n  - x\n  -\n    b: 1\n\nc: |\n  one\n  two\nd: {e: 1,\n  f: [2,\n 3]}\n"), 1000, FILE_NAME,
                   &value, &lines, &err),
         &err);
    assert_int_equal(yaml_line(lines), 1);
    assert_int_equal(yaml_line(yaml_member(lines, "a")), 1);
    assert_int_equal(yaml_line(yaml_element(yaml_member(lines, "a"), 0)), 2);
    assert_int_equal(yaml_line(yaml_member(yaml_element(yaml_member(lines, "a"), 1), "b")), 4);
    assert_int_equal(yaml_line(yaml_member(lines, "c")), 6);
    const json_t *inside = yaml_member(lines, "d");
    assert_int_equal(yaml_line(yaml_member(inside, "e")), 9);
    assert_int_equal(yaml_line(yaml_element(yaml_member(inside, "f"), 1)), 11);
    assert_null(yaml_member(lines, "z"));
    assert_int_equal(yaml_line(NULL), 0);
}

/* ---- failing memory ---- */

static struct result read_all(void *context, struct error *err)
{
    OWNED_JSON spec = NULL;

    report = (struct report){.verbose = false};
    TRY_UNTOUCHED(spec, run_spec_parse(buffer_bytes(context), FILE_NAME, &report, &spec, err));
    return SUCCESS;
}

static void failing_memory_is_said(void **state)
{
    struct buffer OWNED_BUFFER text = BUFFER(RUN_SPEC_MAX);

    (void)state;
    read_case("accepted_least.yaml", &text);
    fail_each(read_all, &text, ERROR_NO_MEMORY, 50);
}

/* ---- what a program printed ---- */

static const struct printed_row {
    const char *name, *first, *second, *file, *terminal;
} printed_rows[] = {
    {"plain lines", "epoch 1\n", "epoch 2\r\n", "epoch 1\nepoch 2\r\n", "epoch 1\nepoch 2\r\n"},
    {"colours", "\x1b[31m", "red\t", "\x1b[31mred\t", "?[31mred\t"},
    {"a letter in two pieces", "\xe4\xb8", "\xad!", "\xe4\xb8\xad!", "\xe4\xb8\xad!"},
    {"a letter that is cut", "\xe4\xb8", "a", "\xe4\xb8\x61", "??a"},
    {"a letter that never ends", "a", "\xf0\x9f", "a\xf0\x9f", "a??"},
    {"Latin-1's CSI", "\xc2", "\x9b\x32J", "\xc2\x9b\x32J", "??2J"},
    {"a continuation alone", "\x80", "x", "\x80x", "?x"},
};

static void print(bool is_terminal, const struct printed_row *row, const char *wanted)
{
    struct printed printed = {.is_terminal = is_terminal};
    char *text = NULL;
    size_t length = 0;
    FILE *file = open_memstream(&text, &length);

    assert_non_null(file);
    printed_add(&printed, bytes_of_text(row->first), file);
    printed_add(&printed, bytes_of_text(row->second), file);
    printed_end(&printed, file);
    assert_int_equal(fclose(file), 0);
    assert_string_equal(text, wanted);
    free(text);
}

static void printed_texts(void **state)
{
    const struct printed_row *row = *state;

    print(false, row, row->file);
    print(true, row, row->terminal);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_accepted_is_sorted_and_whole), cmocka_unit_test(defaults_are_those_of_the_pages),
        cmocka_unit_test(a_file_that_is_too_large_is_not_read), cmocka_unit_test(lines_are_those_of_names_and_elements),
        cmocka_unit_test(failing_memory_is_said)};

    return check_files() | RUN_TABLE(json_rows, json_and_odd_texts) | RUN_TABLE(printed_rows, printed_texts) |
           cmocka_run_group_tests(tests, NULL, NULL);
}
