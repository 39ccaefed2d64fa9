/*
 * gateway/http/exchange.h -- the HTTP part of a request and its answer, on their connection.
 *
 * Ownership: while an exchange is suspended, it belongs to the worker that has it; at all other times to the event thread of its
 * connection. Only `transfer` is shared, under `mutex`. The last user frees the exchange: the event thread, when libmicrohttpd is done
 * with the request, or a job that still runs at that time. The pipeline's own exchange begins with this struct
 * (gateway/http/callbacks.h).
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
struct runner_certificate;
struct http_callbacks;
struct server;

enum http_phase {
    PHASE_HEAD,      /* the head is arriving, or just arrived */
    PHASE_WORK,      /* suspended: a worker or the pipeline has it */
    PHASE_FAST_PATH, /* the pipeline may have the answer in memory */
    PHASE_GATHER,    /* the body goes into `body` */
    PHASE_STREAM,    /* the body goes through the ring */
    PHASE_ANSWER,    /* there is an answer; the rest of the body is drained first */
    PHASE_SENT       /* libmicrohttpd has the answer */
};

enum http_body_state {
    HTTP_BODY_COMES,
    HTTP_BODY_DONE,
    HTTP_BODY_GIVEN_UP /* the client sends more than drain_size_max; it gets the answer before the end of its body */
};

enum http_end {
    HTTP_GOES_ON,
    HTTP_ENDED, /* libmicrohttpd is done with the request; the connection must not be used any more */
    HTTP_CUT    /* the same, before the whole body had arrived */
};

struct http_exchange {
    const struct http_callbacks *callbacks;
    void *context; /* the pipeline's: struct http_options */
    struct server *server;
    struct connection *connection;
    struct MHD_Connection *mhd;

    struct arena *arena;
    char *request_target; /* as it arrived; NULL: too long */
    size_t request_target_length;
    uint64_t number; /* among the requests of its connection */
    enum method method;
    struct fields headers;
    struct http_framing framing;
    enum http_phase phase;
    enum http_body_state body_state;
    bool is_at_head;             /* an answer can still replace 100 Continue */
    bool is_refused_by_library;  /* libmicrohttpd made the answer itself, as server.c noticed */
    struct work_pool *receivers; /* that pass its body on, and end it; NULL: the server's */
    bool is_right_lost;          /* lost while the body moved: the body was cut off, and no part may be kept */
    uint64_t drained_bytes, body_bytes, sent_bytes;
    struct buffer body; /* gathered */
    struct lease lease; /* of the moving body */

    struct work_job job;
    void (*next)(struct http_exchange *exchange, void *worker_state); /* what the job does */
    int64_t begun_us, queued_ms;                                      /* monotonic */

    pthread_mutex_t mutex; /* for all members below */
    enum http_end end;
    struct transfer transfer;
};

/** The client's address, as libmicrohttpd has it; NULL on the unix socket. Valid while the connection exists. */
const struct sockaddr *http_client(const struct http_exchange *exchange);
/** Thumbprint of the client's certificate (RFC 8705), or "". Valid while the connection exists. */
const char *http_client_confirmation(const struct http_exchange *exchange);

/** "sha256:..." of the certificate (DER) of each authority of clients that the client's certificate leads to, with spaces between, or "". Valid while the connection exists. */
const char *http_client_authorities(const struct http_exchange *exchange);
/** The name of the port that the client has come to, or "". Valid while the server runs. */
const char *http_client_listener(const struct http_exchange *exchange);

/** The names of the client's certificate (RFC 5280, 4.2.1.6), if an authority of clients has signed it: lines "dns:..." and "uri:...". Valid while the connection exists. */
const char *http_client_names(const struct http_exchange *exchange);

/** The client's certificate, if sijil-keyd has made it for a runner; it may have expired. Else NULL. Valid while the connection exists. */
const struct runner_certificate *http_client_runner(const struct http_exchange *exchange);

/** Queues a job for a worker of the pool. False: the queue is full. */
bool http_submit(struct http_exchange *exchange, struct work_pool *pool, void (*next)(struct http_exchange *, void *));
/** Stops the connection until http_resume(). On its event thread. */
void http_suspend(struct http_exchange *exchange);
/** Gives the exchange back to its event thread, which goes on with `phase`. */
void http_resume(struct http_exchange *exchange, enum http_phase phase);
/** The exchange is suspended. Its event thread gathers the body, at most `limit` bytes, and then calls callbacks->gathered().
 *  `is_by_right`: the body moves under a lease. */
void http_gather(struct http_exchange *exchange, size_t limit, bool is_by_right);
/** The exchange is suspended. Each piece of its body goes to callbacks->write() as it arrives. */
void http_stream(struct http_exchange *exchange);
/** The exchange is suspended and has an answer. Reads the first block of the answer's source, and sends the answer. */
void http_answer(struct http_exchange *exchange);
/** The same on the event thread. False: the source has to wait for a disk. */
bool http_answer_directly(struct http_exchange *exchange);
/** Whether the framing of its body is malformed (gateway/http/framer.h). Then nothing of the body counts. */
bool http_is_malformed(const struct http_exchange *exchange);
