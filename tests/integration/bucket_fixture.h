/*
 * tests/integration/bucket_fixture.h -- a bucket, and a blob in it.
 * For one source file of a program only: it defines what it declares.
 */
#pragma once

#include "tests/support/unit.h"

#include "tests/support/blob.h"
#include "tests/support/s3_peer.h"

static struct s3_peer peer;

static inline void open_test(struct blob_test *test)
{
    struct error err = {0};

    *test = (struct blob_test){.kind = DRIVER_S3};
    assert_true(blob_test_use(test, s3_peer_driver(&peer), &err));
}

static inline void nothing_was_left_behind(void **state)
{
    unsigned objects = 0, uploads = 0;

    (void)state;
    s3_peer_left(&peer, &objects, &uploads);
    assert_int_equal(s3_peer_rows(&peer), 0);
    assert_int_equal(objects, 0);
    /* Uploads may be left whose begin got no answer. They are empty, and a rule of the bucket ends them. */
    assert_int_equal(uploads, 0);
}
