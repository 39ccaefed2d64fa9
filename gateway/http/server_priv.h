/* gateway/http/server_priv.h -- the state that the files of the server share. */
#pragma once

#include <microhttpd.h>
#include <stdatomic.h>

#include "gateway/http/server.h"

struct blocks;
struct network_quota;
struct lease_renewer;
struct lingerer;
struct tls;
struct watcher;

#define SERVER_DAEMONS (2 + LISTENERS_MAX) /* TLS on each port, and the unix socket */

struct server {
    struct http_options options;
    struct tls *tls;
    struct network_quota *network_quota;
    struct watcher *watcher;
    struct lease_renewer *leases;
    struct lingerer *lingerer;
    struct blocks *blocks;
    struct MHD_Daemon *daemons[SERVER_DAEMONS];
    unsigned daemon_count;
    bool is_deaf[SERVER_DAEMONS]; /* it does not listen any more */
    unsigned threads;             /* of each daemon */
    int port;
    _Atomic int64_t connections; /* on all ports and the unix socket: at most connections_max */
    _Atomic int suspended;       /* connections; MHD must not be stopped before this is 0 */
    _Atomic int exchanges;
    _Atomic int first_reads;            /* first blocks of answers that are read on readers or event threads */
    _Atomic bool is_out_of_descriptors; /* libmicrohttpd once could not accept a connection */
    _Atomic bool is_open;               /* the server takes requests: it is complete, and shutdown has not reached its end */
    _Atomic bool is_draining;           /* no new connections; answers say Connection: close */
    _Atomic bool is_stopping;           /* bodies are aborted */
};

/** The most connections of a port. While there is a unix socket, a few are left for it: whoever looks why nobody can connect comes through it. */
int64_t server_connections_of_port(const struct http_options *options);
/** Whether a connection from this address may come. Called before it is accepted. */
bool connection_may_come(const struct server *server, const struct sockaddr *address);
/**
 * A connection was accepted. NULL: it is not served, because there is no memory, no room for its framer, or no share left for its address or
 * network; it ends.
 */
struct connection *connection_arrives(struct server *server, struct MHD_Connection *mhd);
/** Before the descriptor is closed. */
void connection_leave(struct server *server, struct MHD_Connection *mhd, struct connection *connection);
