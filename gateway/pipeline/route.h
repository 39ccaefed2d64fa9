/*
 * gateway/pipeline/route.h -- which handler serves a request: the table gateway/routes.def.
 *
 * Every route has one row. Patterns are matched from the right, because a repository may be called `blobs`: {name} takes one or more
 * segments, {reference} exactly one, all other text is literal. The first row that matches path and method wins; if rows match the
 * path only with other methods, the answer is 405.
 */
#pragma once

#include "gateway/pipeline/handler.h"
#include "gateway/pipeline/schema.h"

/** When the event becomes durable. */
enum record_kind {
    RECORD_NONE,        /* probes only: no decision, no event */
    RECORD_FIRST,       /* before the handler runs: for reads, and for bodies that stream in */
    RECORD_WITH_CHANGE, /* by request_record() in the handler, together with the change */
    RECORD_OF_CHANGES /* the same; but an allowed request that changes nothing has no event: a runner that waits, or says that it is alive */
};

enum body_kind {
    BODY_NONE, /* a body is refused with 400 */
    BODY_FORM, /* gathered before authentication, because it may hold credentials; at most 32 KiB. JSON with CREDENTIAL_CODE, CREDENTIAL_KEY */
    BODY_GATHERED, /* gathered after authentication, because `target` reads it; at most 64 KiB */
    BODY_ALLOWED,  /* gathered once the request is allowed, up to the row's limit; decided again when the body is complete */
    BODY_STREAMED  /* decided and recorded before the first byte is taken; then begin, write..., finish */
};

/* The longest limits that a row may have. */
#define BODY_UNDECIDED_MAX (64 << 10) /* of BODY_FORM and BODY_GATHERED */
#define BODY_ALLOWED_MAX   (4 << 20)

/** Which credentials authenticate. */
enum credential_kind {
    CREDENTIAL_NONE,     /* probes */
    CREDENTIAL_REGISTRY, /* a registry token (or an issuer's for us) */
    CREDENTIAL_SESSION,  /* the same, but an expired one counts too: the upload session has a limit of its own */
    CREDENTIAL_MINT,     /* /token: the credentials that tokens are made from */
    CREDENTIAL_RUNNER,   /* the client certificate of a runner, alone (gateway/pipeline/runner_gate.h) */
    CREDENTIAL_CODE,     /* the code of an invitation, in the body (gateway/pipeline/enrolment_gate.h) */
    CREDENTIAL_KEY       /* a signature with the key of a runner that has no certificate yet, in the body (the same) */
};

struct metric; /* base/metrics.h */

#define ROUTE_STATUSES_MAX 3

/** A route in the description of the API, from its row ABOUT() of gateway/routes.def. */
struct route_about {
    const char *parameters; /* names of the query parameters, in one text; each is a row of gateway/parameters.def */
    const struct schema *body, *answer;
    const char *summary;
    unsigned statuses[ROUTE_STATUSES_MAX]; /* of success, the usual one first; 0: no more */
};

#define ROUTE_ACTIONS_MAX 6 /* a push may begin, write, commit or mount */

struct route {
    const char *name; /* in metrics and logs: "blob_read" */
    unsigned methods; /* METHOD_BIT() */
    const char *pattern;
    enum credential_kind credential;
    enum record_kind record;
    enum body_kind body;
    size_t body_limit;    /* bytes; for streamed bodies 0: the project's quota limits them */
    route_target *target; /* names the pairs to decide; NULL only for probes */
    const struct handler *handler;
    struct metric *duration;         /* histogram; NULL: not observed */
    const struct route_about *about; /* NULL only in tests: then the query may have any parameters, also below /api/v1 */
    size_t action_count;
    enum action actions[1 + ROUTE_ACTIONS_MAX]; /* from [1] on: the only actions that `target` may name */
};
/** Whether the row lists `action`. */
bool route_has_action(const struct route *route, enum action action);

/** Rows, tried from the first to the last. Tests have tables of their own. */
struct route_table {
    size_t count;
    const struct route *rows;
    struct metric *unrouted; /* histogram of requests without a route; NULL: not observed */
};

enum route_answer { ROUTE_FOUND, ROUTE_UNKNOWN, ROUTE_METHOD };

struct route_match {
    enum route_answer answer;
    const struct route *route;    /* ROUTE_FOUND */
    unsigned methods;             /* ROUTE_METHOD: the methods of the path, for Allow */
    const char *name, *reference; /* in the arena */
};

/** Matches a path from path_split(). Fails with ERROR_NO_MEMORY only; an unknown path is a result. */
struct path;
RESULT route_find(const struct route_table *table, const struct path *path, enum method method, struct arena *arena,
                  struct route_match *match_out, struct error *err);
