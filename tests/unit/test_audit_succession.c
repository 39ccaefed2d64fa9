/* Statements about a log that goes on under a new origin: the form, and whose log it is. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#include "audit/format/succession.h"

#define ROOT   "XcnaeacGWamtVZy3Ad7ZoqudgjqtL0lgz+Nw7/RgQyg="
#define HEAD   "sijil-log-succession/v1\nregistry x.example/audit\n"
#define BEFORE "before x.example/audit 9 " ROOT "\n"
#define AFTER  "after x.example/audit/2 7 " ROOT "\n"
#define REST   "made 1767225600000\nreason the disk is lost\n"
#define NOTE   "x.example/audit\n9\n" ROOT "\n\nsigned\n"
#define GOOD   HEAD BEFORE AFTER REST "pin 1 3 " ROOT "\npin 16 5 " ROOT "\n\n" NOTE

static void logs_have_numbers(void **state)
{
    static const struct {
        const char *origin, *registry;
        uint64_t number;
    } rows[] = {
        {"x.example/audit", "x.example/audit", 1},
        {"x.example/audit/2", "x.example/audit", 2},
        {"x.example/audit/10", "x.example/audit", 10},
        {"x.example/audit/1", "x.example/audit", 0},
        {"x.example/audit/0", "x.example/audit", 0},
        {"x.example/audit/02", "x.example/audit", 0},
        {"x.example/audit/", "x.example/audit", 0},
        {"x.example/audit2", "x.example/audit", 0},
        {"x.example/audit/2/3", "x.example/audit", 0},
        {"x.example", "x.example/audit", 0},
        {"x.example/audit/4294967295", "x.example/audit", 4294967295},
        {"x.example/audit/4294967296", "x.example/audit", 0},
    };
    char origin[CHECKPOINT_ORIGIN_MAX + 1], longest[CHECKPOINT_ORIGIN_MAX + 1];
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        if (succession_number(rows[i].origin, rows[i].registry) != rows[i].number) fail_msg("%s", rows[i].origin);
        if (rows[i].number == 0) continue;
        must(succession_origin(rows[i].registry, rows[i].number, origin, &err), &err);
        assert_string_equal(origin, rows[i].origin);
    }
    memset(longest, 'x', CHECKPOINT_ORIGIN_MAX);
    longest[CHECKPOINT_ORIGIN_MAX] = '\0';
    must(succession_origin(longest, 1, origin, &err), &err);
    assert_false(succession_origin(longest, 2, origin, &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
    assert_false(succession_origin("x", 0, origin, &err).ok);
}

static void what_is_written_is_read(void **state)
{
    struct buffer OWNED_BUFFER text = BUFFER(SUCCESSION_MAX);
    struct succession read;
    struct error err = {0};

    (void)state;
    must(succession_read(bytes_of_text(GOOD), &read, &err), &err);
    assert_string_equal(read.registry, "x.example/audit");
    assert_string_equal(read.after.origin, "x.example/audit/2");
    assert_string_equal(read.reason, "the disk is lost");
    assert_true(read.before.size == 9 && read.after.size == 7 && read.made_ms == 1767225600000);
    assert_true(read.pins[0].epoch == 3 && read.pins[15].epoch == 5 && read.pins[1].epoch == 0);
    assert_true(bytes_equal(read.checkpoint, bytes_of_text(NOTE)));
    must(succession_write(&read, &text, &err), &err);
    assert_string_equal(buffer_text(&text), GOOD);
    read.reason[3] = '\n';
    buffer_clear(&text);
    assert_false(succession_write(&read, &text, &err).ok); /* what can't be read is not written */
}

static void what_is_no_statement_is_refused(void **state)
{
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"", "begins with"},
        {"sijil-log-succession/v2\n", "begins with"},
        {HEAD, "\"before\""},
        {HEAD BEFORE REST, "\"after\""},
        {HEAD BEFORE AFTER, "\"made\""},
        {HEAD "before x.example/audit 09 " ROOT "\n" AFTER REST "\n" NOTE, "\"before\""},
        {HEAD "before x.example/audit 9 " ROOT " \n" AFTER REST "\n" NOTE, "\"before\""},
        {HEAD "before x.example/audit 9\n" AFTER REST "\n" NOTE, "\"before\""},
        {HEAD "before  9 " ROOT "\n" AFTER REST "\n" NOTE, "\"before\""},
        {HEAD BEFORE AFTER "made now\nreason x\n\n" NOTE, "\"made\""},
        {HEAD BEFORE AFTER "made 1\nreason \n\n" NOTE, "\"reason\""},
        {HEAD BEFORE AFTER "made 1\nreason a\x7f\n\n" NOTE, "\"reason\""},
        {HEAD BEFORE AFTER REST "pin 1 0 " ROOT "\n\n" NOTE, "\"pin\""},
        {HEAD BEFORE AFTER REST "pin 17 1 " ROOT "\n\n" NOTE, "\"pin\""},
        {HEAD BEFORE AFTER REST "pin 0 1 " ROOT "\n\n" NOTE, "\"pin\""},
        {HEAD BEFORE AFTER REST "pin 2 1 " ROOT "\npin 1 1 " ROOT "\n\n" NOTE, "\"pin\""},
        {HEAD BEFORE AFTER REST "pin 2 1 " ROOT "\npin 2 1 " ROOT "\n\n" NOTE, "\"pin\""},
        {HEAD BEFORE AFTER REST "more x\n\n" NOTE, "\"pin\""},
        {HEAD BEFORE AFTER REST NOTE, "\"pin\""},
        {HEAD BEFORE AFTER REST, "\"empty\""},
        {HEAD BEFORE AFTER REST "\n", "no checkpoint"},
        {HEAD BEFORE "after x.example/audit 7 " ROOT "\n" REST "\n" NOTE, "another origin"},
        {HEAD BEFORE "after x.example/audit/3 7 " ROOT "\n" REST "\n" NOTE, "another origin"},
        {HEAD BEFORE "after y.example/audit/2 7 " ROOT "\n" REST "\n" NOTE, "another origin"},
        {HEAD "before y.example/audit 9 " ROOT "\n" AFTER REST "\n" NOTE, "another origin"},
    };
    struct buffer OWNED_BUFFER large = BUFFER(SUCCESSION_MAX + 2);
    struct succession read;
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        if (succession_read(bytes_of_text(rows[i].text), &read, &err).ok) fail_msg("row %zu is accepted", i);
        if (err.kind != ERROR_INVALID || strstr(err.message, rows[i].why) == NULL) fail_msg("row %zu: %s", i, err.message);
    }
    must(buffer_add_text(&large, GOOD, &err), &err);
    while (large.length < SUCCESSION_MAX) must(buffer_add_u8(&large, 'x', &err), &err);
    must(succession_read(buffer_bytes(&large), &read, &err), &err);
    must(buffer_add_u8(&large, 'x', &err), &err);
    assert_false(succession_read(buffer_bytes(&large), &read, &err).ok);
    assert_int_equal(err.kind, ERROR_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logs_have_numbers),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(what_is_no_statement_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
