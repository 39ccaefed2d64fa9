/*
 * gateway/pipeline/exchange_priv.h -- a request in the pipeline, and the functions that the pipeline's files share.
 *
 * The struct begins with gateway/http's exchange; gateway/http/exchange.h says which thread may use it when.
 */
#pragma once

#include "audit/sequencer.h"
#include "authz/authenticate.h"
#include "gateway/http/exchange.h"
#include "gateway/http/hosts.h"
#include "gateway/http/quota.h"
#include "gateway/pipeline/event_quota.h"
#include "gateway/pipeline/gateway.h"
#include "gateway/pipeline/metrics.h"
#include "gateway/pipeline/passing_priv.h"
#include "gateway/pipeline/response.h"
#include "gateway/pipeline/route.h"

enum { TICKET_ADDRESS, TICKET_PRINCIPAL, TICKET_ORGANISATION, TICKET_STREAM_PRINCIPAL, TICKET_STREAM_ORGANISATION, TICKETS };

#define BUDGET_ORGANISATION_SIZE 64 /* an organisation's name has at most 63 letters */

/** How the outcome of the request is recorded. */
enum recorded {
    RECORDED_NOT,
    RECORDED_COUNTED, /* by a counter, which becomes an event */
    RECORDED_EVENT,   /* by an event of its own, with the number `sequence` */
    RECORDED_NOTHING  /* it was allowed and changed nothing, on a route that records changes alone */
};

/** Why a request that was allowed did not succeed. */
enum later_outcome {
    LATER_NONE,
    LATER_FAILED,      /* an event says that it failed */
    LATER_DENIED,      /* a later decision denied it, and an event says so */
    LATER_DENIED_OFTEN /* the same, only counted */
};

/** A request's parts of shared limits, until the request ends. */
struct shares {
    struct quota_ticket tickets[TICKETS];
    bool is_without_role;   /* every request of its principal counts as a denial */
    bool is_in_event_quota; /* counted in its project's quota of events */
    bool is_in_grant_rate;  /* counted among the rights that are made */
    bool is_in_run_rate;    /* counted among the runs that its project asks for */
    bool is_stream;         /* counted among the bodies that stream in */
};

/** Stale decisions in a row. */
struct stale {
    unsigned count;
    int64_t since_ms; /* of the first one; monotonic */
};

/** A limit that the answer names (draft-ietf-httpapi-ratelimit-headers-10; docs/api.md, "Limits"). */
struct rate_limit {
    const char *name;         /* NULL: none */
    int64_t quota;            /* in window_s seconds; 0: not said */
    unsigned window_s, end_s; /* end_s: until there is more */
    int64_t left;
};

/** Of gateway/pipeline/pause.c. */
struct pause {
    struct exchange *next; /* the next one to go on */
    int64_t ends_ms;       /* monotonic */
    void (*then)(struct exchange *exchange);
};

struct exchange {
    struct http_exchange http;
    struct request request;
    struct principal principal; /* decisions and events are about it; a handler can't change it */
    struct response response_space;
    size_t step;    /* of the pipeline's table */
    bool has_begun; /* the handler ran, so its release must run too */

    const struct principal
        *refused; /* whose credential was good, but not good enough: it decides nothing, and the event names it. NULL: none */
    struct authentication *found; /* by the check of the credential, which is made again if an issuer is asked */
    struct trust_use *rule;       /* the same */
    const char
        *act; /* its signature (the header Sijil-Act), which was spent: it is decided again, and not spent again. NULL: none */
    char act_key[DPOP_KEY_SIZE]; /* the key of it */
    struct decision *decision;
    struct stale stale;
    struct record record;
    struct refusal refusal;                      /* of a request over a budget */
    char organisation[BUDGET_ORGANISATION_SIZE]; /* in the refusal */
    enum recorded recorded;
    uint64_t sequence;
    enum later_outcome later;

    struct rate_limit limit;
    struct shares shares;
    struct pause pause;
};

static inline struct exchange *exchange_of(struct http_exchange *http)
{
    return (struct exchange *)(void *)http; /* its first member */
}

/** The route's, or the one that passes the request on. */
static inline const struct handler *handler_of(const struct request *request)
{
    return request->is_passed_on ? passing_push_handler() : request->route->handler;
}

struct stream_refusal {
    unsigned status; /* 429: this organisation or principal has used up its share; 503: all shares are in use */
    char why[160];
    enum gateway_metric metric;
};

/* gateway/pipeline/exchange.c */
/** Actor and address for a record. */
struct event_context exchange_context(const struct exchange *exchange);
/** Counts the outcome if nothing has recorded it yet; the count becomes an event. Call it before the answer goes out. */
void exchange_count_unrecorded(struct exchange *exchange, enum gateway_metric metric);
/** Makes a 429 or 503 with Retry-After. The refusal is counted under `metric` and has no event of its own. */
void exchange_refuse(struct exchange *exchange, unsigned status, const char *why, unsigned wait_s, enum gateway_metric metric);
/** Makes a 429 or 503 with Retry-After, and counts nothing. The 429 names the limit behind `metric`, unless the quota of the project is used up. */
void exchange_say_later(struct exchange *exchange, unsigned status, const char *why, unsigned wait_s, enum gateway_metric metric);
/** Makes the answer to a failure, and logs it for the operator. */
void exchange_fail(struct exchange *exchange, const struct error *err);
/** Gives the exchange back to the event thread with its answer. If `failed` is not NULL, it becomes the answer. */
void exchange_answer(struct exchange *exchange, const struct error *failed);

/* gateway/pipeline/credential.c */
/** Checks credential and proof, and sets exchange->found and exchange->principal. A bad credential is not a failure. */
RESULT exchange_authenticate(struct exchange *exchange, struct pg *pg, struct error *err);
/** A proof that came with a good credential counts once: otherwise the request has no credential any more. Blocks. ERROR_UNAVAILABLE. */
RESULT exchange_spend_proof(struct exchange *exchange, struct pg *pg, struct error *err);
/** The pairs are known: a person whose login is not good enough for one of them has no credential any more. */
void exchange_demand_login(struct exchange *exchange);
/** The same for tokens that an organisation demands (authz/token_demand.h). */
void exchange_demand_token(struct exchange *exchange);
/** A good credential that is not good enough for this request: it goes on without a principal. */
void exchange_refuse_principal(struct exchange *exchange, enum oauth_error error, const char *description);
/** Whether the body comes only after a first decision, and is not there yet: then the request is decided again. */
bool exchange_lacks_body(const struct exchange *exchange);
/* gateway/pipeline/act.c */
/** The same for a request that must be signed with the enrolled key of its principal, where a document demands that (authz/act.h). As long as the body is not there, nothing is demanded. Blocks if there is a signature: `pg` is there then. ERROR_UNAVAILABLE. */
RESULT exchange_demand_act(struct exchange *exchange, struct pg *pg, struct error *err);
/** The registry's URL as the client uses it. */
void request_own_url(const struct request *request, char url_out[HOSTS_URL_SIZE]);
/** Whether the client came with a proof, or with a token that is bound to a key. */
bool request_speaks_dpop(const struct request *request);

/* gateway/pipeline/request.c */
/** Takes over method, headers, address and certificate of the client. */
void request_take_head(struct request *request, const struct http_exchange *http);
/** Whether the route takes such a body. ERROR_INVALID, ERROR_LIMIT. For one that is packed, the answer 415 was made, and the result is success. */
RESULT request_check_body(struct request *request, const struct http_framing *framing, struct error *err);

/* gateway/pipeline/body_memory.c */
/** Counts memory of the gathered body; negative: given back. False: a limit is reached, and an answer was made. */
bool body_memory_hold(struct exchange *exchange, int64_t bytes);

/* gateway/pipeline/outcome.c */
/** Records that the request was allowed, if no event says so yet: without such an event no answer goes out and no body comes in.
 *  Blocks. */
RESULT outcome_ensure(struct exchange *exchange, struct error *err);
/** Makes the answer to a failure. If a newer decision denies the request, makes the answer to that denial. */
void outcome_answer(struct exchange *exchange, const struct error *err);
/** Records the result of the handler, and makes the answer. Blocks. */
void outcome_conclude(struct exchange *exchange, struct result result, const struct error *err);

/* gateway/pipeline/repeat.c */
/** Before the handler. Sets *is_answered_out if the request repeats another one; then there is an answer. Blocks. */
RESULT repeat_begin(struct exchange *exchange, struct pg *pg, bool *is_answered_out, struct error *err);
/** Keeps the answer of a request whose key was claimed. Blocks. */
void repeat_keep(struct request *request, struct pg *pg);

/* gateway/pipeline/repeat_claim.c */
/** Has the key of the request claimed together with its first change. Blocks. */
RESULT repeat_claim(struct request *request, struct change **change, struct error *err);
/** `change` is durable. */
void repeat_recorded(struct request *request, const struct change *change);
/** Whether the key was used before, so that nothing is done. */
bool repeat_is_used(const struct request *request);
/** Whether the handler failed because another request had used the key meanwhile; the failure then says so. Blocks. */
bool repeat_was_beaten(struct request *request, struct pg *pg, struct error *err);

/* gateway/pipeline/pause.c */
/** After request->wait_ms the answer goes out; if there is none, `then` is called. The exchange does not belong to the caller any more. */
void pause_begin(struct exchange *exchange, void (*then)(struct exchange *exchange));
/** For a step that is run again after the wait, on a worker. ERROR_UNAVAILABLE: the server ends, and nothing waits. */
RESULT pause_again(struct exchange *exchange, int64_t milliseconds, void (*then)(struct exchange *exchange), struct error *err);
#define ISSUER_WAIT_MS 50 /* an issuer is being asked about an opaque token */
struct pauser;
/** Starts the thread that ends pauses. */
RESULT pauser_start(struct pauser **pauser_out, struct error *err);
/** For the end of the server: all pauses that wait for a topic end now, and no new one begins. */
void pauser_close(struct pauser *pauser);
/** Must be called after all pauses ended. */
void pauser_stop(struct pauser *pauser);

/* gateway/pipeline/pipeline.c */
/** The wait of a step is over, and the exchange is suspended: runs the next step, on a worker. */
void pipeline_continue(struct exchange *exchange);
/** The callbacks `start` and `fast_path` (gateway/http/callbacks.h). */
void pipeline_start(struct http_exchange *http);
bool pipeline_fast_path(struct http_exchange *http);

/* gateway/pipeline/record.c */
/** Decides on request->pairs, and sets exchange->decision. */
RESULT exchange_decide(struct exchange *exchange, struct error *err);
/** After a denial: decides on the handler's other pair (`instead`, gateway/pipeline/handler.h). */
/** For a request that is denied: decides it for the digest that its reference stands for, if that may help. *is_later_out: a worker does it. */
RESULT exchange_decide_pinned(struct exchange *exchange, struct pg *pg, bool *is_later_out, struct error *err);
RESULT exchange_decide_instead(struct exchange *exchange, struct error *err);
/** "" if the decision still holds; before a decision, "" if the credential is still valid. Else the rule that denies the request
 *  now. Thread-safe. */
void exchange_right(const struct exchange *exchange, char rule_out[65]);
/** Records that the body was cut off because its right was lost. Blocks. */
void exchange_record_lost(struct exchange *exchange);
/** Counts the request in its project's quota of events. */
RESULT exchange_take_event_quota(struct exchange *exchange, struct pg *pg, struct event_quota_answer *now_out, struct error *err);
/** Prepares exchange->record for exchange->decision. The record then owns the decision. */
void exchange_record_prepare(struct exchange *exchange, struct change *change);
/** Takes sequence and permit from a record that is done. */
void exchange_record_take(struct exchange *exchange);
/** The decision was stale. True while there is time for another try. */
bool exchange_may_decide_again(struct exchange *exchange);

/* gateway/pipeline/budget.c */
/**
 * Counts the request in the budgets of its principal and its organisation. ERROR_LIMIT: the request must be refused, and counted under
 * *metric_out.
 */
RESULT budget_enter(struct exchange *exchange, enum gateway_metric *metric_out, struct error *err);
/** False: exchange->decision denies an authenticated principal that had too many denials lately. */
bool budget_allows_denial(struct exchange *exchange);
#define DENIED_TOO_OFTEN "too many requests in a row were denied; ask for less, or slower" /* the answer then */
/** Answers 429 after the log has counted the request. The exchange is suspended, and does not belong to the caller any more. */
void budget_refuse(struct exchange *exchange, const char *why, unsigned wait_s, enum gateway_metric metric);
/** The same on a worker: waits until the request is counted, and makes no answer. ERROR_UNAVAILABLE. */
RESULT budget_count(struct exchange *exchange, enum gateway_metric metric, struct error *err);

/** How many queued requests may belong to one address or organisation: `else_most`, or fewer while the queue is half full. */
unsigned budget_of_queue(const struct exchange *exchange, unsigned else_most);

/**
 * From now on a reader that works on the exchange counts for the organisation that the request is about, or else for its principal.
 * False: this organisation or principal has used up its share of the readers, so the exchange must be submitted again.
 */
bool budget_of_workers(struct exchange *exchange);

/* gateway/pipeline/stream.c */
/** Whether one more body may stream in; counted until the exchange ends. False: the caller makes the answer from *refusal_out. */
bool stream_enter(struct exchange *exchange, struct stream_refusal *refusal_out);
/** The exchange ends. */
void stream_leave(struct exchange *exchange);
/** The handler begins. False: there is an answer. True: the exchange does not belong to the caller any more. */
bool stream_begin(struct exchange *exchange, struct pg *pg);
/** The callbacks `write` and `finish` (gateway/http/callbacks.h). On a receiver. */
bool stream_write(struct http_exchange *http, void *worker_state, struct bytes bytes);
void stream_finish(struct http_exchange *http, void *worker_state, bool is_whole);

/* gateway/pipeline/grant_rate.c */
/** Whether an allowed request makes rights faster than its organisation or its principal may. */
bool grant_rate_is_exceeded(struct exchange *exchange);
#define RIGHTS_TOO_FAST "rights are made too fast here; Retry-After says when to come again" /* the answer then */
/** Whether an allowed request makes or approves something while the witnesses don't cosign the log. */
bool change_waits_for_witnesses(const struct exchange *exchange);
#define WAITS_FOR_WITNESSES \
    "no quorum of witnesses has cosigned the audit log for an hour: administrative changes, policies and orders are refused until it has"
/** Whether an allowed request asks for a run faster than its project may. */
bool run_rate_is_exceeded(struct exchange *exchange);
#define RUNS_TOO_FAST "this project asks for runs too fast; Retry-After says when to come again" /* the answer then */

/* gateway/pipeline/denial.c */
/** The denial is not about the caller: rights and policies could not be read for a while, or changed just now. */
bool denial_will_pass(const struct decision *decision);
/** Makes the answer to a decision other than VERDICT_ALLOW. */
void denial_answer(struct exchange *exchange, const struct decision *decision);
