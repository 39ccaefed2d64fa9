/*
 * runner/calls/start.h -- the answer to a node that is ready to start: the other nodes of the attempt, once all are ready.
 *
 * The registry is not believed: runner/order/order_peers.h checks leases and certificates.
 */
#pragma once

#include "base/json.h"

#define START_ANSWER_MAX ((size_t)4 << 20) /* bytes: a lease and a certificate have some 4 KiB, and there are 255 at most */
#define START_PEERS_MAX  255               /* docs/formats/run.md: an order has at most 256 nodes */

struct start_peer {
    int64_t node;
    const char *listen;              /* ADDRESS:PORT; NULL: the nodes don't reach each other */
    const char *lease, *certificate; /* the envelopes */
};
struct start_answer {
    bool is_ready;
    int64_t every_ms; /* when it is not ready: until the next question; 200 ms to 10 s */
    size_t count;
    struct start_peer *peers; /* owned; its texts are views of `json` */
    json_t *json;             /* owned */
};
/** ERROR_INVALID names the member that is wrong; ERROR_LIMIT, ERROR_NO_MEMORY. Unknown members are skipped. */
RESULT start_answer_read(struct bytes text, struct start_answer *answer_out, struct error *err);
void start_answer_done(struct start_answer *answer);
