/* What a store says about itself, compared with its record. */
#include "tests/support/unit.h"

#include <string.h>

#include "base/terminal_text.h"
#include "registry/region_scan_priv.h"

#define MARK  "00112233445566778899aabbccddeeff"
#define OTHER "ffeeddccbbaa99887766554433221100"

static const struct region_place bucket = {"s3", "https://s3.example", "models", "me-test-1", "m/"};
static const struct region_place folder = {"fs", "", "", "", ""};
#define RECORD                                   \
    .record = {.is_signed = true,                \
               .driver = "s3",                   \
               .mark = MARK,                     \
               .endpoint = "https://s3.example", \
               .bucket = "models",               \
               .bucket_location = "me-test-1",   \
               .prefix = "m/"}
#define SURVEY .mark = MARK, .place = "me-test-1"
#define NONE   .copies = {.told = RULES_NONE}, .expiry = {.told = RULES_NONE}, .versions = {.told = RULES_NONE}

static const struct row {
    const char *name;
    const struct region_place *place;
    const char *known;
    struct region_record record;
    struct driver_survey survey;
    const char *grave; /* "about about" of grave findings, in order */
    size_t notes;
} rows[] = {
    {"all agrees", &bucket, MARK, RECORD, {SURVEY, NONE}, "", 0},
    {"another location", &bucket, MARK, RECORD, {.mark = MARK, .place = "eu-west-1", NONE}, "location ", 0},
    {"another store", &bucket, MARK, RECORD, {.mark = OTHER, .place = "me-test-1", NONE}, "mark ", 0},
    {"a store that was emptied", &bucket, MARK, RECORD, {.place = "me-test-1", NONE}, "mark ", 0},
    {"a mark that is none", &bucket, MARK, RECORD, {.mark = "?", .place = "me-test-1", NONE}, "mark ", 0},
    {"a new store, before its mark", &bucket, "", RECORD, {.place = "me-test-1", NONE}, "", 0},
    {"a record of another store", &bucket, OTHER, RECORD, {SURVEY, NONE}, "mark ", 0},
    {"copies",
     &bucket,
     MARK,
     RECORD,
     {SURVEY, .copies = {RULES_SOME, "to x"}, .expiry = {.told = RULES_NONE}, .versions = {.told = RULES_NONE}},
     "replication ",
     0},
    {"a rule that removes",
     &bucket,
     MARK,
     RECORD,
     {SURVEY, .expiry = {RULES_SOME, "objects are removed"}, .copies = {.told = RULES_NONE}, .versions = {.told = RULES_NONE}},
     "lifecycle ",
     0},
    {"versions are a note",
     &bucket,
     MARK,
     RECORD,
     {SURVEY, .versions = {RULES_SOME, "kept"}, .copies = {.told = RULES_NONE}, .expiry = {.told = RULES_NONE}},
     "",
     1},
    {"rules that are not told are notes", &bucket, MARK, RECORD, {SURVEY}, "", 3},
    {"without a record nothing but the mark counts",
     &bucket,
     MARK,
     {.is_signed = false},
     {.mark = OTHER,
      .place = "me-test-1",
      .copies = {RULES_SOME, "to x"},
      .expiry = {RULES_SOME, "y"},
      .versions = {.told = RULES_NONE}},
     "mark ",
     3},
    {"and the location of the configuration",
     &bucket,
     MARK,
     {.is_signed = false},
     {.mark = MARK, .place = "eu-west-1", NONE},
     "location ",
     1},
    {"a folder for a bucket", &folder, MARK, RECORD, {.mark = MARK, .place = "ext4", NONE}, "driver ", 0},
    {"another file system",
     &folder,
     MARK,
     {.is_signed = true, .driver = "fs", .mark = MARK, .file_system = "xfs"},
     {.mark = MARK, .place = "tmpfs", NONE},
     "file system ",
     0},
    {"another endpoint, bucket and prefix",
     &bucket,
     MARK,
     {.is_signed = true, .driver = "s3", .endpoint = "https://x", .bucket = "y", .prefix = ""},
     {SURVEY, NONE},
     "endpoint bucket prefix ",
     0},
};

static void compares(void **state)
{
    const struct row *row = *state;
    struct region_report report = {.count = 0};
    char grave[200] = "", text[600], little[20];
    size_t notes = 0;

    region_compare(&row->record, row->place, row->known, &row->survey, &report);
    for (size_t i = 0; i < report.count; i++) {
        notes += !report.findings[i].is_grave;
        if (!report.findings[i].is_grave) continue;
        (void)strncat(grave, report.findings[i].about, 50);
        (void)strncat(grave, " ", 2);
    }
    assert_string_equal(grave, row->grave);
    assert_int_equal(notes, row->notes);
    assert_int_equal(region_report_is_grave(&report), row->grave[0] != '\0');
    region_report_text(&report, text, sizeof text);
    assert_int_equal(text[0] == '\0', row->grave[0] == '\0');
    region_report_text(&report, little, sizeof little); /* cut */
    assert_true(strlen(little) < sizeof little && strncmp(little, text, strlen(little)) == 0);
}

/* More findings than there is room for are left out; the region is quarantined for the first ones. */
static void keeps_within_its_room(void **state)
{
    const struct region_record record = {.is_signed = true, .driver = "fs"};
    const struct driver_survey survey = {.place = "x"};
    struct region_report report = {.count = 0};

    (void)state;
    for (unsigned i = 0; i < 20; i++) region_compare(&record, &bucket, MARK, &survey, &report);
    assert_int_equal(report.count, REGION_FINDINGS_MAX);
}

/* No database takes half a character, so a region with such a record could not be quarantined. */
static void cuts_no_character(void **state)
{
    char bucket_of_record[130] = "\x1b";
    const struct region_record record = {.is_signed = true, .driver = "s3", .bucket = bucket_of_record};
    const struct driver_survey survey = {SURVEY, NONE};
    struct region_report report = {.count = 0};
    char text[80];

    (void)state;
    for (size_t i = 0; i < 64; i++) memcpy(bucket_of_record + 1 + 2 * i, "\xc3\xa9", 3);
    for (size_t size = 20; size <= sizeof text; size++) {
        report.count = 0;
        region_compare(&record, &bucket, MARK, &survey, &report);
        assert_true(report.count == 1 && terminal_is_printable(report.findings[0].what));
        region_report_text(&report, text, size);
        assert_true(strlen(text) == size - 1 && terminal_is_printable(text));
    }
}

int main(void)
{
    const struct CMUnitTest others[] = {cmocka_unit_test(keeps_within_its_room), cmocka_unit_test(cuts_no_character)};

    return RUN_TABLE(rows, compares) + cmocka_run_group_tests_name("regions", others, NULL, NULL);
}
