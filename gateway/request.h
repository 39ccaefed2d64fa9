/*
 * gateway/request.h -- one HTTP request on its way, and what a handler may do with it.
 *
 * The way is the same for all (gateway/pipeline.c): route -> authenticate -> decide -> record -> handler -> answer.
 * Handlers run on a reader worker, which may block and has a database connection; never on an event thread.
 * All memory of a request is in its arena and goes with it.
 */
#pragma once

#include <sys/socket.h>

#include "audit/sequencer.h"
#include "authz/principal.h"
#include "base/arena.h"
#include "base/json.h"
#include "gateway/response.h"

struct gateway;  /* everything that is shared: gateway/gateway.h */
struct route;    /* a row of gateway/routes.def: gateway/route.h */

enum method { METHOD_GET, METHOD_HEAD, METHOD_POST, METHOD_PUT, METHOD_PATCH, METHOD_DELETE };

struct request {
    struct gateway *gateway;
    const struct route *route;
    enum method method;
    struct arena *arena;
    char id[37];                         /* request id, also in X-Request-Id and in the event */
    struct sockaddr_storage client;
    char client_address[46];
    struct principal principal;

    /* What the route's pattern captured, percent-decoded and checked; NULL if the pattern has no such part. */
    const char *name;                    /* repository, project or organisation */
    const char *reference;               /* tag, digest, upload id, robot id, sequence number */

    size_t pair_count;                   /* what is decided: filled by the route's target function */
    struct action_pair pairs[ACTION_PAIRS_MAX];
    struct permit *permit;               /* set before the handler runs */
    struct bytes body;                   /* for routes with a gathered body, complete */

    struct response *response;           /* the handler's answer */
    void *handler_state;                 /* the handler's own, in the arena */
};

/** The first value of a query argument, percent-decoded; NULL if absent. */
const char *request_argument(const struct request *request, const char *key);
/** The next value of a repeated argument; start with *at = 0. NULL when there is none left. */
const char *request_next_argument(const struct request *request, const char *key, size_t *at);
/** A header's value; NULL if absent. Headers that the checks allow once only are found once. */
const char *request_header(const struct request *request, const char *name);
const char *request_next_header(const struct request *request, const char *name, size_t *at);
