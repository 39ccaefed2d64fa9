/*
 * storage/s3_sign.h -- AWS Signature Version 4: proof to an object store that a request is ours and unchanged.
 *
 * Rule: whatever is put into a request that changes its meaning is signed: path, query, headers, and the SHA-256 of the
 * body. Pure functions, no I/O. Clause: "Authenticating Requests: Using the Authorization Header (AWS Signature
 * Version 4)" of the Amazon S3 API reference; the path is encoded once and never normalised, as S3 has it.
 */
#pragma once

#include "base/bytes.h"

/** A header or a member of the query. Header names are in lower case; values of queries are not encoded yet. */
struct s3_pair {
    const char *name, *value;
};

struct s3_signable {
    const char *method;
    const char *path; /* as it is sent: encoded, beginning with '/' */
    const struct s3_pair *query;
    size_t query_count;
    const struct s3_pair *headers; /* in any order; equal names are joined in the order given */
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

#define S3_PAIRS_MAX 16 /* of one request; ours have 7 headers at most */
#define S3_TIME_SIZE 17 /* "20150830T123600Z" and '\0' */

/** Time as the header x-amz-date has it. */
void s3_time_format(int64_t wall_ms, char text_out[S3_TIME_SIZE]);
/** Appends `text` percent-encoded; '/' stays as it is only in paths. */
RESULT s3_encode(struct buffer *out, const char *text, bool is_path, struct error *err);
/** Appends the query, sorted and encoded: as it is signed, and as it is sent. */
RESULT s3_query_format(const struct s3_pair *query, size_t count, struct buffer *out, struct error *err);
/** Appends the canonical request. */
RESULT s3_canonical_request(const struct s3_signable *request, struct buffer *out, struct error *err);
/** Appends the value of the header Authorization. It holds no secret. */
RESULT s3_sign(const struct s3_signable *request, const struct s3_signer *signer, struct buffer *out, struct error *err);
