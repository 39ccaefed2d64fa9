/*
 * gateway/http/exchange.h -- a request and its answer on their connection, as far as that is HTTP.
 *
 * Who may touch it: while it is suspended, the worker that has it; else the connection's event thread. Only `transfer` is
 * shared, under `mutex`. An exchange is freed by whoever is last: the event thread when libmicrohttpd is done with the request, or the
 * job that still runs then. Those above have an object of their own, which begins with this one (gateway/http/upper.h).
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "base/arena.h"
#include "base/work.h"
#include "gateway/http/http_check.h"
#include "gateway/http/lease.h"
#include "gateway/http/transfer.h"

#define EXCHANGE_MEMORY ((size_t)1 << 20) /* arena of one request; bodies are not in it */

struct MHD_Connection;
struct connection;
struct http_upper;
struct server;

enum http_phase {
    PHASE_HEAD,   /* the head is arriving, or just arrived */
    PHASE_WORK,   /* suspended: a worker or those above have it */
    PHASE_RECALL, /* those above may have the answer at hand */
    PHASE_GATHER, /* the body goes into `body` */
    PHASE_STREAM, /* the body goes through the ring */
    PHASE_ANSWER, /* there is an answer; what is left of the body is drained first */
    PHASE_SENT    /* libmicrohttpd has the answer */
};

enum http_body_state {
    HTTP_BODY_COMES,
    HTTP_BODY_DONE,
    HTTP_BODY_GIVEN_UP /* the client sends more than we are willing to throw away, and is answered before the end */
};

enum http_end {
    HTTP_GOES_ON,
    HTTP_ENDED, /* libmicrohttpd is done with the request, and its connection is not to be touched */
    HTTP_CUT    /* the same, before the whole body was there */
};

struct http_exchange {
    const struct http_upper *upper;
    void *context;               /* of those above: struct http_options */
    struct server *server;
    struct connection *connection;
    struct MHD_Connection *mhd;

    struct arena *arena;
    char *target;                /* as it came; NULL if it was too long to keep */
    size_t target_length;
    uint64_t number;             /* of its connection's requests */
    enum method method;
    struct fields headers;
    struct http_framing framing;
    enum http_phase phase;
    enum http_body_state body_state;
    bool is_at_head;             /* the answer can still go out instead of 100 Continue */
    bool is_refused_by_library;  /* libmicrohttpd answered by itself, which server.c told */
    bool is_right_lost;          /* while its body moved: it was cut off, and nothing of it may stay */
    uint64_t drained_bytes, body_bytes, sent_bytes;
    struct buffer body;          /* gathered */
    struct lease lease;          /* of the body that moves */

    struct work_job job;
    void (*next)(struct http_exchange *exchange, void *worker_state); /* what the job does */
    int64_t begun_us, queued_ms; /* monotonic */

    pthread_mutex_t mutex;       /* for all below */
    enum http_end end;
    struct transfer transfer;
};

/** Where the request came from, as libmicrohttpd has it; NULL on the unix socket. While its connection is there. */
const struct sockaddr *http_client(const struct http_exchange *exchange);
/** Thumbprint of the client's certificate (RFC 8705), or "". While its connection is there. */
const char *http_client_confirmation(const struct http_exchange *exchange);

/** Queues a job, which runs on a worker of the pool; false when there are too many. */
bool http_submit(struct http_exchange *exchange, struct work_pool *pool, void (*next)(struct http_exchange *, void *));
/** The connection stands still until http_resume(), whoever has the exchange meanwhile. On its event thread. */
void http_suspend(struct http_exchange *exchange);
/** Hands the exchange back to its event thread, which goes on with `phase`. */
void http_resume(struct http_exchange *exchange, enum http_phase phase);
/** The exchange is suspended: its event thread takes in the body, at most so many bytes, and then tells upper->gathered(). A body that
 *  may move by a right only is under a lease meanwhile. */
void http_gather(struct http_exchange *exchange, size_t limit, bool is_by_right);
/** The exchange is suspended: its body is passed on as it comes, with upper->write(). */
void http_stream(struct http_exchange *exchange);
/** Those above have made the answer, and the exchange is suspended: reads the first block of a source, and sends it. */
void http_answer(struct http_exchange *exchange);
/** The same on the event thread. False: the source has to be waited for. */
bool http_answer_at_once(struct http_exchange *exchange);
/** The bytes that frame its body are wrong, and nothing of it may count (gateway/http/framer.h). */
bool http_is_malformed(const struct http_exchange *exchange);
