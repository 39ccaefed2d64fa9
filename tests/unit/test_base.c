#include "tests/support/unit.h"

#include <string.h>

#include "base/clock.h"
#include "base/share.h"
#include "base/text.h"
#include "base/uuid.h"

static const struct time_row {
    const char *name, *text;
    bool valid;
    int64_t wall_ms;
} time_rows[] = {
    {"UTC", "2026-11-20T10:39:46Z", true, 1795171186000},
    {"milliseconds", "2026-11-20T10:39:46.123Z", true, 1795171186123},
    {"microseconds are cut", "2026-11-20T10:39:46.123999Z", true, 1795171186123},
    {"east of Greenwich", "2026-11-20T14:39:46+04:00", true, 1795171186000},
    {"west of Greenwich", "2026-11-20T05:39:46-05:00", true, 1795171186000},
    {"a leap day", "2028-02-29T00:00:00Z", true, 1835395200000},
    {"no leap day", "2027-02-29T00:00:00Z", false, 0},
    {"no offset", "2026-11-20T10:39:46", false, 0},
    {"a blank for T", "2026-11-20 10:39:46Z", false, 0},
    {"the 25th hour", "2026-11-20T24:39:46Z", false, 0},
    {"month 13", "2026-13-20T10:39:46Z", false, 0},
    {"an offset into the year 0", "0001-01-01T00:00:00+00:01", false, 0},
    {"an offset into the year 10000", "9999-12-31T23:59:59-00:01", false, 0},
    {"an empty fraction", "2026-11-20T10:39:46.Z", false, 0},
    {"something after it", "2026-11-20T10:39:46Z ", false, 0},
    {"nothing", "", false, 0},
};

static void reads_time(void **state)
{
    const struct time_row *row = *state;
    int64_t wall_ms = -1;

    assert_int_equal(clock_parse(bytes_of_text(row->text), &wall_ms), row->valid);
    assert_int_equal(wall_ms, row->valid ? row->wall_ms : -1);
}

static void time_survives_a_round_trip(void **state)
{
    char text[CLOCK_TEXT_SIZE];
    int64_t again = 0;

    (void)state;
    clock_format(1795171186007, text);
    assert_string_equal(text, "2026-11-20T10:39:46.007Z");
    assert_true(clock_parse(bytes_of_text(text), &again));
    assert_int_equal(again, 1795171186007);
}

/* The cached text of a second is used again. */
static void each_millisecond_of_a_second_has_its_own_text(void **state)
{
    static const struct {
        int64_t wall_ms;
        const char *text;
    } rows[] = {
        {1795171186000, "2026-11-20T10:39:46.000Z"}, {1795171186999, "2026-11-20T10:39:46.999Z"},
        {1795171186120, "2026-11-20T10:39:46.120Z"}, {1795171187000, "2026-11-20T10:39:47.000Z"},
        {1795171186001, "2026-11-20T10:39:46.001Z"}, {0, "1970-01-01T00:00:00.000Z"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[CLOCK_TEXT_SIZE];
        clock_format(rows[i].wall_ms, text);
        assert_string_equal(text, rows[i].text);
    }
}

/* strftime() writes the year 26 with two digits. */
static void every_year_has_four_digits(void **state)
{
    static const struct {
        int64_t wall_ms;
        const char *text;
    } rows[] = {
        {INT64_MIN, "0001-01-01T00:00:00.000Z"},
        {-62135596800001, "0001-01-01T00:00:00.000Z"},
        {-62135596800000, "0001-01-01T00:00:00.000Z"},
        {-61318732813877, "0026-11-20T10:39:46.123Z"},
        {-1, "1969-12-31T23:59:59.999Z"},
        {253402300799999, "9999-12-31T23:59:59.999Z"},
        {253402300800000, "9999-12-31T23:59:59.999Z"},
        {INT64_MAX, "9999-12-31T23:59:59.999Z"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[CLOCK_TEXT_SIZE];
        clock_format(rows[i].wall_ms, text);
        assert_string_equal(text, rows[i].text);
    }
}

static const struct number_row {
    const char *name, *text;
    uint64_t maximum;
    bool valid;
    uint64_t value;
} number_rows[] = {
    {"zero", "0", 9, true, 0},
    {"the largest", "18446744073709551615", UINT64_MAX, true, UINT64_MAX},
    {"one more than the largest", "18446744073709551616", UINT64_MAX, false, 0},
    {"far too long", "99999999999999999999999", UINT64_MAX, false, 0},
    {"over the stated maximum", "10", 9, false, 0},
    {"a leading zero", "07", 9, false, 0},
    {"a sign", "+5", 9, false, 0},
    {"a blank", " 5", 9, false, 0},
    {"nothing", "", 9, false, 0},
};

static void reads_numbers(void **state)
{
    const struct number_row *row = *state;
    uint64_t value = 77;

    assert_int_equal(text_to_u64(bytes_of_text(row->text), row->maximum, &value), row->valid);
    assert_true(value == (row->valid ? row->value : 77));
}

static const struct base64_row {
    const char *name;
    enum base64_kind kind;
    const char *text, *decoded; /* decoded NULL: refused */
} base64_rows[] = {
    {"nothing", BASE64_STANDARD, "", ""},
    {"one byte", BASE64_STANDARD, "Zg==", "f"},
    {"two bytes", BASE64_STANDARD, "Zm8=", "fo"},
    {"three bytes", BASE64_STANDARD, "Zm9v", "foo"},
    {"no padding", BASE64_URL, "Zm8", "fo"},
    {"the two letters of URLs", BASE64_URL, "Pz8_Pj4-", "?\?\?>>>"},
    {"padding where none may be", BASE64_URL, "Zm8=", NULL},
    {"padding forgotten", BASE64_STANDARD, "Zm8", NULL},
    {"trailing bits", BASE64_STANDARD, "Zm9=", NULL},
    {"trailing bits without padding", BASE64_URL, "Zh", NULL},
    {"one letter over", BASE64_URL, "Zm9vZ", NULL},
    {"padding inside", BASE64_STANDARD, "Zg==Zm9v", NULL},
    {"three times padded", BASE64_STANDARD, "Z===", NULL},
    {"a line feed", BASE64_STANDARD, "Zm9v\n", NULL},
};

static void base64_knows_its_letters_and_no_others(void **state)
{
    static const char common[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    static const struct {
        enum base64_kind kind;
        const char *last;
    } kinds[] = {{BASE64_STANDARD, "+/"}, {BASE64_URL, "-_"}};

    (void)state;
    for (size_t i = 0; i < 2; i++)
        for (unsigned letter = 0; letter < 256; letter++) {
            const uint8_t text[4] = {'A', 'A', 'A', (uint8_t)letter};
            const char *place = letter == 0 ? NULL : strchr(common, (int)letter),
                       *late = letter == 0 ? NULL : strchr(kinds[i].last, (int)letter);
            uint8_t got[3] = {0};
            const bool is_letter = place != NULL || late != NULL;
            const size_t value = place != NULL  ? (size_t)(place - common)
                                 : late != NULL ? 62 + (size_t)(late - kinds[i].last)
                                                : 0;
            if (letter == '=') continue; /* padding: see the rows */
            assert_int_equal(text_from_base64_exactly(kinds[i].kind, (struct bytes){text, 4}, got, sizeof got), is_letter);
            if (is_letter) assert_int_equal(got[2], value);
        }
}

static void base64(void **state)
{
    const struct base64_row *row = *state;
    struct buffer OWNED_BUFFER decoded = BUFFER(64), again = BUFFER(64);
    struct error err = {0};

    if (row->decoded == NULL) {
        assert_false(text_from_base64(&decoded, row->kind, bytes_of_text(row->text), &err).ok);
        assert_int_equal(err.kind, ERROR_INVALID);
        assert_int_equal(decoded.length, 0);
        return;
    }
    assert_true(text_from_base64(&decoded, row->kind, bytes_of_text(row->text), &err).ok);
    assert_string_equal(buffer_text(&decoded), row->decoded);
    assert_true(text_base64(&again, row->kind, bytes_of_text(row->decoded), &err).ok);
    assert_string_equal(buffer_text(&again), row->text);
    buffer_done(&again);
}

static void only_visible_characters(void **state)
{
    static const struct {
        const char *text;
        bool is_visible;
    } rows[] = {
        {"", true},
        {"repo:acme/models:ref:refs/heads/main", true},
        {"\xd9\x85\xd8\xad\xd9\x85\xd8\xaf", true}, /* Arabic */
        {"\xf0\x9f\x98\x80", true},                 /* U+1F600 */
        {"a\tb", false},
        {"\x7f", false},
        {"\xc2\x85", false}, /* C1: next line */
        {"\xc2\xad", false}, /* soft hyphen */
        {"a\xe2\x80\x8b"
         "b",
         false}, /* zero width space */
        {"\xe2\x80\xae"
         "nimda",
         false},                 /* right-to-left override */
        {"\xe2\x80\xa8", false}, /* line separator */
        {"\xef\xbb\xbf"
         "a",
         false},                     /* byte order mark */
        {"\xef\xbf\xbf", false},     /* U+FFFF */
        {"\xf3\xa0\x81\x81", false}, /* tag A */
        {"\xe2\x80", false},         /* cut */
    };

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) assert_int_equal(text_is_visible(bytes_of_text(rows[i].text)), rows[i].is_visible);
}

static void buffers_stop_at_their_maximum(void **state)
{
    struct buffer OWNED_BUFFER buffer = BUFFER(8);
    struct error err = {0};

    (void)state;
    assert_true(buffer_add_text(&buffer, "12345678", &err).ok);
    assert_false(buffer_add_text(&buffer, "9", &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
    assert_string_equal(buffer_text(&buffer), "12345678");
    buffer_truncate(&buffer, 3);
    assert_string_equal(buffer_text(&buffer), "123");
    assert_true(buffer_add_text(&buffer, "4", &err).ok);
    assert_string_equal(buffer_text(&buffer), "1234");
}

static void readers_never_read_past_the_end(void **state)
{
    static const uint8_t raw[] = {0, 0, 0, 2, 'a', 'b', 7};
    struct reader reader = reader_of((struct bytes){raw, sizeof raw});

    (void)state;
    assert_true(bytes_equal(reader_prefixed(&reader, 2), bytes_of_text("ab")));
    assert_int_equal(reader_u8(&reader), 7);
    assert_true(reader_is_done(&reader));
    assert_int_equal(reader_u32(&reader), 0);
    assert_true(reader.failed);

    reader = reader_of((struct bytes){raw, sizeof raw});
    assert_int_equal(reader_prefixed(&reader, 1).length, 0);
    assert_false(reader_is_done(&reader));
}

static void uuids_are_strict(void **state)
{
    struct uuid uuid = uuid_random(), again;
    char text[UUID_TEXT_SIZE];

    (void)state;
    uuid_format(&uuid, text);
    assert_true(uuid_parse(bytes_of_text(text), &again) && uuid_equal(&uuid, &again));
    assert_int_equal(text[14], '4');
    assert_false(uuid_parse(bytes_of_text("5F0C8F0E-93A1-4C1A-8A4E-0D8F6D1F2B30"), &again));
    assert_false(uuid_parse(bytes_of_text("5f0c8f0e093a1-4c1a-8a4e-0d8f6d1f2b30"), &again));
}

static void secrets_compare_by_value(void **state)
{
    (void)state;
    assert_true(bytes_equal_secret(bytes_of_text("abc"), bytes_of_text("abc")));
    assert_false(bytes_equal_secret(bytes_of_text("abc"), bytes_of_text("abd")));
    assert_false(bytes_equal_secret(bytes_of_text("abc"), bytes_of_text("abcd")));
}

static void the_last_quarter_is_for_those_with_little(void **state)
{
    static const struct {
        int64_t all, taken, little, most;
    } rows[] = {{64, 0, 4, 64}, {64, 47, 4, 64}, {64, 48, 4, 4}, {64, 64, 4, 4},          {64, 48, 0, 1},        {3, 1, 0, 3},
                {3, 2, 0, 1},   {1, 0, 0, 1},    {0, 0, 0, 1},   {3000, 2249, 250, 3000}, {3000, 2250, 250, 250}};

    (void)state;
    assert_int_equal(SHARE_LITTLE(64), 4);
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_int_equal(share_limit(rows[i].all, rows[i].taken, rows[i].little), rows[i].most);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(time_survives_a_round_trip),
        cmocka_unit_test(every_year_has_four_digits),
        cmocka_unit_test(each_millisecond_of_a_second_has_its_own_text),
        cmocka_unit_test(base64_knows_its_letters_and_no_others),
        cmocka_unit_test(only_visible_characters),
        cmocka_unit_test(the_last_quarter_is_for_those_with_little),
        cmocka_unit_test(buffers_stop_at_their_maximum),
        cmocka_unit_test(readers_never_read_past_the_end),
        cmocka_unit_test(uuids_are_strict),
        cmocka_unit_test(secrets_compare_by_value),
    };

    return RUN_TABLE(time_rows, reads_time) + RUN_TABLE(number_rows, reads_numbers) + RUN_TABLE(base64_rows, base64) +
           cmocka_run_group_tests_name("others", others, NULL, NULL);
}
