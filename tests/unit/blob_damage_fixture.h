/*
 * tests/unit/blob_damage_fixture.h -- a sealed blob whose files a test can damage. For one source file of a program only: it
 * defines what it declares.
 */
#pragma once

#include "tests/support/unit.h"

#include "base/file.h"
#include "tests/support/blob.h"

enum { LENGTH = 3 * 65520 + 1000, RESUMED_AT = 65520 + 10, RECORDS = 4 };

/* One blob in one or two files, with its correct bytes. */
struct subject {
    struct blob_test test;
    struct blob_content content;
    size_t file_count;
    struct buffer files[2]; /* owned */
    char paths[2][160];
};

static inline void read_file(const char *path, struct buffer *into)
{
    struct error err;

    must(file_read(path, into, &err), &err);
}

static inline void write_file(const char *path, struct bytes bytes)
{
    struct error err;

    must(file_replace(path, bytes, 0600, &err), &err);
}

/* Uploads the content of `seed`; one interruption makes two files. */
static inline void close_upload(struct blob_test *test, uint64_t seed, bool is_resumed, struct blob_content *content)
{
    OWNED(blob_writer) *writer = NULL;
    struct error err = {0};
    const struct digest digest = blob_test_digest(DIGEST_SHA256, seed, LENGTH);

    must(blob_test_writer(test, &writer, &err), &err);
    if (is_resumed) {
        must(blob_test_write(writer, seed, RESUMED_AT, 50000, &err), &err);
        must(blob_test_checkpoint(test, writer, &err), &err);
        blob_writer_free(GIVE(writer));
        must(blob_test_writer(test, &writer, &err), &err);
    }
    must(blob_test_write(writer, seed, LENGTH, 50000, &err), &err);
    must(blob_writer_close(writer, &digest, content, &err), &err);
    blob_writer_committed(writer);
    blob_writer_free(GIVE(writer));
}

static inline void load_files(struct subject *subject)
{
    for (size_t i = 0; i < subject->file_count; i++) {
        blob_test_path(&subject->test, i == 0 ? "e0" : "e1", subject->paths[i]);
        subject->files[i] = BUFFER(1 << 20);
        read_file(subject->paths[i], &subject->files[i]);
    }
}

static inline void subject_new(struct subject *subject, uint64_t seed, size_t file_count)
{
    struct error err = {0};

    *subject = (struct subject){.file_count = file_count};
    assert_true(blob_test_open(&subject->test, DRIVER_FS, &err));
    close_upload(&subject->test, seed, file_count == 2, &subject->content);
    load_files(subject);
}

static inline void subject_done(struct subject *subject)
{
    blob_test_done(&subject->test);
    for (size_t i = 0; i < subject->file_count; i++) buffer_done(&subject->files[i]);
}

static inline void restore(struct subject *subject)
{
    for (size_t i = 0; i < subject->file_count; i++) write_file(subject->paths[i], buffer_bytes(&subject->files[i]));
}

/* The reader's error, at opening or later at checking. */
static inline void find(struct subject *subject, struct error *err)
{
    OWNED(blob_reader) *reader = NULL;
    static uint8_t all[LENGTH], zeros[LENGTH];

    *err = (struct error){0};
    if (!blob_reader_open(subject->test.store, &subject->test.upload.identity, &subject->content, subject->test.key, &reader, err)
             .ok)
        return;
    const bool is_sound = blob_verify(reader, &(struct blob_verify_options){0}, err).ok;
    struct error read_err = {0};
    assert_int_equal(blob_reader_read(reader, 0, all, LENGTH, &read_err).ok, is_sound);
    if (is_sound) return;
    assert_string_equal(err->message, read_err.message);
    assert_memory_equal(all, zeros, LENGTH); /* after an error no byte is returned */
}

static inline void expect(struct subject *subject, const char *what, const char *name)
{
    struct error err;

    find(subject, &err);
    if (err.kind != ERROR_CORRUPT || strstr(err.message, name) == NULL)
        fail_msg("%s: expected \"%s\", not %s \"%s\"", what, name, error_kind_name(err.kind), err.message);
}
