/*
 * storage/s3_http.h -- requests to one bucket over TLS 1.3 (outgoing/call.h): signed, retried, never redirected.
 *
 * Rule: every request may be sent twice. After a broken connection, 429 or 5xx it is tried again, a limited number of
 * times, after a random pause whose bound doubles (full jitter). A caller whose request does harm when it is sent twice
 * must find out what the first try did. Bodies are signed with their SHA-256, which the store compares before it keeps the
 * body. There are time limits on connecting, on silence and on the slowest rate, never on the whole transfer.
 *
 * Certificates are checked against the system's authorities or one file. With a list of networks no other address is called.
 *
 * Thread-safe. Errors: ERROR_NOT_FOUND (no such key or upload), ERROR_CONFLICT (the name is taken), ERROR_FULL, ERROR_LIMIT
 * (a body larger than its buffer), ERROR_UNAVAILABLE, ERROR_NO_MEMORY. Messages contain neither keys nor secrets.
 */
#pragma once

#include "base/bytes.h"
#include "base/owned.h"
#include "storage/s3_sign.h"

struct s3;

struct s3_options {
    const char *endpoint;        /* "https://s3.example" or with a port, no path */
    const char *bucket;          /* its name, which is sent in the path */
    const char *location;        /* "me-central-1": where the bucket must be, and the location that requests are signed for */
    const char *access_key_file; /* two lines: access key id, secret access key; no other user may read it */
    const char *ca_file;         /* PEM; "" for the system's */
    const char *networks;        /* that the endpoint's address must be in (base/network.h); "" or NULL: any usual address */
    unsigned tries_max;          /* of one request; 0: 7 */
    unsigned pause_ms;           /* at most, before the second try; doubles up to 5 s; 0: 100 */
    unsigned silence_s;          /* longest time without a byte; 0: 30 */
};
/** Checks the forms of all options, without reading files. ERROR_INVALID names the first that can't be right. */
RESULT s3_check_options(const struct s3_options *options, struct error *err);
RESULT s3_new(const struct s3_options *options, struct s3 **s3_out, struct error *err);
/** Reads the file of the access key again, after the key was replaced. Keeps the old key if that fails. */
RESULT s3_reread_key(struct s3 *s3, struct error *err);

#define S3_QUERY_MAX 4
struct s3_request {
    const char *method;
    const char *key; /* "" for the bucket itself */
    struct s3_pair query[S3_QUERY_MAX];
    size_t query_count;
    struct bytes body;
    uint64_t range_first, range_last; /* with_range: bytes of the object */
    bool with_range;
    bool is_new;     /* ERROR_CONFLICT if the key exists; after several tries the first of them may have created it */
    bool may_lie;    /* the store sends status 200 before it knows the outcome, so the body may be an error */
    bool is_patient; /* the store may take five minutes to answer */
};

#define S3_ETAG_SIZE 129
struct s3_answer {
    struct buffer body;      /* of 2xx; its maximum limits what is read */
    uint64_t whole_bytes;    /* of the object, if a range was asked for */
    char etag[S3_ETAG_SIZE]; /* without its quotes; "" if there was none, or one with other characters */
    unsigned tries;
    long status;   /* of the last try; 0: none came */
    char code[64]; /* of the store's error: "AccessDenied"; "" */
};
#define S3_ANSWER(maximum_bytes) ((struct s3_answer){.body = BUFFER(maximum_bytes)})
void s3_answer_done(struct s3_answer *answer);
#define OWNED_ANSWER __attribute__((cleanup(s3_answer_done))) struct s3_answer

/** Tries until a 2xx answer is complete, or another try makes no sense. While the store does not answer, three calls at a
 *  time try, and all others fail at once with ERROR_UNAVAILABLE. */
RESULT s3_call(struct s3 *s3, const struct s3_request *request, struct s3_answer *answer, struct error *err);

void s3_free(struct s3 *s3);
DEFINE_OWNED(s3);
