/* gateway/pipeline/passing_priv.h -- what the files of requests that are passed on share. */
#pragma once

#include "gateway/pipeline/handler.h"
#include "gateway/pipeline/passing.h"
#include "outgoing/call.h"
#include "outgoing/peers.h"

#define PASSING_HEADERS_MAX 16
#define PASSING_URL_SIZE    (PEER_URL_SIZE + PASSING_TARGET_MAX + 1)
#define PASSING_TARGET_MAX  2048

struct passings {
    struct outgoing *outgoing;
    struct peers peers;
    struct work_pool *threads;
    _Atomic int count;
};

/** Where a request goes, and what it comes with. The values of the headers are those of the request, which outlives it. */
struct passing_way {
    struct passings *all;
    struct quota *quota;
    struct quota_ticket tickets[2]; /* among those to the region, and of the organisation */
    const struct peer *peer;
    char url[PASSING_URL_SIZE];
    size_t header_count;
    struct outgoing_header headers[PASSING_HEADERS_MAX];
};
/** Goes on on a thread that may wait for other gateways: no worker does, for all of them would wait for one gateway that is silent. If there is no such thread, it goes on here, and is late. */
void passings_do(struct request *request, void (*next)(struct http_exchange *http, void *worker_state));
/** Does the rest of its handler there, and answers. */
void passings_do_rest(struct request *request);
/** To the gateway of the region, counted until passing_way_leave(). Errors of passing_open(). */
RESULT passing_way_find(const struct request *request, const char *region, bool with_query, struct passing_way *way,
                        struct error *err);
/** NULL and "" add none. */
void passing_way_add(struct passing_way *way, const char *name, const char *value);
/** For `knows` of a call: only a gateway of this region gets the credential of a client. */
bool passing_way_knows(const struct passing_way *way, struct bytes pem);
void passing_way_leave(struct passing_way *way);

/* gateway/pipeline/passing_push.c */
/** In place of the route's handler: the whole request goes to the gateway of another region, and its answer comes back. */
const struct handler *passing_push_handler(void);
/** After the target: whether it does. */
bool passing_push_is_due(const struct request *request);
