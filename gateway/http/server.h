/*
 * gateway/http/server.h -- the HTTP server: libmicrohttpd with TLS 1.3, its limits, and an orderly shutdown.
 *
 * Event threads only copy bytes; the workers given in the options do all other work.
 */
#pragma once

#include <stdatomic.h>

#include "base/network.h"
#include "base/work.h"
#include "gateway/http/http_check.h"
#include "gateway/http/lease.h"
#include "gateway/http/listeners.h"
#include "gateway/http/tls_files.h"

struct http_callbacks;
struct server;

/** The texts belong to the caller and must live as long as the server. */
struct http_options {
    const struct http_callbacks *callbacks; /* gateway/http/callbacks.h */
    void *context;                          /* for the callbacks */
    /** Whether it matters now which authorities of clients a certificate leads to; asked for each request with a certificate. NULL: it never does. */
    bool (*asks_authorities)(void *context);
    /** Other callbacks for requests of this target, with the same context. NULL: none have others. */
    const struct http_callbacks *(*choose)(const char *target);

    const char *listen_address; /* an IP address in figures */
    int listen_port;            /* 0: any */
    struct listeners listeners; /* further ports, at the same address */
    const char *listen_socket;  /* "": none */
    struct networks balancers;  /* their connections begin with a head that names the client: gateway/http/proxy_head.h */
    struct tls_files tls;
    unsigned event_threads; /* 0: as many as cores, at most 4 */

    struct work_pool *readers, *receivers, *senders; /* running; they must run until server_stop() has returned */
    unsigned queue_max;                              /* answers that may wait for a sender */
    int64_t queue_timeout_ms;
    int first_reads_max; /* first blocks of sources that readers and event threads may wait for */

    struct http_limits limits;
    struct lease_limits leases;
    /** On all ports and the unix socket together; of one address; of one network, in percent of all. */
    int64_t connections_max, connections_per_address, connections_per_network;
    int64_t drain_size_max; /* bytes of a refused body that the server reads */
    int64_t idle_s, handshake_s, head_s, shutdown_s, rate_window_s;
    int64_t rate_minimum, rate_minimum_busy; /* bytes a second */
    int64_t streams_many;                    /* with more incoming bodies than this, each needs rate_minimum_busy */
    const _Atomic int *streams;              /* bodies that arrive now */
};

/** Whether the address and port of `options` are free now: listens there, and stops. ERROR_CONFLICT, ERROR_INVALID, ERROR_UNAVAILABLE. */
RESULT server_check_address(const struct http_options *options, struct error *err);
/** Starts to listen. `options` is copied. */
RESULT server_start(const struct http_options *options, struct server **server_out, struct error *err);
/** Reads certificate, key and client authorities again. On failure the old ones stay. No connection is dropped. */
RESULT server_reload(struct server *server, struct error *err);
/** The TCP port of the server. */
int server_port(const struct server *server);
/** Accepts no further connection, lets requests finish for up to shutdown_s, cuts the rest, and frees the server. */
void server_stop(struct server *server);
