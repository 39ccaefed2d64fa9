/*
 * gateway/http/lease.h -- how long a body may move before the right to it is decided again.
 *
 * A body can take hours, and rights can change in that time. So a decision holds for a number of bytes or a time, whichever ends first, and at most
 * until rights have changed. Then callbacks->right() decides again from memory. A body without a right is cut off, also while no byte moves, and one event records
 * how many bytes had moved.
 *
 * The rule: between lease_begin() and lease_end() no thread changes the facts that the right is decided on.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/result.h"

struct http_exchange;
struct server;

struct lease {
    struct lease *next, *previous; /* the leases that end later and earlier; under the renewer's mutex */
    bool is_held;                  /* it is in the renewer's list; under the mutex */
    int64_t ends_ms;               /* monotonic; under the mutex */
    uint64_t size;                 /* bytes of the body so far; of the thread that moves it */
    uint64_t ends_size;            /* at this size the right is decided again; of the same thread */
    _Atomic bool is_lost;
    char rule[65]; /* that denied the right; written once, before is_lost */
};

struct lease_limits {
    int64_t time_ms, size;
};

struct lease_renewer;

/** Starts the thread that ends leases by time. */
RESULT lease_renewer_start(struct server *server, const struct lease_limits *limits, struct lease_renewer **renewer_out,
                           struct error *err);
/** Must be called after all leases ended. */
void lease_renewer_stop(struct lease_renewer *renewer);

/** The body begins to move; from now on its connection may be cut. Before the exchange goes to another thread. */
void lease_begin(struct http_exchange *exchange);
/** Counts moved bytes, and decides again when that is due. False: the right is lost, and no further byte may move. */
bool lease_move(struct http_exchange *exchange, uint64_t bytes);
/** The body or its connection ended. False: the right was lost before. May be called without lease_begin(). */
bool lease_end(struct http_exchange *exchange);
