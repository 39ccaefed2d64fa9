/*
 * storage/driver_s3.h -- a region in a bucket of an S3-compatible object store.
 *
 * Rule: a bucket is used only while the store reports the location that the configuration has. docs/s3.md is the page for
 * operators; docs/decisions/0016-objects-of-a-bucket.md says why extents are objects.
 *
 * Each extent is an object: one PUT while it is small, else a multipart upload whose parts are in storage/part_list.h.
 * Bytes are collected in memory until they fill a part (5 MiB, later 10 and 15). extent_sync stores the bytes that fill no
 * part yet as a separate object. The writer of the blob's next extent first completes the previous extent from the parts in
 * the list.
 * An extent longer than DRIVER_S3_SEGMENT continues in a second object, so parts stay small and memory does not grow with a
 * blob's size.
 */
#pragma once

#include "storage/driver.h"
#include "storage/s3_http.h"

#define DRIVER_S3_SEGMENT (UINT64_C(32) << 30) /* part of the format: the most bytes of an extent in one object */
#define DRIVER_S3_PART    (5u << 20)           /* S3's minimum for a part that is not the last one */

struct driver_s3_options {
    struct s3_options s3;
    const char *region;     /* the region's id, for messages */
    const char *prefix;     /* "" or "models/": the prefix of all keys */
    const char *database;   /* connection string, as the application's role */
    uint64_t segment_bytes; /* for tests; 0: DRIVER_S3_SEGMENT */
    uint32_t part_bytes;    /* for tests; 0: DRIVER_S3_PART */
};

/** Checks the forms of prefix and bucket, without a connection. ERROR_INVALID names the setting. */
RESULT driver_s3_check(const struct driver_s3_options *options, struct error *err);
/**
 * Reads the access key and connects to the database. The bucket is asked for its location before its first use.
 * ERROR_INVALID for options that can't be right, ERROR_DENIED for a key file that other users may read.
 */
RESULT driver_s3_open(const struct driver_s3_options *options, struct driver **driver_out, struct error *err);
