/*
 * storage/driver_s3.h -- a region in a bucket of an S3-compatible object store.
 *
 * Rule: a bucket is used only while the store says that it lies where the configuration says; docs/s3.md has what an
 * operator must know, docs/decisions/0016-objects-of-a-bucket.md why extents are objects.
 *
 * Each extent is an object: one PUT while it is small, else a multipart upload whose parts are in storage/part_list.h.
 * Its bytes gather in memory until they fill a part (5 MiB, later 10 and 15); extent_sync puts what is less than
 * a part into an object of its own. Whoever begins the next extent of the blob first makes the last one whole, out of
 * what the list names. An extent longer than DRIVER_S3_SEGMENT goes on in a second object, so parts stay small and
 * memory does not grow with a blob's size.
 */
#pragma once

#include "storage/driver.h"
#include "storage/s3_http.h"

#define DRIVER_S3_SEGMENT (UINT64_C(32) << 30) /* part of the format: bytes of an extent in one object */
#define DRIVER_S3_PART    (5u << 20)           /* S3's minimum of a part that is not the last one */

struct driver_s3_options {
    struct s3_options s3;
    const char *region;      /* its id, for messages */
    const char *prefix;      /* "" or "models/": what keys begin with */
    const char *database;    /* connection string, as the application's role */
    uint64_t segment_bytes;  /* for tests; 0: DRIVER_S3_SEGMENT */
    uint32_t part_bytes;     /* for tests; 0: DRIVER_S3_PART */
};

/** The forms of prefix and bucket, connecting to nothing: ERROR_INVALID names the setting. */
RESULT driver_s3_check(const struct driver_s3_options *options, struct error *err);
/**
 * Reads the access key and connects to the database; the bucket itself is asked where it lies before it is first used.
 * ERROR_INVALID for options that can't be right, ERROR_DENIED for a key that others may read.
 */
RESULT driver_s3_open(const struct driver_s3_options *options, struct driver **driver_out, struct error *err);
