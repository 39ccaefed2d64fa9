/*
 * gateway/pipeline/request.h -- one HTTP request, and the functions that a handler may call for it.
 *
 * All requests pass the same steps (gateway/pipeline/pipeline.c): route -> authenticate -> decide -> record -> handler -> answer.
 * Handlers run on a worker, which may block and has a database connection; an answer from memory may be made on an event thread
 * (gateway/pipeline/handler.h).
 * All memory of a request is in its arena and is freed with it.
 */
#pragma once

#include <sys/socket.h>

#include "audit/sequencer.h"
#include "authz/principal.h"
#include "base/arena.h"
#include "base/json.h"
#include "gateway/http/authorities.h"
#include "gateway/http/message.h"
#include "registry/recorder.h"

struct gateway;            /* the shared parts: gateway/pipeline/gateway.h */
struct dpop_proof;         /* authz/dpop.h */
struct route;              /* a row of gateway/routes.def: gateway/pipeline/route.h */
struct authentication;     /* authz/authenticate.h */
struct trust_use;          /* authz/trust_login.h */
struct asked_label;        /* policy/label.h */
struct runner_certificate; /* crypto/runner_certificate.h */
struct enrolled_runner;    /* gateway/pipeline/runner_gate.h */
struct policy_client;      /* policy/set.h */
struct run_grant;          /* gateway/pipeline/run_gate.h */
struct repeat;             /* gateway/pipeline/repeat_priv.h */

struct request {
    struct gateway *gateway;
    const struct route *route;
    enum method method;
    struct arena *arena;
    char id[37];    /* request id, also in X-Request-Id and in the event */
    char trace[33]; /* trace id of the caller's traceparent (W3C Trace Context), or "" */
    struct sockaddr_storage client;
    char client_address[46];                        /* "127.0.0.1", or "unix" */
    char client_confirmation[44];                   /* x5t#S256 of the client's certificate (RFC 8705), or "" */
    char client_authorities[AUTHORITIES_TEXT_SIZE]; /* of clients, that it leads to (gateway/http/exchange.h), or "" */
    const char *client_listener;                    /* name of the port that it came to, or "" */
    const char *client_names; /* of this certificate, if an authority of clients has signed it: lines (gateway/http/exchange.h) */
    const struct runner_certificate *client_runner; /* the client's certificate, if it is a runner's; NULL: it is not */
    const struct principal *principal;              /* of the kind PRINCIPAL_NONE until a credential is accepted */
    const struct enrolled_runner *runner;           /* of a principal of the kind PRINCIPAL_RUNNER or PRINCIPAL_RUN; else NULL */
    const struct run_grant *run;                    /* of a principal of the kind PRINCIPAL_RUN; else NULL */
    bool is_repeated; /* a code of an enrolment was used already, for this very document (gateway/pipeline/enrolment_gate.h) */
    const struct dpop_proof *proof; /* of the client's key (RFC 9449), which the credential fits; NULL without one */
    const struct trust_use *rule;   /* at /token: the trust rule that has matched, with the key "" if none has; elsewhere NULL */
    const struct authentication *authentication; /* the result of the credential; NULL for probes */

    /* The parts of the path that the route's pattern captured, percent-decoded and checked; NULL if the pattern has no such part. */
    const char *name;      /* repository, project or organisation */
    const char *reference; /* tag, digest, upload id, robot id, sequence number */

    struct fields headers, arguments; /* use the functions below */

    size_t pair_count; /* pairs to decide; the route's target function fills them */
    struct action_pair pairs[ACTION_PAIRS_MAX];
    const struct asked_label *asked;         /* a label that the first pair would set; NULL: none */
    const char *purpose, *search;            /* of a search in the log, for the sealed part of its event; NULL: none */
    struct permit *permit;                   /* RECORD_FIRST: set before the handler runs; else by request_record() */
    struct bytes body;                       /* for routes with a gathered body; complete */
    struct signed_document *signed_document; /* in the body; NULL before it was asked for (gateway/pipeline/signed_body.h) */
    json_t *document;                        /* the same, parsed; NULL before the first call of request_document() */
    struct repeat *repeat;                   /* of a request with Idempotency-Key, once its handler runs; NULL without one */

    unsigned waits;            /* number of calls of request_wait() */
    bool is_counted;           /* as an attempt with an opaque token: authz/opaque_login.h */
    int64_t wait_ms;           /* the newest time of request_wait() */
    const char *wait_topic;    /* of request_wait_for(); NULL: nothing ends the wait early */
    uint64_t rung_before;      /* by request_listen() */
    bool is_listening;         /* request_listen() was called since the newest wait */
    uint64_t wait_round;       /* the newest round of waking that has reached it (gateway/pipeline/pause.h) */
    bool is_on_worker;         /* on a worker, which may block; else on an event thread (gateway/pipeline/handler.h) */
    bool is_right_lost;        /* lost while the body moved: the body was cut off, and no part may be kept */
    bool reads_copy;           /* the decision is about a further region, because the home region can't be read */
    const char *home_region;   /* with reads_copy */
    bool is_passed_on;         /* it goes to the gateway of another region as a whole, once it is decided */
    bool is_late;              /* no thread is free that waits for other gateways: none is asked */
    bool is_passed;            /* it came from the gateway of another region, for a client of it (gateway/pipeline/passing.h) */
    bool speaks_oci;           /* a path below /v2: errors have OCI's form, not that of RFC 9457 */
    bool speaks_scim;          /* a path below /scim/v2: errors have the form of RFC 7644, 3.12 */
    struct response *response; /* the answer; NULL: none was made yet (gateway/pipeline/response.h) */
    struct response *response_space;      /* memory for the answer; this and `source` belong to the server */
    const struct response_source *source; /* of an answer that was made; closed with the request */
    void *handler_state;                  /* the handler's state, in the arena */
    /** `handle` sets it, makes no answer and returns success: the rest of its work, on a thread that may wait for other gateways, and has no database. */
    RESULT (*rest)(struct request *request, struct error *err);
};

/** The first value of a query argument, percent-decoded; NULL if absent. */
const char *request_argument(const struct request *request, const char *key);
/** The next value of a repeated argument; start with *at = 0. NULL when there is none left. */
const char *request_next_argument(const struct request *request, const char *key, size_t *at);
/** A header's value; NULL if absent. Headers that may stand only once have one value at most. */
const char *request_header(const struct request *request, const char *name);
/** The client's address. NULL: it came through the unix socket. */
const struct sockaddr *request_client(const struct request *request);
/** All that policies may know of the client. It points into the request. */
struct policy_client request_place(const struct request *request);

/**
 * For `handle`, which then returns success: the request waits without a worker. If there is an answer, it goes out after the wait; if
 * there is none, `handle` is called again, on a worker. Wait for a few seconds at most, because a shutdown waits for the request.
 */
void request_wait(struct request *request, int64_t milliseconds);
/**
 * Call it before the handler looks for what request_wait_for() waits for then, with the same topic: if it comes after the look and before the wait has begun, the wait
 * ends at once. Without it a waker of that moment would not find the request.
 */
void request_listen(struct request *request, const char *topic);
/**
 * The same, but a waker (gateway/pipeline/pause.h) may end the wait early. `topic` says what the request waits for; it lives as long as the
 * request. At a shutdown the wait ends, and request_may_wait() is false: then answer. Waiting requests hold no worker, so they may wait
 * for long.
 */
void request_wait_for(struct request *request, const char *topic, int64_t milliseconds);
bool request_may_wait(const struct request *request);

/** Adds a pair for the decision; the resource is zeroed except for its name. Asserts that there is room. */
struct resource *request_add_pair(struct request *request, enum action action, const char *name);

/**
 * For routes that are RECORD_WITH_CHANGE or RECORD_OF_CHANGES. Submits the request's decision together with `change` (NULL: an event alone), waits, and sets
 * request->permit. If the decision was stale, it is made again. Blocks: workers only. May be called again with another change: after a
 * failure, or after a success as a further event under the same permit.
 * Errors: those of the change; ERROR_DENIED if the new decision denies (the answer is then made from it); ERROR_UNAVAILABLE if the log
 * can't be written. After a failure nothing was changed, except after ERROR_UNCERTAIN: then it is unknown.
 */
RESULT request_record(struct request *request, struct change *change, struct error *err) __attribute__((nonnull(1, 3)));

/**
 * The same for other pairs than those that were decided, of actions that the route lists. They are decided and recorded separately. After a
 * failure or a denial, the request's own decision stays as it was; after a success, the new pairs and their permit replace it. Mounts need
 * this: a blob that can't be mounted is uploaded. Runners need it, too: only the request itself finds the run that a runner gets.
 */
RESULT request_record_instead(struct request *request, const struct action_pair *pairs, size_t pair_count, struct change *change,
                              struct error *err) __attribute__((nonnull(1, 2, 5)));

/**
 * Why the credential is none for this organisation, which demands another one (authz/token_demand.h); NULL: it suffices. For what is decided after the pairs of the request,
 * and is allowed: it would tell others what is demanded there.
 */
const char *request_token_refusal(const struct request *request, const struct uuid *organisation) __attribute__((nonnull));

/**
 * As request_record(), for another action than the request was decided for, of those that the route lists: only the body tells which it is. It
 * is decided again, for all that the new action needs.
 */
RESULT request_record_as(struct request *request, enum action action, struct change *change, struct error *err)
    __attribute__((nonnull(1, 4)));

/**
 * Decides on one other pair, of an action that the route lists. A denial is recorded separately; a decision that allows is not recorded and
 * permits nothing. The request's own decision stays as it was. It is for resources that the request names in another project, which the
 * request's own event must not reveal. Errors: ERROR_LIMIT if the denial was only counted; ERROR_UNAVAILABLE.
 */
RESULT request_record_denial(struct request *request, const struct action_pair *pair, struct error *err) __attribute__((nonnull));

/**
 * Records a later event of a permitted operation: a checkpoint or the end of an upload. `change` may be NULL; it runs in the event's
 * transaction. `note` has at most 79 characters and no personal data. Blocks: workers only.
 */
RESULT request_record_outcome(struct request *request, enum outcome outcome, const char *note, struct change *change,
                              struct error *err) __attribute__((nonnull(1, 3, 5)));

/** Records outcomes of a request's operation for registry/, by request_record_outcome(). */
struct request_recorder {
    struct recorder recorder;
    struct request *request;
};
void request_recorder_init(struct request_recorder *recorder, struct request *request);
