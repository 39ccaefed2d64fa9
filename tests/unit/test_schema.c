/* Bodies checked with a schema, and the description of the API that is made from the schemas. */
#include "tests/support/unit.h"

#include <regex.h>
#include <string.h>

#include "base/fault.h"
#include "gateway/api/openapi.h"
#include "gateway/pipeline/schema.h"
#include "gateway/routes.h"
#include "training/state.h"

PART(part, "a part", HAS_NUMBER("n", REQUIRED, 0, 3, "a number"))
PART_WITH(SCHEMA_IS_OPEN, open, "what others define", HAS_FLAG("f", OPTIONAL, "a flag"))
PART_WITH(SCHEMA_IS_READ_ELSEWHERE, elsewhere, "what has a reader of its own", HAS_FLAG("f", OPTIONAL, "a flag"))
PART(sample, "a sample", HAS_TEXT("name", REQUIRED, FORM_NAME, 2, 5, "a name"), HAS_NUMBER("days", OPTIONAL, 1, 90, "days"),
     HAS_COUNT("count", OPTIONAL | NULLABLE, "a count"), HAS_FLAG("flag", OPTIONAL, "a flag"),
     HAS_WORD("word", OPTIONAL, "one two", "a word"), HAS_TEXTS("words", OPTIONAL, 1, 2, "one two", "words"),
     HAS_OBJECT("part", OPTIONAL, schema_part, "a part"), HAS_LIST("parts", OPTIONAL, 2, schema_part, "parts"),
     HAS_OBJECT("open", OPTIONAL, schema_open, "open"), HAS_OBJECT("elsewhere", OPTIONAL, schema_elsewhere, "elsewhere"),
     HAS_ANY("any", OPTIONAL, "anything"))

static const struct body_row {
    const char *name, *text, *wrong; /* NULL: it matches the schema */
} body_rows[] = {
    {"the least", "{\"name\":\"ab\"}", NULL},
    {"all members",
     "{\"name\":\"abcde\",\"days\":90,\"count\":0,\"flag\":false,\"word\":\"two\",\"words\":[\"one\",\"two\"],\"part\":{\"n\":0},"
     "\"parts\":[{\"n\":1},{\"n\":3}],\"open\":{\"x\":1,\"f\":true},\"elsewhere\":{\"y\":[]},\"any\":[null]}",
     NULL},
    {"null where it may be", "{\"name\":\"ab\",\"count\":null}", NULL},
    {"no object", "[]", "a sample is a JSON object"},
    {"nothing", "{}", "\"name\" is missing; it is a name of 2 to 5 bytes"},
    {"too short a text", "{\"name\":\"a\"}", "\"name\" has to be a name of 2 to 5 bytes"},
    {"too long a text", "{\"name\":\"abcdef\"}", "\"name\" has to be a name of 2 to 5 bytes"},
    {"a number for a text", "{\"name\":12}", "\"name\" has to be a name of 2 to 5 bytes"},
    {"null where it may not be", "{\"name\":null}", "\"name\" has to be a name of 2 to 5 bytes"},
    {"too small a number", "{\"name\":\"ab\",\"days\":0}", "\"days\" has to be a whole number from 1 to 90"},
    {"too large a number", "{\"name\":\"ab\",\"days\":91}", "\"days\" has to be a whole number from 1 to 90"},
    {"a fraction", "{\"name\":\"ab\",\"days\":1.0}", "\"days\" has to be a whole number from 1 to 90"},
    {"less than nothing", "{\"name\":\"ab\",\"count\":-1}", "\"count\" has to be a whole number from 0, or null"},
    {"a word for a flag", "{\"name\":\"ab\",\"flag\":\"true\"}", "\"flag\" has to be true or false"},
    {"a strange word", "{\"name\":\"ab\",\"word\":\"on\"}", "\"word\" has to be one of one, two"},
    {"two words in one", "{\"name\":\"ab\",\"word\":\"one two\"}", "\"word\" has to be one of one, two"},
    {"no words", "{\"name\":\"ab\",\"words\":[]}", "\"words\" has to be a list of texts, each one of one, two"},
    {"too many words", "{\"name\":\"ab\",\"words\":[\"one\",\"one\",\"one\"]}",
     "\"words\" has to be a list of texts, each one of one, two"},
    {"a number among words", "{\"name\":\"ab\",\"words\":[1]}", "\"words\" has to be a list of texts, each one of one, two"},
    {"a part that is none", "{\"name\":\"ab\",\"part\":[]}", "\"part\" has to be an object: part"},
    {"a part with a fault", "{\"name\":\"ab\",\"part\":{\"n\":4}}", "\"n\" has to be a whole number from 0 to 3"},
    {"a part with more", "{\"name\":\"ab\",\"part\":{\"n\":1,\"m\":1}}", "there is no member \"m\" here; there are: n"},
    {"parts that are no list", "{\"name\":\"ab\",\"parts\":{}}", "\"parts\" has to be a list of objects: part"},
    {"too many parts", "{\"name\":\"ab\",\"parts\":[{\"n\":1},{\"n\":1},{\"n\":1}]}",
     "\"parts\" has to be a list of objects: part"},
    {"a part of many with a fault", "{\"name\":\"ab\",\"parts\":[{\"n\":1},{}]}",
     "\"n\" is missing; it is a whole number from 0 to 3"},
    {"a flag of an open object", "{\"name\":\"ab\",\"open\":{\"f\":1}}", "\"f\" has to be true or false"},
    {"an unknown member", "{\"name\":\"ab\",\"colour\":1}",
     "there is no member \"colour\" here; there are: name, days, count, flag, word, words, part, parts, open, elsewhere, any"},
};

static void bodies_are_held_to_their_schema(void **state)
{
    const struct body_row *row = *state;
    OWNED_JSON body = NULL;
    struct error err = {0};

    assert_true(json_read(bytes_of_text(row->text), 1 << 16, &body, &err).ok);
    const bool is_good = schema_check(&schema_sample, body, &err).ok;
    assert_string_equal(is_good ? "" : err.message, row->wrong == NULL ? "" : row->wrong);
    assert_int_equal(is_good, row->wrong == NULL);
    if (!is_good) assert_int_equal(err.kind, ERROR_INVALID);
}

static void an_empty_object_has_no_members(void **state)
{
    OWNED_JSON none = json_object();
    OWNED_JSON some = json_pack("{s:b}", "fast", 1);
    struct error err = {0};

    (void)state;
    assert_true(schema_check(&schema_empty, none, &err).ok);
    assert_false(schema_check(&schema_empty, some, &err).ok);
    assert_string_equal(err.message, "there is no member \"fast\" here; there is none");
}

static struct result check_once(void *context, struct error *err)
{
    return schema_check(&schema_sample, context, err);
}

static void a_check_survives_lack_of_memory(void **state)
{
    struct error err = {0};
    OWNED_JSON body = NULL;

    (void)state;
    assert_true(json_read(bytes_of_text(body_rows[1].text), 1 << 16, &body, &err).ok);
    fail_each(check_once, body, ERROR_NO_MEMORY, 10);
}

/* One route with a body, a reference and an answer, because all routes would take minutes. */
static struct result describe_once(void *context, struct error *err)
{
    const struct route_table table = {1, &route_table.rows[ROUTE_robot_rotate], NULL};
    struct buffer OWNED_BUFFER text = BUFFER(OPENAPI_MAX);

    (void)context;
    TRY(openapi_write(&table, &text, err));
    assert_non_null(strstr(buffer_text(&text), "\"/api/v1/robots/{robot}/secret\":{\"post\":{\"operationId\":\"robot_rotate\""));
    assert_non_null(strstr(buffer_text(&text), "\"grace_seconds\":{\"type\":\"integer\""));
    assert_non_null(strstr(buffer_text(&text), "\"#/components/responses/problem-409\""));
    return SUCCESS;
}

static void a_description_lacks_nothing_or_is_none(void **state)
{
    (void)state;
    fail_each(describe_once, NULL, ERROR_NO_MEMORY, 300);
}

static bool matches(const char *pattern, const char *text)
{
    regex_t expression;

    assert_int_equal(regcomp(&expression, pattern, REG_EXTENDED | REG_NOSUB), 0);
    const bool is_match = regexec(&expression, text, 0, NULL, 0) == 0;
    regfree(&expression);
    return is_match;
}

/* The description has the states, numbers and ids in the spelling that is taken. */
static void forms_are_what_is_taken(void **state)
{
    const char *states = schema_spelling(FORM_RUN_STATE).pattern, *numbers = schema_spelling(FORM_NUMBER).pattern,
               *ids = schema_spelling(FORM_ID).pattern, *base64 = schema_spelling(FORM_BASE64).pattern;
    size_t bars = 0;

    (void)state;
    for (size_t i = 0; i < RUN_STATE_COUNT; i++) assert_true(matches(states, run_state_name((enum run_state)i)));
    for (const char *at = states; *at != '\0'; at++) bars += *at == '|' ? 1 : 0;
    assert_int_equal(bars + 1, RUN_STATE_COUNT);
    assert_false(matches(states, "requeste") || matches(states, "Failed") || matches(states, "a failed"));
    assert_true(matches(numbers, "0") && matches(numbers, "508") && matches(numbers, "9223372036854775807"));
    assert_false(matches(numbers, "0508") || matches(numbers, "") || matches(numbers, "-1"));
    assert_true(matches(ids, "3d0c2f1a-9b1e-4a57-8a43-0d6f5f0c7a11"));
    assert_false(matches(ids, "3D0C2F1A-9B1E-4A57-8A43-0D6F5F0C7A11"));
    assert_true(matches(base64, "AA==") && matches(base64, "ab+/"));
    assert_false(matches(base64, "ab-_") || matches(base64, ""));
}

static const struct described_row {
    const char *name;
    size_t route;
    const char *has, *lacks; /* or NULL */
} described_rows[] = {
    {"a client follows a log by the headers", ROUTE_run_log, "\"Sijil-Log-Size\":{\"description\":", NULL},
    {"and by the end", ROUTE_run_log, "\"Sijil-Log-End\":{\"description\":", "\"Link\""},
    {"a log that was removed", ROUTE_run_log, "\"410\":{", "\"409\":{"},
    {"attempts begin with 1", ROUTE_run_log, "\"minimum\":1", NULL},
    {"an offset is a number", ROUTE_run_log, "\"maximum\":9223372036854775807", "[0-9]{1,19}"},
    {"a bundle of a run without an order", ROUTE_run_bundle, "\"409\":{", "\"410\":{"},
    {"HEAD, as RFC 9110 demands it", ROUTE_run_read, "\"run_read_head\"", NULL},
    {"the states", ROUTE_run_list, "^(awaiting approval|requested|", NULL},
    {"a list has the page after it", ROUTE_run_list, "\"Link\"", "Sijil-Log"},
    {"envelopes are in base64", ROUTE_run_request, "^[A-Za-z0-9+/]+={0,2}$", NULL},
};

static void a_route_is_described_as_it_answers(void **state)
{
    const struct described_row *row = *state;
    const struct route_table table = {1, &route_table.rows[row->route], NULL};
    struct buffer OWNED_BUFFER text = BUFFER(OPENAPI_MAX);
    struct error err = {0};

    must(openapi_write(&table, &text, &err), &err);
    if (strstr(buffer_text(&text), row->has) == NULL) fail_msg("%s", buffer_text(&text));
    if (row->lacks != NULL) assert_null(strstr(buffer_text(&text), row->lacks));
}

static void a_description_has_a_bound(void **state)
{
    struct buffer OWNED_BUFFER text = BUFFER(1000);
    struct error err = {0};

    (void)state;
    assert_false(openapi_write(&route_table, &text, &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
}

int main(void)
{
    const struct CMUnitTest others[] = {cmocka_unit_test(an_empty_object_has_no_members),
                                        cmocka_unit_test(a_check_survives_lack_of_memory),
                                        cmocka_unit_test(a_description_lacks_nothing_or_is_none),
                                        cmocka_unit_test(forms_are_what_is_taken), cmocka_unit_test(a_description_has_a_bound)};

    return RUN_TABLE(body_rows, bodies_are_held_to_their_schema) + RUN_TABLE(described_rows, a_route_is_described_as_it_answers) +
           cmocka_run_group_tests_name("others", others, NULL, NULL);
}
