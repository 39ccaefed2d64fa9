/*
 * gateway/http/server.h -- the HTTP server: libmicrohttpd with TLS 1.3, its limits, and an orderly end.
 *
 * Event threads copy bytes and nothing else; all else runs on the workers that it is given.
 */
#pragma once

#include <stdatomic.h>

#include "base/work.h"
#include "gateway/http/http_check.h"
#include "gateway/http/lease.h"
#include "gateway/http/tls_files.h"

struct http_upper;
struct server;

/** Texts stay the caller's, for as long as the server lives. */
struct http_options {
    const struct http_upper *upper;     /* who answers: gateway/http/upper.h */
    void *context;                      /* theirs */

    const char *listen_address;         /* an IP address in figures */
    int listen_port;                    /* 0: any */
    const char *listen_socket;          /* "": none */
    struct tls_files tls;
    unsigned event_threads;             /* 0: as many as cores, at most 4 */

    struct work_pool *readers, *movers, *senders; /* they run already, and until server_stop() returned */
    unsigned queue_max;                 /* answers that wait for a sender */
    int64_t queue_timeout_ms;
    int first_reads_max;                /* first blocks of sources that are waited for on threads of others */

    struct http_limits limits;
    struct lease_limits leases;
    int64_t connections_max, connections_per_address, connections_per_network; /* the last one in percent of the first */
    int64_t drain_size_max;             /* bytes of a refused body that are read */
    int64_t idle_s, handshake_s, head_s, shutdown_s, rate_window_s;
    int64_t rate_minimum, rate_minimum_busy; /* bytes a second */
    int64_t streams_many;               /* bodies that come in; with more of them they have to come with rate_minimum_busy */
    const _Atomic int *streams;         /* how many there are now */
};

/** Listens. `options` is copied. */
RESULT server_start(const struct http_options *options, struct server **server_out, struct error *err);
/** Reads certificate, key and client authorities again; on failure the old ones stay. Drops no connection. */
RESULT server_reload(struct server *server, struct error *err);
/** The TCP port that is listened on. */
int server_port(const struct server *server);
/** Accepts nothing more, lets requests finish for up to shutdown_s, then cuts them; frees the server. */
void server_stop(struct server *server);
