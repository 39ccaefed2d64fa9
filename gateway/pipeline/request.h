/*
 * gateway/pipeline/request.h -- one HTTP request on its way, and what a handler may do with it.
 *
 * The way is the same for all (gateway/pipeline/pipeline.h): route -> authenticate -> decide -> record -> handler -> answer.
 * Handlers run on a worker, which may block and has a database connection; what is at hand in memory may be answered on
 * an event thread (gateway/pipeline/handler.h).
 * All memory of a request is in its arena and goes with it.
 */
#pragma once

#include <sys/socket.h>

#include "audit/sequencer.h"
#include "authz/principal.h"
#include "base/arena.h"
#include "base/json.h"
#include "gateway/http/message.h"

struct gateway;  /* everything that is shared: gateway/gateway.h */
struct route;    /* a row of gateway/routes.def: gateway/pipeline/route.h */
struct authentication; /* authz/authenticate.h */
struct asked_label;    /* policy/label.h */

struct request {
    struct gateway *gateway;
    const struct route *route;
    enum method method;
    struct arena *arena;
    char id[37];                         /* request id, also in X-Request-Id and in the event */
    char trace[33];                      /* trace id of the caller's traceparent (W3C Trace Context), or "" */
    struct sockaddr_storage client;
    char client_address[46];             /* "127.0.0.1", or "unix" */
    char client_confirmation[44];        /* x5t#S256 of the client's certificate (RFC 8705), or "" */
    struct principal principal;
    const struct authentication *authentication; /* what the credential came to; NULL for probes */

    /* What the route's pattern captured, percent-decoded and checked; NULL if the pattern has no such part. */
    const char *name;                    /* repository, project or organisation */
    const char *reference;               /* tag, digest, upload id, robot id, sequence number */

    struct fields headers, arguments;    /* use the functions below */

    size_t pair_count;                   /* what is decided: filled by the route's target function */
    struct action_pair pairs[ACTION_PAIRS_MAX];
    const struct asked_label *asked;     /* a label that the first pair would give to its place; NULL: none */
    struct permit *permit;               /* RECORD_FIRST: set before the handler runs; else by request_record() */
    struct bytes body;                   /* for routes with a gathered body, complete */

    unsigned waits;                      /* how often request_wait() was called for it */
    int64_t wait_ms;                     /* what the handler asked for last */
    bool is_on_worker;                   /* which may block; else this is an event thread (gateway/pipeline/handler.h) */
    bool is_right_lost;                  /* while its body moved: it was cut off, and nothing of it may stay */
    bool speaks_oci;                     /* below /v2: errors are OCI's, not RFC 9457's */
    struct response *response;           /* the answer, once one was made (gateway/pipeline/response.h) */
    struct response *blank;              /* where it is made; the server's own, as is the next */
    const struct response_source *source; /* of an answer that was made; closed with the request */
    void *handler_state;                 /* the handler's own, in the arena */
};

/** The first value of a query argument, percent-decoded; NULL if absent. */
const char *request_argument(const struct request *request, const char *key);
/** The next value of a repeated argument; start with *at = 0. NULL when there is none left. */
const char *request_next_argument(const struct request *request, const char *key, size_t *at);
/** A header's value; NULL if absent. Headers that the checks allow once only are found once. */
const char *request_header(const struct request *request, const char *name);
const char *request_next_header(const struct request *request, const char *name, size_t *at);

/**
 * For `handle`, which then returns success: the request waits without a worker. If there is an answer, it goes out after that; if
 * there is none, `handle` is called once more, on a worker. For at most some seconds: a server that ends waits for it.
 */
void request_wait(struct request *request, int64_t milliseconds);

/** One pair more for the decision; the resource is zeroed but for its name. Asserts that there is room. */
struct resource *request_add_pair(struct request *request, enum action action, const char *name);

/**
 * For routes that are RECORD_WITH_CHANGE: submits the request's decision together with `change` (NULL: an event
 * alone), waits, and sets request->permit. Decides again when the decision went stale. Blocks: workers only. May be
 * called again with another change after it failed, and (as a further event under the same permit) after it succeeded.
 * Errors: those of the change; ERROR_DENIED when the fresh decision denies (the answer is then made from it);
 * ERROR_UNAVAILABLE when the log can't be written. On failure nothing was changed, but for ERROR_UNCERTAIN: nobody knows.
 */
RESULT request_record(struct request *request, struct change *change, struct error *err)
    __attribute__((nonnull(1, 3)));

/**
 * The same for other pairs than those that were decided, of actions that the route lists: decides and records them by
 * themselves. After a failure, also a denial, the request's own decision stands as if nothing had been asked; after a
 * success the pairs and the permit are the new ones. Mounting needs it: what can't be mounted is uploaded.
 */
RESULT request_record_instead(struct request *request, const struct action_pair *pairs, size_t pair_count,
                              struct change *change, struct error *err) __attribute__((nonnull));

/**
 * Decides on one other pair, of an action that the route lists, and records it by itself if it is denied; what is allowed is not
 * recorded, and permits nothing. The request's own decision stands as if nothing had been asked. For what a request names at a
 * place that its own event may say nothing of. Errors: ERROR_LIMIT when the denial was only counted; ERROR_UNAVAILABLE.
 */
RESULT request_record_denial(struct request *request, const struct action_pair *pair, struct error *err) __attribute__((nonnull));

/**
 * A later event of an operation that was permitted: a checkpoint or the end of an upload. `change` may be NULL; it
 * runs in the event's transaction. `note` is at most 79 characters, without personal data. Blocks: workers only.
 */
RESULT request_record_outcome(struct request *request, enum outcome outcome, const char *note,
                              struct change *change, struct error *err) __attribute__((nonnull(1, 3, 5)));
