/*
 * gateway/http/lease.h -- for how long a body may move before its right is decided again.
 *
 * A body can take hours, and what was decided at its head may not be so any more. So what was decided holds for so many
 * bytes or so much time, whichever ends first; then those above are asked again (upper->right), who answer from memory. A body whose right is gone is cut off, also when nothing moves, and one event says how much had gone.
 *
 * The rule: between lease_begin() and lease_end() nobody changes what the right was decided on.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/result.h"

struct http_exchange;
struct server;

struct lease {
    struct lease *next, *previous;  /* the one that ends later, and the one that ends earlier; under the keeper's mutex */
    bool is_held;                   /* it is among them; under the mutex */
    int64_t ends_ms;                /* monotonic; under the mutex */
    uint64_t size;                  /* of the body, so far: of the thread that moves it */
    uint64_t ends_size;             /* when the body is so large, it is decided again; of the same thread */
    _Atomic bool is_lost;
    char rule[65];                  /* why it was lost; written once, before is_lost */
};

struct lease_limits {
    int64_t time_ms, size;
};

struct lease_keeper;

/** Starts the thread that ends leases by time. */
RESULT lease_keeper_start(struct server *server, const struct lease_limits *limits, struct lease_keeper **keeper_out,
                          struct error *err);
/** No lease is held any more. */
void lease_keeper_stop(struct lease_keeper *keeper);

/** The body of this exchange begins to move; its connection may be cut from now on. Before the exchange is given to another thread. */
void lease_begin(struct http_exchange *exchange);
/** So many bytes more moved; decides again when that is due. False: the right is gone, and no byte may follow. */
bool lease_move(struct http_exchange *exchange, uint64_t bytes);
/** The body is over, or the connection is. False: the right was lost before. Also where none was begun. */
bool lease_end(struct http_exchange *exchange);
