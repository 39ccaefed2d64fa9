/*
 * crypto/keyd_client_priv.h -- one call to sijil-keyd. A call holds a connection of the pool until the reply is copied.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "crypto/keyd_protocol.h"

struct keyd_connection;

struct keyd_call {
    struct keyd_client *client;
    struct keyd_connection *connection;
    struct keyd_reply reply; /* its views point into the connection's memory */
};

/** The sijil-keyd of regions (crypto/keyd_routes.c). */
struct keyd_routes {
    pthread_mutex_t lock; /* of adding, and of `why` */
    atomic_size_t count;
    struct keyd_route {
        char region[64];
        struct keyd_client *client;      /* NULL: this gateway reaches none */
        atomic_bool is_open, is_dropped; /* dropped: as if it were not there */
        char why[160];                   /* it is not open */
        char lacks[160];                 /* there is no client */
    } each[KEYD_REGIONS_MAX];
};
struct keyd_routes *keyd_client_routes(struct keyd_client *client);
/** Another client with the same timeout. */
RESULT keyd_client_like(const struct keyd_client *client, const char *socket_path, struct keyd_client **client_out,
                        struct error *err);
/** Who has the keys of a region. ERROR_UNAVAILABLE: it is closed. */
RESULT keyd_client_of(struct keyd_client *client, const char *region, struct keyd_client **found_out, struct error *err);

/** Wipes the message and returns the connection to the pool. Legal for a call that never began. */
void keyd_call_done(struct keyd_call *call);
#define OWNED_CALL __attribute__((cleanup(keyd_call_done))) struct keyd_call

/** Sends `request` and waits for its reply. A failure that keyd reports is returned as the call's failure. */
RESULT keyd_call(struct keyd_client *client, struct keyd_request *request, struct keyd_call *call, struct error *err);
