/*
 * witness/serve_priv.h -- one request, and the parts that all requests share.
 */
#pragma once

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>

#include "base/work.h"
#include "gateway/http/callbacks.h"
#include "witness/serve.h"

#define WITNESS_HEADERS_MAX 4 /* Content-Type, Cache-Control, Retry-After or Allow */

struct witness_server {
    const struct witness *witness;
    struct work_pool *pool;
    struct server *server;
    _Atomic int64_t gathered; /* bytes of bodies in memory */
    _Atomic int streams;      /* none: gateway/http asks for the number */
};

/* One request; it begins with the part of gateway/http. */
struct witness_exchange {
    struct http_exchange http;
    struct bytes body;       /* gathered */
    struct response *answer; /* &space, once an answer was made */
    struct response space;
    struct field headers[WITNESS_HEADERS_MAX];
    unsigned sent_status;
};
_Static_assert(offsetof(struct witness_exchange, http) == 0, "gateway/http gives its own part back");

static inline struct witness_exchange *witness_exchange_of(struct http_exchange *http)
{
    return (struct witness_exchange *)(void *)http;
}

static inline struct witness_server *witness_server_of(const struct witness_exchange *exchange)
{
    return exchange->http.context;
}

/** Makes the answer, with a copy of `text` in the arena. */
void witness_respond(struct witness_exchange *exchange, unsigned status, const char *type, struct bytes text);
/** The same with a sentence for people. */
void witness_say(struct witness_exchange *exchange, unsigned status, const char *why);
/** The same, 503: it may be tried again in a second. */
void witness_say_later(struct witness_exchange *exchange, const char *why);
void witness_header(struct witness_exchange *exchange, const char *name, const char *value);

/** Takes a request whose head has arrived to its handler. On the event thread; the exchange is suspended. */
void witness_route(struct http_exchange *http);
/** Its body is complete: the same. */
void witness_gathered(struct http_exchange *http, struct bytes body);

extern const struct http_callbacks witness_callbacks;
