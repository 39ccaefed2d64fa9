/*
 * gateway/http/callbacks.h -- the functions that the server calls for each request: the only way from gateway/http upwards.
 *
 * The pipeline (gateway/pipeline/callbacks.c) implements them. Its exchange begins with a struct http_exchange and has `exchange_size`
 * bytes, zeroed at first. A callback that makes the answer keeps it; `answer` returns it. `worker_state` belongs to the worker of the
 * pool that runs the callback.
 */
#pragma once

#include "gateway/http/exchange.h"

/** Adds a header to the answer. */
typedef void http_header_function(void *context, const char *name, const char *value);

struct http_callbacks {
    size_t exchange_size;

    /* On the event thread, in this order. */
    void (*begin)(struct http_exchange *exchange); /* the request line arrived; arena and context are set */
    /** The head is well-formed. False: an answer was made. `is_open`: the server still takes requests. */
    bool (*admit)(struct http_exchange *exchange, bool is_open);
    void (*start)(struct http_exchange *exchange); /* the exchange is suspended and belongs to the pipeline */
    bool (*fast_path)(
        struct http_exchange *exchange); /* PHASE_FAST_PATH. False: the exchange is suspended and belongs to the pipeline */
    bool (*hold)(struct http_exchange *exchange,
                 int64_t bytes); /* counts memory of a gathered body; negative: given back. False: an answer was made */
    void (*gathered)(struct http_exchange *exchange,
                     struct bytes body); /* the exchange is suspended and belongs to the pipeline */

    /* On a worker. */
    void (*wake)(void *worker_state);                                                      /* before each job */
    bool (*write)(struct http_exchange *exchange, void *worker_state, struct bytes bytes); /* false: an answer was made */
    void (*finish)(struct http_exchange *exchange, void *worker_state,
                   bool is_whole); /* the body ended; the exchange belongs to the pipeline */

    /* On any thread. */
    const struct response *(*answer)(const struct http_exchange *exchange); /* NULL: there is none yet */
    void (*refuse_head)(struct http_exchange *exchange,
                        const struct http_refusal *refusal); /* makes the answer, the last one of the connection */
    void (*refuse_body)(struct http_exchange *exchange, const struct http_refusal *refusal); /* makes the answer */
    void (*fail)(struct http_exchange *exchange, const struct error *err,
                 bool is_told); /* makes the answer; `is_told`: the failure goes into the log too */
    /** "" if the decision still holds, else the rule that denies the request now. */
    void (*right)(const struct http_exchange *exchange, char rule_out[65]);
    /** A number that is another one when rights have changed: then right() is asked at once. NULL: it never changes. */
    uint64_t (*rights)(const struct http_exchange *exchange);

    /* On the event thread, at the end. */
    void (*headers)(const struct http_exchange *exchange, http_header_function *add,
                    void *context); /* adds the headers that every answer has */
    bool (*sending)(struct http_exchange *exchange,
                    unsigned status);              /* the answer goes out. True: its body moves under a lease */
    void (*leave)(struct http_exchange *exchange); /* the client may send its next request, however long the cleaning up takes */
    bool (*ends_on_worker)(const struct http_exchange *exchange);
    /** The last call: frees all but the exchange itself. On a worker if ends_on_worker() asked for one and one was free. */
    void (*end)(struct http_exchange *exchange, void *worker_state, bool is_on_worker);

    /** libmicrohttpd made an answer itself. */
    void (*refused_by_library)(void *context);
};
