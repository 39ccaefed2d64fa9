/*
 * gateway/http/connection.h -- the state of one TCP connection, and the thread that watches all of them.
 *
 * libmicrohttpd limits idle time only. The watcher looks at every connection twice a second. It cuts a connection whose handshake or
 * head takes too long, and one whose body moves too slowly. It asks the kernel (TCP_INFO) how many bytes moved, so the code that
 * moves the bytes counts nothing.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/result.h"
#include "crypto/runner_certificate.h"
#include "gateway/http/authorities.h"
#include "gateway/http/framer.h"
#include "gateway/http/network_quota.h"
#include "gateway/http/proxy_head.h"
#include "gateway/http/transport.h"

struct credentials;
struct server;
struct http_exchange;

enum connection_stage {
    CONNECTION_HANDSHAKE, /* the TLS handshake */
    CONNECTION_WAITING,   /* between requests, or before the first */
    CONNECTION_HEAD,      /* the request line arrived, the headers did not */
    CONNECTION_OURS,      /* the server works; no limit on the client's time */
    CONNECTION_BODY,      /* a request body should arrive */
    CONNECTION_ANSWER     /* the client should take an answer */
};

#define CONNECTION_NAMES_SIZE 512 /* a certificate of a service has one or two names; what does not fit is left out */

struct connection {
    struct connection *next, *previous;
    struct server *server;
    int fd;
    bool is_tcp;
    struct sockaddr_storage client; /* AF_UNSPEC: it came through the unix socket */
    struct proxy_head head;         /* of a load balancer, before TLS */
    struct transport transport;
    bool is_counted;                      /* among all connections of its server */
    struct network_ticket network_ticket; /* counts it among the connections of its address and network */
    struct framer framer;                 /* used by its event thread alone */
    uint64_t requests;                    /* requests that libmicrohttpd has begun; framer.requests counts those that arrived */
    bool must_linger;                     /* the client may still send when the connection is closed */
    struct credentials *credentials;      /* the ones that the handshake used; NULL without TLS */
    uint64_t verified_by;                 /* generation of the authorities that verified the client's certificate; 0: none */
    char confirmation[44];                /* x5t#S256 of the client's certificate, or "" */
    char authorities[AUTHORITIES_TEXT_SIZE]; /* of clients, that it leads to; "": none, or nobody has asked for them */
    bool knows_authorities;                  /* they were asked for when the certificate was verified last */
    const char *listener;                    /* name of the port that it has come to; "": none. Of the server's options */
    char names
        [CONNECTION_NAMES_SIZE]; /* of a certificate that an authority of clients has signed: lines "dns:..." and "uri:..." */
    struct runner_certificate runner; /* of the client's certificate; not_after_ms 0: it is not a runner's */
    struct http_exchange *exchange;   /* the request that libmicrohttpd has begun and not ended; of its event thread */
    _Atomic bool has_requested;
    _Atomic int stage;
    _Atomic int64_t since_ms; /* monotonic; the start of the stage */

    /* Of the watcher alone. */
    int seen_stage;
    int64_t window_ms;
    uint64_t window_bytes;
    bool is_cut;
};

struct connection_limits {
    int64_t idle_ms, handshake_ms, head_ms, window_ms, rate; /* rate: bytes a second */
    int64_t rate_busy;                                       /* for request bodies, while more than `streams_many` arrive */
    int64_t streams_many;
    const _Atomic int *streams;
};

struct watcher;

RESULT watcher_start(const struct connection_limits *limits, struct watcher **watcher_out, struct error *err);
void watcher_stop(struct watcher *watcher);
/** NULL: out of memory. */
struct connection *connection_new(struct watcher *watcher, int fd);
/** Call it before the descriptor is closed. */
void connection_free(struct watcher *watcher, struct connection *connection);
void connection_enter(struct connection *connection, enum connection_stage stage);
/** Cuts one connection. Bytes that the kernel has not sent yet are dropped. */
void watcher_cut(struct watcher *watcher, struct connection *connection);
/** Cuts all connections, when a shutdown takes too long. */
void watcher_cut_all(struct watcher *watcher);
