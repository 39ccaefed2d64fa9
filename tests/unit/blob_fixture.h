/*
 * tests/unit/blob_fixture.h -- reads a sealed blob in many ways, and counts its objects. For one source file of a program only:
 * it defines what it declares.
 */
#pragma once

#include "tests/support/unit.h"

#include "tests/support/blob.h"

#define MIB (1 << 20)

static inline void check_ranges(struct blob_reader *reader, uint64_t seed, uint64_t length)
{
    static const uint64_t edges[] = {0, 1, 65519, 65520, 65521, 131039, 131040, 262080, 262081, 1048576};
    struct error err = {0};

    for (size_t i = 0; i < COUNT(edges); i++)
        for (size_t size = 1; size <= 200000 && edges[i] + size <= length; size = size * 7 + 1)
            assert_true(blob_test_reads(reader, seed, edges[i], edges[i] + size, size, &err));
    for (uint64_t back = 1; back <= length && back < 200000; back = back * 5 + 3)
        assert_true(blob_test_reads(reader, seed, length - back, length, (size_t)back, &err));
}

static inline void check_blob(struct blob_test *test, const struct blob_content *content, uint64_t seed)
{
    OWNED(blob_reader) *reader = NULL;
    struct error err = {0};
    uint8_t byte = 0;

    if (!blob_reader_open(test->store, &test->upload.identity, content, test->key, &reader, &err).ok) fail_msg("%s", err.message);
    assert_int_equal(blob_reader_length(reader), content->length);
    assert_true(blob_test_reads(reader, seed, 0, content->length, BLOB_READ_SIZE, &err));
    assert_true(blob_test_reads(reader, seed, 0, content->length, 256 << 10, &err));
    check_ranges(reader, seed, content->length);
    assert_true(blob_reader_read(reader, content->length, &byte, 0, &err).ok);
    assert_false(blob_reader_read(reader, content->length, &byte, 1, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_true(blob_verify(reader, &(struct blob_verify_options){.with_digest = true}, &err).ok);
}

static inline struct result count_entry(void *context, const struct driver_entry *entry, struct error *err)
{
    (void)err;
    if (entry->is_extent) ++*(size_t *)context;
    else *(size_t *)context += 1000;
    return SUCCESS;
}

/* The number of extents, plus a thousand for each checkpoint. */
static inline size_t count_objects(struct blob_test *test)
{
    struct error err = {0};
    size_t count = 0;

    assert_true(blob_list(test->store, count_entry, &count, &err).ok);
    return count;
}
