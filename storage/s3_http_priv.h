/*
 * storage/s3_http_priv.h -- shared by s3_*.c: the bucket, its key, and one try of a request.
 */
#pragma once

#include <pthread.h>

#include "crypto/secret.h"
#include "outgoing/call.h"
#include "storage/s3_answer.h"
#include "storage/s3_http.h"

enum {
    S3_HOST_SIZE = 256,
    S3_BUCKET_SIZE = 64, /* S3: 63 letters at most */
    S3_PATH_SIZE = OUTGOING_PATH_SIZE,
    S3_HEADERS_MAX = 9, /* of a request, its signature among them */
    S3_ID_SIZE = 129,   /* of an access key */
    S3_PAUSE_MAX_MS = 5000,
};

struct s3_key {
    char id[S3_ID_SIZE];
    struct secret *secret; /* "AWS4" and the secret access key */
};

struct s3 {
    char endpoint[S3_HOST_SIZE], host[S3_HOST_SIZE]; /* "https://s3.example", "s3.example" */
    char bucket[S3_BUCKET_SIZE], location[S3_LOCATION_SIZE];
    char access_key_file[S3_PATH_SIZE], ca_file[S3_PATH_SIZE];
    struct networks networks;
    struct outgoing *outgoing;
    unsigned tries_max, pause_ms, silence_s;

    pthread_mutex_t lock; /* of the fields below */
    struct s3_key key;
    unsigned calls; /* calls that are running */
    bool is_away;   /* the last call that ended got no answer in any of its tries */
};

/** The outcome of one try. */
struct s3_outcome {
    long status;      /* 0: no answer */
    bool is_hopeless; /* for a try without an answer: another try will not get one either */
    char reason[128]; /* for a try without an answer: the cause */
    struct s3_error error_body;
};

struct s3_sending {
    const char *url;
    const struct s3_pair *headers;
    size_t header_count;
};

/** How long to wait before try `number` + 2. Full jitter: a random time up to a bound that doubles, so that many callers
 *  that failed together do not retry together. */
uint64_t s3_pause_ms(unsigned first_ms, unsigned number, uint64_t random);
/** Sends the request once. Fails only for lack of memory, or if the answer's buffer is too small. */
RESULT s3_try(struct s3 *s3, const struct s3_request *request, const struct s3_sending *sending, struct s3_answer *answer,
              struct s3_outcome *outcome_out, struct error *err);

/** Two lines: id and secret. */
RESULT s3_key_parse(struct bytes text, struct s3_key *key_out, struct error *err);
/** Takes one header line of an answer. */
void s3_head_line(struct s3_answer *answer, struct bytes line);
