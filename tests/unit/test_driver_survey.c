/* What a folder says about itself, and a store that is closed. */
#include "tests/support/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/blob.h"

#define MARK "00112233445566778899aabbccddeeff"

static struct driver *open_folder(const char *path)
{
    struct driver *driver = NULL;
    struct error err = {0};

    if (!driver_fs_open(path, 1 << 20, &driver, &err).ok) fail_msg("%s", err.message);
    return driver;
}

static void survey(struct driver *driver, struct driver_survey *survey_out)
{
    struct error err = {0};

    if (!driver->operations->survey(driver, survey_out, &err).ok) fail_msg("%s", err.message);
}

static void write_mark(const struct blob_test_folder *folder, const char *text)
{
    char path[80];

    (void)snprintf(path, sizeof path, "%s/sijil-region", folder->path);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fputs(text, file) >= 0 && fclose(file) == 0, 1);
}

static unsigned objects;
static struct result count(void *context, const struct driver_entry *entry, struct error *err)
{
    (void)context, (void)entry, (void)err;
    objects++;
    return SUCCESS;
}

static void a_mark_is_written_once(void **state)
{
    const struct blob_test_folder folder = blob_test_folder_new(false);
    struct driver *driver = open_folder(folder.path);
    struct driver_survey found;
    struct error err = {0};

    (void)state;
    survey(driver, &found);
    assert_string_equal(found.mark, "");
    assert_true(strlen(found.place) > 2); /* ext4, tmpfs, ... */
    assert_int_equal(found.copies.told, RULES_NONE);
    assert_true(driver->operations->mark(driver, MARK, &err).ok);
    assert_false(driver->operations->mark(driver, "ffffffffffffffffffffffffffffffff", &err).ok);
    assert_int_equal(err.kind, ERROR_CONFLICT);
    survey(driver, &found);
    assert_string_equal(found.mark, MARK);
    objects = 0;
    assert_true(driver->operations->list(driver, count, NULL, &err).ok);
    assert_int_equal(objects, 0); /* the mark is no object of a blob */
    driver_free(driver);
    driver = open_folder(folder.path); /* another gateway, later */
    survey(driver, &found);
    assert_string_equal(found.mark, MARK);
    driver_free(driver);
    blob_test_folder_done(&folder);
}

static const struct mark_row {
    const char *name, *text, *mark;
} mark_rows[] = {
    {"a mark", MARK "\n", MARK},
    {"without its end", MARK, "?"},
    {"of large letters", "00112233445566778899AABBCCDDEEFF\n", "?"},
    {"too long", MARK "0\n", "?"},
    {"much too long", MARK MARK MARK "\n", "?"},
    {"nothing", "", "?"},
};

static void other_content_is_no_mark(void **state)
{
    const struct mark_row *row = *state;
    const struct blob_test_folder folder = blob_test_folder_new(false);
    OWNED(driver) *driver = open_folder(folder.path);
    struct driver_survey found;

    write_mark(&folder, row->text);
    survey(driver, &found);
    assert_string_equal(found.mark, row->mark);
    blob_test_folder_done(&folder);
}

/* A folder that was moved away, with another one in its place: nothing is known, so nothing is concluded. */
static void a_covered_folder_tells_nothing(void **state)
{
    const struct blob_test_folder folder = blob_test_folder_new(false);
    OWNED(driver) *driver = open_folder(folder.path);
    char aside[60];
    struct driver_survey found;
    struct error err = {0};

    (void)state;
    (void)snprintf(aside, sizeof aside, "%s.aside", folder.path);
    assert_int_equal(rename(folder.path, aside), 0);
    assert_int_equal(mkdir(folder.path, 0700), 0);
    assert_false(driver->operations->survey(driver, &found, &err).ok);
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);
    assert_int_equal(rmdir(folder.path), 0);
    assert_int_equal(rename(aside, folder.path), 0);
    blob_test_folder_done(&folder);
}

/* A reader and a writer that are open when the region is quarantined come to an end. */
static void a_closed_store_reads_and_writes_nothing(void **state)
{
    OWNED(blob_writer) *writer = NULL;
    OWNED(blob_reader) *reader = NULL;
    struct blob_test test = {.kind = DRIVER_FS};
    struct blob_content content;
    uint8_t byte;
    const struct digest expected = blob_test_digest(DIGEST_SHA256, 8, 300000);
    struct error err = {0};

    (void)state;
    assert_true(blob_test_open(&test, DRIVER_FS, &err));
    assert_true(blob_test_writer(&test, &writer, &err).ok);
    assert_true(blob_test_write(writer, 8, 300000, 131072, &err).ok);
    assert_true(blob_writer_close(writer, &expected, &content, &err).ok);
    blob_writer_committed(writer);
    blob_writer_free(GIVE(writer));
    assert_true(blob_reader_open(test.store, &test.upload.identity, &content, test.key, &reader, &err).ok);
    assert_true(blob_reader_read(reader, 5, &byte, 1, &err).ok);
    blob_store_close(test.store, true);
    assert_false(blob_reader_read(reader, 5, &byte, 1, &err).ok);
    assert_int_equal(err.kind, ERROR_UNAVAILABLE);
    assert_non_null(strstr(err.message, "quarantined"));
    blob_store_close(test.store, false);
    assert_true(blob_reader_read(reader, 5, &byte, 1, &err).ok);
    blob_reader_free(GIVE(reader));
    blob_test_done(&test);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mark_is_written_once),
        cmocka_unit_test(a_covered_folder_tells_nothing),
        cmocka_unit_test(a_closed_store_reads_and_writes_nothing),
    };

    return RUN_TABLE(mark_rows, other_content_is_no_mark) + cmocka_run_group_tests_name("surveys", tests, NULL, NULL);
}
