/*
 * gateway/pipeline/handler.h -- how to write a handler.
 *
 * A handler does one of three things. It makes an answer (gateway/pipeline/response.h) and returns success. Or it returns a failure,
 * which one table turns into the answer (gateway/pipeline/failure.c). Or it makes a precise error answer and returns success. It
 * runs on a worker and may use the worker's database connection until it returns. `release` frees everything that it keeps outside
 * the arena.
 *
 * A handler that has to wait for something without a notification releases the worker with request_wait().
 */
#pragma once

#include "gateway/pipeline/request.h"
#include "gateway/pipeline/response.h"
#include "gateway/pipeline/schema.h"
#include "storage/lookup.h"
#include "storage/pg.h"

/**
 * Fills request->pairs (one to four) from name, reference, arguments and headers, and from the body if it was gathered. It runs before
 * the decision, so it must reveal nothing. It makes an answer only for input that is malformed for every caller (400, or 404 for a name
 * that can't exist). gateway/pipeline/resolve.h gives ids and home region, and says what may be looked up; the pipeline finds ids of
 * repositories. Nothing is permitted yet, so a target function gets a lookup instead of a connection. The lookup only tells what a name
 * stands for. On an event thread the lookup is NULL.
 */
typedef RESULT route_target(struct request *request, struct lookup *lookup, struct error *err);

typedef RESULT handler_function(struct request *request, struct pg *pg, struct error *err);

enum pinning {
    PINNED_NOTHING,
    PINNED_LATER, /* it needs a lookup */
    PINNED_DIGEST
};

/**
 * `decides_on_event_thread`: the decision needs memory only, so it is made without a worker, which saves two hand-overs between threads. The target
 * is called on an event thread, with lookup NULL. `fast_path` does the same for the answer, after the record.
 * False: it did nothing, and `handle` is called on a worker.
 *
 * `instead` is for a request that is denied but not hidden. It replaces the first pair by another one, of an action that the route lists.
 * If that is allowed, the request goes on with it; else the first denial stands.
 *
 * `pin` is for a request that is denied but not hidden, before `instead`: it may replace its reference, and the detail of its first pair, by the digest that the reference stands
 * for, if an exception could be for that. Then it is decided again; if that denies, too, the first denial stands.
 *
 * `search` is for routes that record first. It returns a change that reads rows for the handler in the transaction of the record, which
 * saves a round trip. It is called when the request is allowed, on the thread that decided, and again if the decision was stale. It changes
 * nothing. If it returns NULL, or the answer of the database was lost, the handler reads the rows itself. A handler with `refused` may return
 * a change that changes rows, too: if the change fails, the event says so, and `refused` makes the answer in place of `handle`.
 *
 * `takes_passed`: the route is also served to gateways of other regions, for clients of theirs (gateway/pipeline/passing.h). `passes_on`: if another gateway has the
 * region of the first pair, the request is passed on there as a whole, once it is decided; the handler is not called.
 *
 * Routes without a streamed body have only `handle`. Routes with one have `begin`, `write`, `finish`, `cut`:
 *
 *   begin    after the decision, before the first byte is taken. If it makes an answer, or fails, that is the answer: the body is drained
 *            (up to the limit `drain_size`), and only `release` is called after it.
 *   write    with the next bytes, in order, at most 128 KiB; on a worker, never two at a time for one request. After a failure, or after
 *            it made an answer, the rest is drained.
 *   finish   after the whole body was written; makes the answer.
 *   cut      instead of finish, if the client went away or its body is malformed. Keeps the part that is worth keeping.
 *   release  always last, after the answer was sent or the connection ended, also if only `search` was called. Frees all that is not in
 *            the arena.
 */
struct handler {
    handler_function *handle;
    void (*instead)(struct request *request);
    RESULT (*pin)(struct request *request, struct lookup *lookup, enum pinning *pinning_out, struct error *err);
    struct change *(*search)(struct request *request);
    void (*refused)(struct request *request, const struct error *why);
    bool (*fast_path)(struct request *request);
    bool decides_on_event_thread;
    bool takes_passed, passes_on;
    bool is_long; /* its work grows with the content of an organisation: one at a time for each organisation */
    handler_function *begin;
    RESULT (*write)(struct request *request, struct pg *pg, struct bytes bytes, struct error *err);
    handler_function *finish;
    void (*cut)(struct request *request, struct pg *pg);
    void (*release)(struct request *request);
};

/** The target of probes, which decide nothing; never called. */
route_target target_none;

/* A row of the table declares the handler, the target and the schemas that it names. */
#define ROUTE(row, methods, pattern, credential, record, body, limit, function, served, ...) \
    extern const struct handler served;                                                      \
    route_target function;
#define ABOUT(row, parameters, body, answer, ...) extern const struct schema body, answer;
#include "gateway/routes.def"
