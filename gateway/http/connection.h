/*
 * gateway/http/connection.h -- one TCP connection, watched from outside.
 *
 * libmicrohttpd knows idle time only. A thread of ours looks at every connection twice a second and cuts those that
 * take too long for their handshake or their head, or move bytes too slowly; how many bytes moved is asked of the kernel (TCP_INFO), so
 * that the path of the bytes does not count anything.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/result.h"
#include "gateway/http/framer.h"
#include "gateway/http/quota.h"
#include "gateway/http/transport.h"

struct credentials;
struct http_exchange;

enum connection_stage {
    CONNECTION_HANDSHAKE, /* of TLS */
    CONNECTION_WAITING, /* between requests, or before the first */
    CONNECTION_HEAD,    /* the request line is here, the headers are not */
    CONNECTION_OURS,    /* we work; the client may take its time */
    CONNECTION_BODY,    /* a body should arrive */
    CONNECTION_ANSWER   /* an answer should leave */
};

struct connection {
    struct connection *next, *previous;
    int fd;
    bool is_tcp;
    struct transport transport;
    struct quota_ticket place;       /* among the connections of its network */
    struct framer framer;            /* its event thread's */
    uint64_t requests;               /* that libmicrohttpd has begun, as framer.requests counts those that came */
    bool must_linger;                /* the client may still be sending when it is closed */
    struct credentials *credentials; /* that its handshake was made with; NULL without TLS */
    uint64_t verified_by;            /* generation of the authorities that judged the client's certificate; 0: none */
    char confirmation[44];           /* x5t#S256 of it, or "" */
    struct http_exchange *exchange;       /* the request that libmicrohttpd has begun and not ended; its event thread's */
    _Atomic bool has_requested;
    _Atomic int stage;
    _Atomic int64_t since_ms;        /* monotonic: when the stage began */

    /* The watcher's own. */
    int seen_stage;
    int64_t window_ms;
    uint64_t window_bytes;
    bool is_cut;
};

struct connection_limits {
    int64_t idle_ms, handshake_ms, head_ms, window_ms, rate; /* rate: bytes a second */
    int64_t rate_busy;                         /* of bodies that come in, while more than `streams_many` do */
    int64_t streams_many;
    const _Atomic int *streams;
};

struct watcher;

RESULT watcher_start(const struct connection_limits *limits, struct watcher **watcher_out, struct error *err);
void watcher_stop(struct watcher *watcher);
/** NULL when memory is out. */
struct connection *connection_new(struct watcher *watcher, int fd);
/** Before the descriptor is closed. */
void connection_free(struct watcher *watcher, struct connection *connection);
void connection_enter(struct connection *connection, enum connection_stage stage);
/** Cuts one, and what the kernel has to send for it is thrown away. */
void watcher_cut(struct watcher *watcher, struct connection *connection);
/** Cuts all connections: for the end of a shutdown that took too long. */
void watcher_cut_all(struct watcher *watcher);
