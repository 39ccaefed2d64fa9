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

static void the_schema_that_a_file_names_is_not_signed(void **state)
{
    struct buffer OWNED_BUFFER text = BUFFER(RUN_SPEC_MAX);
    OWNED_JSON spec = NULL;
    struct error err = {0};

    (void)state;
    read_case("accepted_schema_named.yaml", &text);
    must(parse(buffer_text(&text), &spec, &err), &err);
    assert_null(json_object_get(spec, "$schema"));
    assert_non_null(json_object_get(spec, "argv"));
}

static void one_byte_order_mark_is_passed_over(void **state)
{
    struct buffer OWNED_BUFFER file = BUFFER(RUN_SPEC_MAX), text = BUFFER(2 * RUN_SPEC_MAX);
    OWNED_JSON spec = NULL;
    OWNED_JSON none = NULL;
    struct error err = {0};

    (void)state;
    read_case("accepted_least.yaml", &file);
    must(buffer_format(&text, &err, "\xef\xbb\xbf%s", buffer_text(&file)), &err);
    must(parse(buffer_text(&text), &spec, &err), &err);
    buffer_clear(&text);
    must(buffer_format(&text, &err, "\xef\xbb\xbf\xef\xbb\xbf%s", buffer_text(&file)), &err);
    assert_false(parse(buffer_text(&text), &none, &err).ok);
    if (strstr(err.message, "spec.yaml:1: the character U+FEFF") == NULL) fail_msg("said: %s", err.message);
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

/* A comment that ends at U+2028 for one reader only would hide a member from the other: so such characters are refused as they stand. */
static const struct odd_row {
    const char *name, *text, *says;
} odd_rows[] = {
    {"at the beginning, with the ends of lines of Windows",
     "\xef\xbb\xbf"
     "a: b\r\nc: d\r\n",
     "{\"a\":\"b\",\"c\":\"d\"}"},
    {"escaped", "a: \"\\u0085\\u2028\\L\\P\\uFEFF\\r\"",
     "{\"a\":\"\xc2\x85\xe2\x80\xa8\xe2\x80\xa8\xe2\x80\xa9\xef\xbb\xbf\\r\"}"},
    {"neighbours", "a: \xc2\x84\xe2\x80\xa7\xe2\x80\xaa", "spec.yaml: byte 3 is not UTF-8 of visible characters"},
    {"letters of the same beginnings", "a: \xc2\xa5\xe2\x80\xa7\xe2\x80\xaa\xef\xbb\xbe",
     "{\"a\":\"\xc2\xa5\xe2\x80\xa7\xe2\x80\xaa\xef\xbb\xbe\"}"},
    {"the next line in quotes", "a: 1\nb: \"x\xc2\x85y\"", "spec.yaml:2: the character U+0085: leave it out, or write \\u0085"},
    {"a line separator in a block",
     "a: |\n  x\xe2\x80\xa8"
     "b: 2\n",
     "spec.yaml:2: the character U+2028"},
    {"a paragraph separator", "a: 'x\xe2\x80\xa9y'", "spec.yaml:1: the character U+2029"},
    {"a byte order mark twice",
     "\xef\xbb\xbf\xef\xbb\xbf"
     "a: b",
     "spec.yaml:1: the character U+FEFF"},
    {"a carriage return at the end", "a: b\r\nc: d\r", "spec.yaml:2: a carriage return without a line feed"},
    {"two before a line feed", "a: b\r\r\nc: d", "spec.yaml:1: a carriage return without a line feed"},
    {"a comment behind letters of several bytes", "a: [\"\xd9\x85\xe4\xb8\xad\"] # \xf0\x9f\x8e\x93\nb: '#'\n#c\nd: {e: 1} # x\n",
     "{\"a\":[\"\xd9\x85\xe4\xb8\xad\"],\"b\":\"#\",\"d\":{\"e\":1}}"},
    {"a comment right behind a bracket", "a: \"\xd9\x85\"\r\nb: [1, 2]#x\n", "spec.yaml:2: a comment (#) without a blank"},
    {"behind a mapping's bracket",
     "\xef\xbb\xbf"
     "a: {b: \"\xe4\xb8\xad\"}#x\n",
     "spec.yaml:1: a comment (#) without a blank"},
    {"behind a name", "\"a\"#b: 1\n", "spec.yaml:"},
    {"behind a comma", "a: [1,#x\n  2]\n", "spec.yaml:1: a comment (#) without a blank"},
    {"in a bracket", "a:\n- [#x\n  2]\n", "spec.yaml:2: a comment (#) without a blank"},
    {"behind the last value", "a: {b: 1}\n# c # d#e\nf: \"g\"#h", "spec.yaml:3: a comment (#) without a blank"},
    {"comments at all places",
     "\xef\xbb\xbf#a\n%YAML 1.1 # b#\n--- # c\n#d\ne: # f\n  - g#h # i\n  #j\n  - [ # k\n  1, # l\n #m\n  2] #n#",
     "{\"e\":[\"g#h\",[1,2]]}"},
    {"behind a quote", "- 'a'#x\n", "spec.yaml:1: a comment (#) without a blank"},
    {"a block before the end", "a: |\n  b\nc: d", "{\"a\":\"b\\n\",\"c\":\"d\"}"},
    {"a block that is cut", "a:\n  - >\n    b", "spec.yaml:2: a block (| or >) at the end"},
    {"one that is cut", "a: b\xe2\x80", "spec.yaml: byte 4 is not UTF-8"},
};

static void odd_characters_are_escaped(void **state)
{
    const struct odd_row *row = *state;
    struct buffer OWNED_BUFFER written = BUFFER(1000);
    OWNED_JSON value = NULL;
    OWNED_JSON lines = NULL;
    struct error err = {0};

    if (row->says[0] != '{') {
        assert_false(yaml_read(bytes_of_text(row->text), 1000, FILE_NAME, &value, &lines, &err).ok);
        if (strstr(err.message, row->says) == NULL) fail_msg("said: %s", err.message);
        return;
    }
    must(yaml_read(bytes_of_text(row->text), 1000, FILE_NAME, &value, &lines, &err), &err);
    must(json_write_canonical(&written, value, &err), &err);
    assert_string_equal(buffer_text(&written), row->says);
}

/* Plain words that some reader of YAML takes for a number, for true or for nothing, and what only looks so. */
static void plain_words(void **state)
{
    static const char *const unclear[] = {"1,000", "1,5", "+_1",  "-_1",   "._5",  "._",   "-.",    "+.",
                                          ".",     ".e1", "e1",   "-E+5",  "nUll", "tRUE", "oN",    "nO",
                                          "yEs",   "y",   ".iNf", "-.NAN", ":80",  "::1",  "1_000", "0x1F"};
    static const char *const texts[] = {"..",    "...a", "a.",   "_",   "--",  "-e",   "e",   "+e-",      "e1a",   "-x",
                                        "nullx", "a,b",  "v1,0", "-_x", "._x", "x:80", "nan", "infinity", "true1", "one"};

    (void)state;
    for (size_t i = 0; i < sizeof unclear / sizeof unclear[0] + sizeof texts / sizeof texts[0]; i++) {
        const bool is_text = i >= sizeof unclear / sizeof unclear[0];
        const char *word = is_text ? texts[i - sizeof unclear / sizeof unclear[0]] : unclear[i];
        OWNED_JSON value = NULL;
        OWNED_JSON lines = NULL;
        struct error err = {0};
        char text[40];
        (void)snprintf(text, sizeof text, "a: %s\n", word);
        const bool read = yaml_read(bytes_of_text(text), 1000, FILE_NAME, &value, &lines, &err).ok;
        if (read != is_text) fail_msg("'%s': %s", word, read ? "it is read" : err.message);
        if (is_text) assert_string_equal(json_text_of(value, "a"), word);
        else if (strstr(err.message, "has another meaning") == NULL) fail_msg("'%s': %s", word, err.message);
    }
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_accepted_is_sorted_and_whole),
                                       cmocka_unit_test(the_schema_that_a_file_names_is_not_signed),
                                       cmocka_unit_test(one_byte_order_mark_is_passed_over),
                                       cmocka_unit_test(defaults_are_those_of_the_pages),
                                       cmocka_unit_test(a_file_that_is_too_large_is_not_read),
                                       cmocka_unit_test(lines_are_those_of_names_and_elements),
                                       cmocka_unit_test(failing_memory_is_said),
                                       cmocka_unit_test(plain_words)};

    return check_files() | RUN_TABLE(json_rows, json_and_odd_texts) | RUN_TABLE(printed_rows, printed_texts) |
           RUN_TABLE(odd_rows, odd_characters_are_escaped) | cmocka_run_group_tests(tests, NULL, NULL);
}
