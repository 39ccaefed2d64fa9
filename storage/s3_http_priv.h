/*
 * storage/s3_http_priv.h -- what s3_*.c share: the bucket, its key, and one try of a request.
 */
#pragma once

#include <pthread.h>

#include "crypto/secret.h"
#include "storage/s3_answer.h"
#include "storage/s3_http.h"
#include "storage/s3_network.h"

enum {
    S3_HANDLES_MAX = 64, /* connections that are kept for the next request; as many as workers ever are */
    S3_HOST_SIZE = 256,
    S3_BUCKET_SIZE = 64, /* S3: 63 letters at most */
    S3_PATH_SIZE = 512,  /* of a file */
    S3_ID_SIZE = 129,    /* of an access key */
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
    struct s3_networks networks;
    unsigned tries_max, pause_ms, silence_s;

    pthread_mutex_t lock; /* of what follows */
    struct s3_key key;
    void *handles[S3_HANDLES_MAX]; /* CURL */
    size_t handle_count;
    unsigned calls; /* under way */
    bool is_away;   /* the last one that ended got no answer, however often it tried */
};

/** What one try brought. */
struct s3_outcome {
    long status;      /* 0: no answer came */
    bool is_hopeless; /* of no answer: another try will not get one */
    char reason[128]; /* of no answer */
    struct s3_complaint complaint;
};

struct s3_sending {
    const char *url;
    const struct s3_pair *headers;
    size_t header_count;
};

/** How long to wait before try `number` + 2. Full jitter: anything from nothing to a bound that doubles, so that many who failed at
 *  once do not come at once again. */
uint64_t s3_pause_ms(unsigned first_ms, unsigned number, uint64_t random);
/** Sends the request once; fails only for lack of memory, or when the answer's buffer is too small. */
RESULT s3_try(struct s3 *s3, const struct s3_request *request, const struct s3_sending *sending, struct s3_answer *answer,
              struct s3_outcome *outcome_out, struct error *err);
void s3_drop_handles(struct s3 *s3);

/** Two lines: id and secret. */
RESULT s3_key_parse(struct bytes text, struct s3_key *key_out, struct error *err);
/** One line of an answer's head. */
void s3_head_line(struct s3_answer *answer, struct bytes line);
