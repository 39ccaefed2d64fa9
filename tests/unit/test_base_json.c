#include "tests/support/unit.h"

#include <string.h>

#include "base/fault.h"
#include "base/json.h"

static const struct json_row {
    const char *name, *text, *canonical; /* canonical NULL: refused */
    enum error_kind kind;
} json_rows[] = {
    {"keys are sorted", "{\"b\":1,\"a\":[true,null,\"x\"]}", "{\"a\":[true,null,\"x\"],\"b\":1}", ERROR_NONE},
    {"escapes are the shortest", "\"\\u0041\\u000a\\u001f\\/\\\"\"", "\"A\\n\\u001f/\\\"\"", ERROR_NONE},
    {"other letters stay", "\"\xd8\xb3\xd8\xac\xd9\x84\"", "\"\xd8\xb3\xd8\xac\xd9\x84\"", ERROR_NONE},
    {"UTF-16 order", "{\"\xef\xac\xb3\":1,\"\xf0\x9f\x98\x80\":2}", "{\"\xf0\x9f\x98\x80\":2,\"\xef\xac\xb3\":1}", ERROR_NONE},
    {"brackets in strings do not nest", "\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"",
     "\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"", ERROR_NONE},
    {"a key twice", "{\"a\":1,\"a\":2}", NULL, ERROR_INVALID},
    {"a fraction", "1.5", NULL, ERROR_INVALID},
    {"bad UTF-8", "\"\xff\"", NULL, ERROR_INVALID},
    {"NUL in a string", "\"\\u0000\"", NULL, ERROR_INVALID},
    {"something after it", "{} {}", NULL, ERROR_INVALID},
    {"nothing", "", NULL, ERROR_INVALID},
    {"long numbers", "{\"b\":-1125899906842624,\"a\":9223372036854775807}", "{\"a\":9223372036854775807,\"b\":-1125899906842624}",
     ERROR_NONE},
    {"a long number alone", " 1125899906842624 ", "1125899906842624", ERROR_NONE},
    {"a number that is too large", "9223372036854775808", NULL, ERROR_INVALID},
    {"two long numbers", "1125899906842624,1", NULL, ERROR_INVALID},
    {"a long number and an end", "1125899906842624],[1", NULL, ERROR_INVALID},
    {"a long word", "truetruetruetruetrue", NULL, ERROR_INVALID},
    {"a number that never ends", "11111111111111111111111111111111111111111", NULL, ERROR_INVALID},
};

static void json_is_strict_and_canonical(void **state)
{
    const struct json_row *row = *state;
    struct buffer OWNED_BUFFER text = BUFFER(1024);
    OWNED_JSON value = NULL;
    struct error err = {0};

    const bool ok = json_read(bytes_of_text(row->text), 1024, &value, &err).ok && json_write_canonical(&text, value, &err).ok;
    assert_int_equal(ok, row->canonical != NULL);
    assert_int_equal(err.kind, row->kind);
    if (ok) assert_string_equal(buffer_text(&text), row->canonical);
}

/* The texts are our own, and say where. */
static void json_errors_name_the_place(void **state)
{
    static const struct {
        const char *text, *message;
    } rows[] = {
        {"{\"a\":\n 1,}", "not JSON: a value, comma or bracket is wrong (line 2, column 4)"},
        {"", "not JSON: it is empty"},
        {"{\"a\"", "not JSON: it ends too early (line 1, column 4)"},
        {"{} {}", "not JSON: something stands behind the end (line 1, column 4)"},
        {"{\"a\":1,\"a\":2}", "JSON in which a member is there twice (line 1, column 10)"},
        {"\"\xff\"", "not JSON: a character is not UTF-8 (line 1, column 1)"},
        {"\"\\u0000\"", "JSON in which a text has the character NUL (line 1, column 8)"},
        {"[9223372036854775808]", "JSON in which a number does not fit 64 bits (line 1, column 20)"},
        {"[-1e400]", "JSON in which a number does not fit 64 bits (line 1, column 7)"},
        {"1125899906842624,1", "not JSON: something stands behind the end (line 1, column 0)"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        OWNED_JSON value = NULL;
        struct error err = {0};
        assert_false(json_read(bytes_of_text(rows[i].text), 1024, &value, &err).ok);
        assert_string_equal(err.message, rows[i].message);
    }
}

static const struct any_number_row {
    const char *name, *text, *canonical; /* NULL: refused, or a fraction */
    bool is_read;
} any_number_rows[] = {
    {"the largest", "[9223372036854775807]", "[9223372036854775807]", true},
    {"the smallest", "[-9223372036854775808]", "[-9223372036854775808]", true},
    {"one more than the largest", "[9223372036854775808]", NULL, true},
    {"one less than the smallest", "[-9223372036854775809]", NULL, true},
    {"twenty digits at the end", "10000000000000000000", NULL, true},
    {"past a double", "{\"a\":1e999,\"b\":-1E+999}", NULL, true},
    {"a fraction", "[1.5]", NULL, true},
    {"in a text", "{\"9223372036854775808\":\"\\\"9223372036854775808\"}",
     "{\"9223372036854775808\":\"\\\"9223372036854775808\"}", true},
    {"between others", "[1,9223372036854775808,\"a\",99999999999999999999,2]", NULL, true},
    {"zero with a minus", "[-0]", NULL, true},
    {"zero with a minus at the end", "-0", NULL, true},
    {"many of them", "[-0,-0,-0,-0,-0,-0,-0,-0,-0,-0,-0,-0]", NULL, true},
    {"a digit behind it", "[-00]", NULL, false},
    {"zero", "[0,-1]", "[0,-1]", true},
    {"zero with a minus in a text", "{\"-0\":\"-0\"}", "{\"-0\":\"-0\"}", true},
    {"a leading zero", "[09223372036854775808]", NULL, false},
    {"a sign alone", "[-]", NULL, false},
    {"plus", "[+9223372036854775808]", NULL, false},
    {"no digit after the point", "[1.]", NULL, false},
    {"no digit in the exponent", "[1e+]", NULL, false},
    {"two exponents", "[1e9e9]", NULL, false},
    {"letters in it", "[9223372036854775808x]", NULL, false},
    {"a text right behind it", "[9223372036854775808\"a\"]", NULL, false},
    {"41 digits", "[11111111111111111111111111111111111111111]", NULL, false},
    {"a key twice", "{\"a\":9223372036854775808,\"a\":1}", NULL, false},
};

static void numbers_without_room_are_fractions(void **state)
{
    const struct any_number_row *row = *state;
    struct buffer OWNED_BUFFER text = BUFFER(1024);
    OWNED_JSON value = NULL;
    struct error err = {0};

    const bool is_read = json_read_any_number(bytes_of_text(row->text), 1024, &value, &err).ok;
    assert_int_equal(is_read, row->is_read);
    assert_int_equal(err.kind, is_read ? ERROR_NONE : ERROR_INVALID);
    if (!is_read) return;
    assert_int_equal(json_write_canonical(&text, value, &err).ok, row->canonical != NULL);
    if (row->canonical != NULL) assert_string_equal(buffer_text(&text), row->canonical);
}

static void json_depth_is_bounded(void **state)
{
    static uint8_t brackets[300000];
    json_t *value = NULL;
    struct error err = {0};

    (void)state;
    memset(brackets, '[', sizeof brackets);
    assert_false(json_read((struct bytes){brackets, sizeof brackets}, sizeof brackets, &value, &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
    assert_null(value);
}

/* Four megabytes of empty objects took three hundred in memory. */
static void json_has_a_limit_of_values(void **state)
{
    static char text[(size_t)4 << 20];
    json_t *value = NULL;
    struct error err = {0};

    (void)state;
    for (size_t i = 1; i + 4 < sizeof text; i += 3) memcpy(text + i, "{},", 3);
    text[0] = '[';
    const size_t length = strlen(text);
    text[length - 1] = ']';
    assert_false(json_read((struct bytes){(const uint8_t *)text, length}, sizeof text, &value, &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
}

static struct result read_and_write(void *context, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(1024);
    OWNED_JSON value = NULL;

    (void)context;
    TRY_UNTOUCHED_BYTES(value, json_read(bytes_of_text("{\"b\":{\"c\":[112589990684262]},\"a\":\"\"}"), 100, &value, err));
    return json_write_canonical(&text, value, err);
}

static void canonical_json_survives_lack_of_memory(void **state)
{
    (void)state;
    fail_each(read_and_write, NULL, ERROR_NO_MEMORY, 10);
}

static struct result read_text_of(void *context, struct error *err)
{
    const size_t *length = context;
    char text[1100] = {'"'};
    OWNED_JSON value = NULL;

    memset(text + 1, 'x', *length);
    text[*length + 1] = '"';
    TRY_UNTOUCHED(value, json_read(bytes_of_text(text), sizeof text, &value, err));
    assert_int_equal(json_string_length(value), *length);
    return SUCCESS;
}

/* jansson's buffer may have to grow for any character, also for the last quote. */
static void texts_at_the_end_of_a_buffer_survive_lack_of_memory(void **state)
{
    (void)state;
    for (size_t size = 16; size <= 1024; size *= 2)
        for (size_t length = size - 4; length <= size; length++) fail_each(read_text_of, &length, ERROR_NO_MEMORY, 2);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(json_errors_name_the_place),
        cmocka_unit_test(json_depth_is_bounded),
        cmocka_unit_test(json_has_a_limit_of_values),
        cmocka_unit_test(canonical_json_survives_lack_of_memory),
        cmocka_unit_test(texts_at_the_end_of_a_buffer_survive_lack_of_memory),
    };

    return RUN_TABLE(json_rows, json_is_strict_and_canonical) + RUN_TABLE(any_number_rows, numbers_without_room_are_fractions) +
           cmocka_run_group_tests_name("others", others, NULL, NULL);
}
