/*
 * storage/s3_sign.h -- AWS Signature Version 4: proves to an object store that a request is ours and unchanged.
 *
 * Rule: every part of a request that affects its meaning is signed: path, query, headers, and the SHA-256 of the body. Pure
 * functions, no I/O. Clause: "Authenticating Requests: Using the Authorization Header (AWS Signature Version 4)" of the
 * Amazon S3 API reference. The path is encoded once and never normalised, as S3 demands.
 */
#pragma once

#include "base/bytes.h"

/** A header or a parameter of the query. Names of headers are in lower case; values of a query are not encoded yet. */
struct s3_pair {
    const char *name, *value;
};

struct s3_signable {
    const char *method;
    const char *path; /* in the form that is sent: encoded, begins with '/' */
    const struct s3_pair *query;
    size_t query_count;
    const struct s3_pair *headers; /* in any order; the values of equal names are joined in the order given */
    size_t header_count;
    const char *payload_hash; /* 64 hex digits */
    int64_t wall_ms;
};

struct s3_signer {
    const char *access_key_id;
    struct bytes secret;  /* "AWS4" and the secret access key */
    const char *location; /* "me-central-1" */
    const char *service;  /* "s3" */
};

#define S3_PAIRS_MAX 16 /* of one request; ours have at most 7 headers */
#define S3_TIME_SIZE 17 /* "20150830T123600Z" and '\0' */

/** The time in the form of the header x-amz-date. */
void s3_time_format(int64_t wall_ms, char text_out[S3_TIME_SIZE]);
/** Appends `text` percent-encoded; only in a path '/' is not encoded. */
RESULT s3_encode(struct buffer *out, const char *text, bool is_path, struct error *err);
/** Appends the query, sorted and encoded, as it is signed and sent. */
RESULT s3_query_format(const struct s3_pair *query, size_t count, struct buffer *out, struct error *err);
/** Appends the canonical request. */
RESULT s3_canonical_request(const struct s3_signable *request, struct buffer *out, struct error *err);
/** Appends the value of the header Authorization. It contains no secret. */
RESULT s3_sign(const struct s3_signable *request, const struct s3_signer *signer, struct buffer *out, struct error *err);
