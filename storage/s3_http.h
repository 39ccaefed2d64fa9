/*
 * storage/s3_http.h -- one bucket, spoken to over TLS 1.3 (libcurl): signed, tried again, never redirected.
 *
 * Rule: every request here may be sent twice. It is, after a broken connection, 429 or 5xx, with a random pause that
 * doubles (full jitter) and a bound on the number of tries; so whoever adds one that does harm when it comes twice must
 * see by itself what the first try did. Bodies are signed with their SHA-256, which the store compares before it keeps
 * them. Time limits are on connecting, on silence and on the slowest rate, never on the whole.
 *
 * Certificates are always checked, against the system's authorities or one file. Proxies of the environment are not
 * used, redirects not followed, and only addresses called that storage/s3_network.h allows.
 *
 * For any number of threads. Errors: ERROR_NOT_FOUND (no such key or upload), ERROR_CONFLICT (the name is taken),
 * ERROR_FULL, ERROR_LIMIT (a body larger than its buffer), ERROR_UNAVAILABLE, ERROR_NO_MEMORY. Messages name neither
 * keys nor secrets.
 */
#pragma once

#include "base/bytes.h"
#include "base/owned.h"
#include "storage/s3_sign.h"

struct s3;

struct s3_options {
    const char *endpoint;        /* "https://s3.example" or with a port, no path */
    const char *bucket;          /* its name; it is sent in the path */
    const char *location;        /* "me-central-1": where the bucket must be, and what requests are signed for */
    const char *access_key_file; /* two lines: access key id, secret access key; nobody else may read it */
    const char *ca_file;         /* PEM; "" for the system's */
    const char *networks;        /* that the endpoint's address must be in (storage/s3_network.h); "" or NULL: any usual one */
    unsigned tries_max;          /* of one request; 0: 7 */
    unsigned pause_ms;           /* at most, before the second try; doubles up to 5 s; 0: 100 */
    unsigned silence_s;          /* longest time without a byte; 0: 30 */
};
/** The forms of them all, without a look at the files: ERROR_INVALID names the first that can't be right. */
RESULT s3_check_options(const struct s3_options *options, struct error *err);
RESULT s3_new(const struct s3_options *options, struct s3 **s3_out, struct error *err);
/** Reads the file of the access key again, for a key that was replaced; keeps the old one if it can't. */
RESULT s3_reread_key(struct s3 *s3, struct error *err);

#define S3_QUERY_MAX 4
struct s3_request {
    const char *method;
    const char *key; /* "" for the bucket itself */
    struct s3_pair query[S3_QUERY_MAX];
    size_t query_count;
    struct bytes body;
    uint64_t range_first, range_last; /* both 0: the whole */
    bool with_range;
    bool is_new;     /* refuse if there is one of that key: ERROR_CONFLICT, which after several tries may be our own */
    bool may_lie;    /* 200 comes before the outcome: an error in the body is one */
    bool is_patient; /* the store may think for five minutes before it answers */
};

#define S3_ETAG_SIZE 129
struct s3_answer {
    struct buffer body;      /* of 2xx; its maximum bounds what is taken */
    uint64_t whole_bytes;    /* of the object, when a range was asked for */
    char etag[S3_ETAG_SIZE]; /* without its quotes; "" if none came, or one that is no plain word */
    unsigned tries;
};
#define S3_ANSWER(maximum_bytes) ((struct s3_answer){.body = BUFFER(maximum_bytes)})
void s3_answer_done(struct s3_answer *answer);
#define OWNED_ANSWER __attribute__((cleanup(s3_answer_done))) struct s3_answer

/** Until a 2xx answer is complete, or it is useless to try further. While nothing answers there, three at a time try, and for
 *  all others it is ERROR_UNAVAILABLE at once. */
RESULT s3_call(struct s3 *s3, const struct s3_request *request, struct s3_answer *answer, struct error *err);

void s3_free(struct s3 *s3);
DEFINE_OWNED(s3);
