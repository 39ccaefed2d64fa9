/*
 * storage/s3_answer.h -- parses the XML answers of an object store with expat. It trusts nothing in them.
 *
 * Rule: an answer is foreign data. It may have at most S3_ANSWER_MAX bytes, eight nested elements, and texts of at most
 * 2048 bytes; an answer with a document type (and so with entities of its own) is refused. ERROR_UNAVAILABLE for any
 * other answer than the expected one, because another try may succeed. Clause: the response elements of GetBucketLocation,
 * CreateMultipartUpload, CompleteMultipartUpload, ListObjectsV2 and of errors in the Amazon S3 API reference.
 */
#pragma once

#include "base/bytes.h"

#define S3_ANSWER_MAX    ((size_t)4 << 20) /* a page of a thousand keys of 1024 characters, each three times as long */
#define S3_TEXT_SIZE     2049
#define S3_CODE_SIZE     64   /* "BucketAlreadyOwnedByYou" */
#define S3_LOCATION_SIZE 64   /* "ap-southeast-1" */
#define S3_KEY_SIZE      1025 /* S3: 1024 bytes at most */

/** Code and message of an error, as far as they can be read; else "". Only printable characters. */
struct s3_error {
    char code[S3_CODE_SIZE], message[128];
};
void s3_answer_error(struct bytes xml, struct s3_error *error_out);

/** "us-east-1" if the store names none, and "eu-west-1" for "EU", as S3 means them. */
RESULT s3_answer_location(struct bytes xml, char location_out[S3_LOCATION_SIZE], struct error *err);
/** Appends the id of the upload that was begun. */
RESULT s3_answer_upload_id(struct bytes xml, struct buffer *id, struct error *err);
/** Success only if the answer says that the upload is complete: the store sends status 200 before it knows. */
RESULT s3_answer_completed(struct bytes xml, struct error *err);

/**
 * The first enabled rule of a bucket that acts on objects below `prefix`: of GetBucketReplication, GetBucketLifecycleConfiguration or
 * GetBucketVersioning. A rule that only aborts incomplete uploads acts on none.
 */
struct driver_rules;
RESULT s3_answer_rules(struct bytes xml, const char *prefix, struct driver_rules *rules_out, struct error *err);

/** One object of a listing. */
struct s3_listed {
    char key[S3_KEY_SIZE];
    uint64_t size_bytes;
    int64_t modified_ms;
};
typedef struct result s3_listed_visit(void *context, const struct s3_listed *listed, struct error *err);
/** Appends the token of the next page; nothing after the last page. A failure of `visit` ends it. */
RESULT s3_answer_page(struct bytes xml, s3_listed_visit *visit, void *context, struct buffer *next, struct error *err);
