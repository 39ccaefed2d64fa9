/*
 * gateway/http/link_priv.h -- one TCP connection, watched from outside.
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
#include "gateway/http/inlet.h"
#include "gateway/http/quota.h"
#include "gateway/http/transport_priv.h"

struct credentials;
struct exchange;

enum link_stage {
    LINK_HANDSHAKE, /* of TLS */
    LINK_WAITING, /* between requests, or before the first */
    LINK_HEAD,    /* the request line is here, the headers are not */
    LINK_OURS,    /* we work; the client may take its time */
    LINK_BODY,    /* a body should arrive */
    LINK_ANSWER   /* an answer should leave */
};

struct link {
    struct link *next, *previous;
    int fd;
    bool is_tcp;
    struct transport transport;
    struct quota_ticket place;       /* among the connections of its network */
    struct inlet inlet;              /* its event thread's */
    uint64_t requests;               /* that libmicrohttpd has begun, as inlet.requests counts those that came */
    bool must_linger;                /* the client may still be sending when it is closed */
    struct credentials *credentials; /* that its handshake was made with; NULL without TLS */
    uint64_t verified_by;            /* generation of the authorities that judged the client's certificate; 0: none */
    char confirmation[44];           /* x5t#S256 of it, or "" */
    struct exchange *exchange;       /* the request that libmicrohttpd has begun and not ended; its event thread's */
    _Atomic bool has_requested;
    _Atomic int stage;
    _Atomic int64_t since_ms;        /* monotonic: when the stage began */

    /* The watcher's own. */
    int seen_stage;
    int64_t window_ms;
    uint64_t window_bytes;
    bool is_cut;
};

struct link_limits {
    int64_t idle_ms, handshake_ms, head_ms, window_ms, rate; /* rate: bytes a second */
    int64_t rate_busy;                         /* of bodies that come in, while more than `streams_many` do */
    int64_t streams_many;
    const _Atomic int *streams;
};

struct watcher;

RESULT watcher_start(const struct link_limits *limits, struct watcher **watcher_out, struct error *err);
void watcher_stop(struct watcher *watcher);
/** NULL when memory is out. */
struct link *link_new(struct watcher *watcher, int fd);
/** Before the descriptor is closed. */
void link_free(struct watcher *watcher, struct link *link);
void link_enter(struct link *link, enum link_stage stage);
/** Cuts one, and what the kernel has to send for it is thrown away. */
void watcher_cut(struct watcher *watcher, struct link *link);
/** Cuts all connections: for the end of a shutdown that took too long. */
void watcher_cut_all(struct watcher *watcher);
