/*
 * gateway/http/upper.h -- what the server asks of those above it: the only way from gateway/http upwards.
 *
 * An exchange of theirs begins with a struct http_exchange and is `exchange_size` bytes, zeroed at first. Functions that make the answer
 * keep it; `answer` says which one it is. `worker_state` is what the pool's worker keeps.
 */
#pragma once

#include "gateway/http/exchange.h"

/** Adds a header to what is sent. */
typedef void http_header_function(void *context, const char *name, const char *value);

struct http_upper {
    size_t exchange_size;

    /* On the event thread, in this order. */
    void (*begin)(struct http_exchange *exchange);                   /* the request line is here; arena and context are set */
    /** The head is good. False: an answer was made. `is_open`: the server takes requests in. */
    bool (*admit)(struct http_exchange *exchange, bool is_open);
    void (*start)(struct http_exchange *exchange);                   /* the exchange is suspended, and theirs */
    bool (*recall)(struct http_exchange *exchange);                  /* PHASE_RECALL. False: the exchange is suspended, and theirs */
    bool (*hold)(struct http_exchange *exchange, int64_t bytes);     /* memory of a gathered body: more, or less. False: an answer was made */
    void (*gathered)(struct http_exchange *exchange, struct bytes body); /* the exchange is suspended, and theirs */

    /* On a worker. */
    void (*wake)(void *worker_state);                                /* before each job */
    bool (*write)(struct http_exchange *exchange, void *worker_state, struct bytes bytes); /* false: an answer was made */
    void (*finish)(struct http_exchange *exchange, void *worker_state, bool is_whole);     /* the body ended; the exchange is theirs */

    /* On any thread. */
    const struct response *(*answer)(const struct http_exchange *exchange); /* NULL: there is none yet */
    void (*refuse_head)(struct http_exchange *exchange, const struct http_refusal *refusal); /* makes the answer, which is the last one */
    void (*refuse_body)(struct http_exchange *exchange, const struct http_refusal *refusal); /* makes the answer */
    void (*fail)(struct http_exchange *exchange, const struct error *err, bool is_told);     /* makes the answer; told: in the log, too */
    /** "" if what was decided still holds, else the rule that says why not. */
    void (*right)(const struct http_exchange *exchange, char rule_out[65]);

    /* On the event thread, at the end. */
    void (*headers)(const struct http_exchange *exchange, http_header_function *add, void *context); /* what each answer has beside its own */
    bool (*sending)(struct http_exchange *exchange, unsigned status); /* the answer goes out. True: its body moves by a right only */
    void (*leave)(struct http_exchange *exchange);                   /* its client may ask again, however long it takes to clear up behind it */
    bool (*ends_on_worker)(const struct http_exchange *exchange);
    /** The last call: gives back all but the exchange itself. On a worker if that was wanted and one was free. */
    void (*end)(struct http_exchange *exchange, void *worker_state, bool is_on_worker);

    /** libmicrohttpd answered by itself. */
    void (*refused_by_library)(void *context);
};
