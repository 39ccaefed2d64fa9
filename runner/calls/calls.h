/*
 * runner/calls/calls.h -- the routes of a registry for runners (docs/api.md, /api/v1/runner), one function each.
 *
 * The registry knows the runner by its client certificate. A connection is for one thread. Errors of all functions: ERROR_UNAVAILABLE: the call may be
 * repeated; ERROR_CONFLICT: the attempt has ended; ERROR_NOT_FOUND: there is no such lease; ERROR_DENIED: the runner is not
 * known any more, or nobody may do that; ERROR_INVALID: the registry does not understand us, or we do not understand its answer.
 */
#pragma once

#include <stdatomic.h>

#include "base/json.h"
#include "client/http.h"
#include "runner/calls/answers.h"
#include "runner/calls/start.h"

#define CALLS_SESSION_SIZE 16                /* bytes of a session */
#define CALLS_LOG_MAX      262144            /* bytes of a piece of a log */
#define CALLS_RESULT_MAX   ((size_t)4 << 20) /* bytes of the body of a result: the most that registries take */

struct calls;
/**
 * `options` has the files of the client certificate. Each call names the session: the registry accepts only the session that it knows from a
 * request for work. Connects later.
 */
RESULT calls_open(const struct http_options *options, const uint8_t session[CALLS_SESSION_SIZE], struct calls **calls_out,
                  struct error *err);
/** When the flag becomes true, a call ends within a second with ERROR_UNAVAILABLE. */
void calls_give_up_when(struct calls *calls, const atomic_bool *gives_up);
void calls_free(struct calls *calls);
DEFINE_OWNED(calls);

/** The free capacity of this runner. */
struct lease_offer {
    uint8_t session[CALLS_SESSION_SIZE];
    uint64_t generation; /* of the journal of leases */
    int wait_s;          /* 0 to 30 */
    const char *isolation;
    int64_t cpus, memory_bytes;
    json_t *devices; /* a list of objects type, memory_bytes; borrowed */
    const char *run; /* only this run, in this attempt; NULL: any */
    int attempt;
    int nodes; /* how many nodes of one run with several it takes; 0: none */
};
enum lease_answer { LEASE_NONE, LEASE_GIVEN, LEASE_SUSPENDED };
/** Asks for a run. LEASE_GIVEN: `bundle` got the text of the bundle (docs/formats/run.md). LEASE_SUSPENDED: the runner's key is suspended. */
RESULT calls_lease(struct calls *calls, const struct lease_offer *offer, struct buffer *bundle, enum lease_answer *answer_out,
                   struct error *err);

/** What a machine that only schedules asks for: the runs of its pool that may be in one of these regions. */
struct queue_wish {
    uint8_t session[CALLS_SESSION_SIZE];
    uint64_t generation;
    size_t region_count;
    const char *const *regions;
};
/** LEASE_GIVEN: *queue_out has the list; free it with queue_answer_done(). LEASE_SUSPENDED as above, without a list. */
RESULT calls_queue(struct calls *calls, const struct queue_wish *wish, struct queue_answer *queue_out,
                   enum lease_answer *answer_out, struct error *err);

/** One node of one attempt. */
struct leased_run {
    const char *run; /* UUID */
    int attempt, node;
    const char *certificate; /* the envelope, for calls_start() and calls_write_result() */
};
/**
 * Says that the sandbox is ready. `listen` is where the other nodes reach this one, NULL: nowhere. An answer that is not ready yet: the other nodes are
 * waited for, so call it again. Free *answer_out with start_answer_done().
 */
RESULT calls_start(struct calls *calls, const struct leased_run *leased, const char *listen, struct start_answer *answer_out,
                   struct error *err);

struct heartbeat {
    const char *phase; /* "fetching", "running", "finishing" */
    int progress;      /* 0 to 100; -1: unknown */
    int64_t cpu_ms, device_ms, memory_bytes;
};
RESULT calls_heartbeat(struct calls *calls, const struct leased_run *leased, const struct heartbeat *heartbeat,
                       struct heartbeat_answer *answer_out, struct error *err);

/** Appends a token of the run, for /v2. */
RESULT calls_token(struct calls *calls, const struct leased_run *leased, struct buffer *token, int64_t *lifetime_s_out,
                   struct error *err);
/** Sends a piece of the log, which begins at `offset`. *next_out is where the registry's log goes on, in most cases after the piece. */
RESULT calls_log(struct calls *calls, const struct leased_run *leased, uint64_t offset, struct bytes piece, uint64_t *next_out,
                 struct error *err);
/** Has a checkpoint kept: its manifest, whose blobs are uploaded already. For the first node only. */
RESULT calls_checkpoint(struct calls *calls, const struct leased_run *leased, struct bytes manifest, struct error *err);
RESULT calls_refuse(struct calls *calls, const struct leased_run *leased, const char *envelope, struct error *err);
/** `body` is the request's body, as calls_write_result() makes it. */
RESULT calls_result(struct calls *calls, const char *run, struct bytes body, char state_out[ANSWER_STATE_SIZE],
                    struct error *err);
/** Appends the body of a result: the signed envelope, the certificate of its key, and the manifests by name of a subject. */
RESULT calls_write_result(const struct leased_run *leased, const char *envelope, json_t *manifests, struct buffer *body,
                          struct error *err);
