/* gateway/http/server_priv.h -- what the parts of the server share. */
#pragma once

#include <microhttpd.h>
#include <stdatomic.h>

#include "gateway/http/server.h"

struct blocks;
struct crowd;
struct lease_keeper;
struct lingerer;
struct tls;
struct watcher;

#define SERVER_DAEMONS 2 /* TLS, and the unix socket */

struct server {
    struct http_options options;
    struct tls *tls;
    struct crowd *crowd;
    struct watcher *watcher;
    struct lease_keeper *leases;
    struct lingerer *lingerer;
    struct blocks *blocks;
    struct MHD_Daemon *daemons[SERVER_DAEMONS];
    unsigned daemon_count;
    bool is_deaf[SERVER_DAEMONS]; /* it does not listen any more */
    unsigned threads;         /* of each daemon */
    int port;
    _Atomic int suspended;    /* connections; MHD must not be stopped before there are none */
    _Atomic int exchanges;
    _Atomic int first_reads;  /* of answers, on threads that others wait for */
    _Atomic bool is_out_of_descriptors; /* libmicrohttpd could not accept somebody, once */
    _Atomic bool is_open;     /* requests are taken in: all of it stands, and it does not end yet */
    _Atomic bool is_draining; /* nobody new may connect, and answers say Connection: close */
    _Atomic bool is_stopping; /* bodies are broken off */
};
