/*
 * client/http.h -- requests to one registry over TLS 1.3 (outgoing/call.h).
 *
 * Certificates are always verified: against the system's authorities, or against the file that the user named at login. No option turns
 * that off. Redirects are not followed. Time limits are idle limits: a transfer may last for days while bytes move.
 */
#pragma once

#include <stdatomic.h>

#include "base/bytes.h"
#include "base/owned.h"
#include "client/dpop.h"

struct http;

struct http_options {
    const char *host;                        /* "registry.example" or "127.0.0.1:8443" */
    const char *ca_file;                     /* PEM; NULL or "" for the system's */
    const char *certificate_file, *key_file; /* PEM: of the client (mTLS); NULL or "": none. Both are read for each connection */
    const char *proxy;                       /* "http://proxy.example:3128"; NULL or "": none, whatever the environment says */
    const struct ecdsa_key
        *act_key; /* signs each request that changes something (the header Sijil-Act); NULL: none. It outlives the connection */
    bool verbose; /* each request on standard error, secrets hidden */
};
RESULT http_new(const struct http_options *options, struct http **http_out, struct error *err);

/** A request body from a part of an open file. */
struct http_upload {
    int fd;
    uint64_t offset, length;
};

struct http_request {
    const char *method;
    const char *path;          /* "/v2/...", or a whole URL on the same host (a Location) */
    bool is_session;           /* the path is an upload's Location. Its holder may write into the upload, so it is not shown */
    const char *authorization; /* the header's value, or NULL */
    const char *content_type;  /* or NULL */
    const char *accept;        /* or NULL */
    const char *range;         /* "bytes=5-", or NULL */
    const char *content_range; /* "0-99", or NULL */
    const char *session;       /* of a runner: Sijil-Runner-Session, or NULL */
    const char *repeat_key;    /* Idempotency-Key, or NULL: the same request may be sent again with it, and is done once */
    struct bytes body;
    const struct http_upload *upload;
    /** Takes the body of a 2xx answer piece by piece; NULL: the body goes into response->body. */
    RESULT (*take)(void *context, struct bytes piece, struct error *err);
    void *context;
    /** Called while bytes move, with their number so far in this request; may be NULL. */
    void (*moved)(void *context, uint64_t bytes);
    void *moved_context;
    long wanted, also; /* statuses that count as success for session_call(); `also` may be 0 */
    bool comes_later;  /* 202, too: it is recorded, and comes into force later */
};

#define HTTP_ANSWER_MAX ((size_t)8 << 20) /* more than a manifest of 4 MiB, or a page of a list */

struct http_response {
    long status;
    bool was_cut; /* the connection ended before the answer: it is not known whether the request was done */
    char location[2048], challenge[1024], digest[160], range[64], link[1024], content_type[160], audit[200], request_id[64];
    char retry_after[16];                          /* seconds; "": nothing says that a later try is answered otherwise */
    char nonce[DPOP_NONCE_MAX];                    /* for the next proof; "" without one */
    char log_offset[24], log_size[24], log_end[8]; /* of a run's log */
    char warnings[4096];                           /* texts of Warning headers as they arrived, one a line */
    int64_t length;                                /* of the body; -1: unknown */
    struct buffer body;                            /* of every error; of a 2xx only without `take` */
};

/** Sends one request. ERROR_UNAVAILABLE if no complete answer arrived; an HTTP status is no failure here. */
RESULT http_call(struct http *http, const struct http_request *request, struct http_response *response, struct error *err);
/** Keeps the value of one header line, if it is a known one and there is room. */
void http_response_take(struct http_response *response, struct bytes line);
void http_response_done(struct http_response *response);
#define OWNED_RESPONSE __attribute__((cleanup(http_response_done))) struct http_response
#define RESPONSE       ((struct http_response){.body = BUFFER(HTTP_ANSWER_MAX), .length = -1})

/**
 * From now on each request has a proof of this key (RFC 9449); NULL: none. If the registry wants its newest nonce in it, the request is sent once more: its body was not
 * taken. `key` must outlive the connection.
 */
void http_use_key(struct http *http, const struct ecdsa_key *key);
/** Uses the key of another connection to the same registry, and the nonce that it knows. */
void http_share_key(struct http *http, const struct http *from);

/** Appends `text` percent-encoded for a query. */
RESULT http_escape(struct buffer *buffer, const char *text, struct error *err);

/** When the flag becomes true, a request ends within a second with ERROR_UNAVAILABLE. NULL: no flag. */
void http_give_up_when(struct http *http, const atomic_bool *gives_up);
/** "registry.example:8443" */
const char *http_host(const struct http *http);

void http_free(struct http *http);
DEFINE_OWNED(http);
