/*
 * gateway/pipeline/exchange_priv.h -- a request on its way through the pipeline.
 *
 * It begins with what gateway/http has of it, which says who may touch it when.
 */
#pragma once

#include "audit/sequencer.h"
#include "gateway/http/exchange.h"
#include "gateway/http/quota.h"
#include "gateway/pipeline/allotment.h"
#include "gateway/pipeline/gateway.h"
#include "gateway/pipeline/metrics.h"
#include "gateway/pipeline/response.h"
#include "gateway/pipeline/route.h"

enum { TICKET_ADDRESS, TICKET_PRINCIPAL, TICKET_ORGANISATION, TICKET_STREAM_PRINCIPAL, TICKET_STREAM_ORGANISATION, TICKETS };

#define BUDGET_ORGANISATION_SIZE 64 /* an organisation's name has at most 63 letters */

/** Does anything say what became of the request? */
enum recorded {
    RECORDED_NOT,
    RECORDED_COUNTED, /* a counter does, which becomes an event */
    RECORDED_EVENT    /* an event of its own, with the number `sequence` */
};

/** What went against the request after it was allowed. */
enum objection {
    OBJECTION_NONE,
    OBJECTION_FAILED,       /* an event says that it failed */
    OBJECTION_DENIED,       /* it was decided again: an event says that it was denied */
    OBJECTION_DENIED_OFTEN  /* the same, counted only */
};

/** What it has of things that are shared out, until it ends. */
struct shares {
    struct quota_ticket tickets[TICKETS];
    bool is_without_role; /* all that its principal asks for counts like a denial */
    bool is_allotted;     /* counted in its project's quota of events */
    bool is_rationed;     /* counted among the rights that are made */
    bool is_stream;       /* counted among the bodies that move */
};

/** Decisions that came back stale, one after the other. */
struct stale {
    unsigned count;
    int64_t since_ms; /* the first of them; monotonic */
};

/** Of gateway/pipeline/pause.c. */
struct pause {
    struct exchange *next; /* the one that goes on after it */
    int64_t ends_ms;       /* monotonic */
    void (*then)(struct exchange *exchange);
};

struct exchange {
    struct http_exchange http;
    struct request request;
    struct response blank;
    size_t step;                 /* of the pipeline */
    bool has_begun;              /* the handler ran, so its release must */

    struct decision *decision;
    struct stale stale;
    struct record record;
    struct refusal refusal;      /* beyond a budget */
    char organisation[BUDGET_ORGANISATION_SIZE]; /* of the refusal */
    enum recorded recorded;
    uint64_t sequence;
    enum objection objection;

    struct shares shares;
    struct pause pause;
};

static inline struct exchange *exchange_of(struct http_exchange *http)
{
    return (struct exchange *)(void *)http; /* its first member */
}

struct stream_refusal {
    unsigned status; /* 429: this organisation or principal has its share; 503: all have all there is */
    char why[160];
    enum gateway_metric metric;
};

/* gateway/pipeline/exchange.c */
/** Who asks, and from where, for a record. */
struct event_context exchange_context(const struct exchange *exchange);
/** If nothing says what became of it yet, a counter does, which becomes an event. Before the answer goes out. */
void exchange_count_unrecorded(struct exchange *exchange, enum gateway_metric metric);
/** Makes the answer that it can't be now, 429 or 503, and when to try again; it is counted, and has no event of its own. */
void exchange_refuse(struct exchange *exchange, unsigned status, const char *why, unsigned wait_s, enum gateway_metric metric);
/** Makes that answer alone. */
void exchange_say_later(struct exchange *exchange, unsigned status, const char *why, unsigned wait_s);
/** The answer to a failure, which the operator's log has, too. */
void exchange_fail(struct exchange *exchange, const struct error *err);
/** An answer was made, or `failed` is it: goes back to the event thread. */
void exchange_answer(struct exchange *exchange, const struct error *failed);

/* gateway/pipeline/body_memory.c */
/** Counts memory of its gathered body: more, or less. False: there is too much; an answer was made. */
bool body_memory_hold(struct exchange *exchange, int64_t bytes);

/* gateway/pipeline/outcome.c */
/** An event says that the request was allowed, if none does yet: no answer goes out and no body comes in without one. Blocks. */
RESULT outcome_ensure(struct exchange *exchange, struct error *err);
/** The answer to a failure; or to the denial that it was, if what was allowed is denied by now. */
void outcome_answer(struct exchange *exchange, const struct error *err);
/** What the handler came to, as answer and as event. Blocks. */
void outcome_conclude(struct exchange *exchange, struct result result, const struct error *err);

/* gateway/pipeline/pause.c */
/** After request->wait_ms its answer goes out or, if it has none yet, `then` is called. It is not the caller's any more. */
void pause_begin(struct exchange *exchange, void (*then)(struct exchange *exchange));
struct pauser;
/** Starts the thread that ends pauses. */
RESULT pauser_start(struct pauser **pauser_out, struct error *err);
/** Nobody pauses any more. */
void pauser_stop(struct pauser *pauser);

/* gateway/pipeline/pipeline.c, beside gateway/pipeline/pipeline.h */
/** What was waited for has come, and the exchange is suspended: the next step, on a worker. */
void pipeline_continue(struct exchange *exchange);
/** On the event thread: true if the answer was at hand. Else the exchange is suspended, and a worker has it. */
bool pipeline_recall(struct exchange *exchange);
/** The streamed body has ended; on a mover. `is_whole`: all of it was written. */
void pipeline_finish(struct exchange *exchange, struct pg *pg, bool is_whole);

/* gateway/pipeline/record.c */
/** Decides on request->pairs; exchange->decision. */
RESULT exchange_decide(struct exchange *exchange, struct error *err);
/** After a denial: decides on what the handler puts in its place (gateway/pipeline/handler.h). */
RESULT exchange_decide_instead(struct exchange *exchange, struct error *err);
/** "" if what was decided still holds (before a decision: if the credential does), else the rule that says why not. Thread-safe. */
void exchange_right(const struct exchange *exchange, char rule_out[65]);
/** The body was cut off for want of a right: the event that says so. Blocks. */
void exchange_record_lost(struct exchange *exchange);
/** Counts the request in its project's quota of events. */
RESULT exchange_allot(struct exchange *exchange, struct pg *pg, struct allotted_now *now_out, struct error *err);
/** Prepares exchange->record for exchange->decision, which it takes over. */
void exchange_record_prepare(struct exchange *exchange, struct change *change);
/** Takes over sequence and permit from a record that is done. */
void exchange_record_take(struct exchange *exchange);
/** A decision came back stale: true while another try fits into the time that a record may take. */
bool exchange_may_decide_again(struct exchange *exchange);

/* gateway/pipeline/budget.c */
/**
 * Takes the request out of what its principal and its organisation may have recorded. ERROR_LIMIT: it is to be refused,
 * and counted under *metric_out.
 */
RESULT budget_enter(struct exchange *exchange, enum gateway_metric *metric_out, struct error *err);
/** False: exchange->decision denies somebody known who was denied too often of late. */
bool budget_allows_denial(struct exchange *exchange);
#define DENIED_TOO_OFTEN "too many requests in a row were denied; ask for less, or slower" /* the answer then */
/** Answers 429 once the log counts the request. The exchange is suspended, and not the caller's any more. */
void budget_refuse(struct exchange *exchange, const char *why, unsigned wait_s, enum gateway_metric metric);
/** The same for workers: waits until it is counted, and makes no answer. ERROR_UNAVAILABLE. */
RESULT budget_count(struct exchange *exchange, enum gateway_metric metric, struct error *err);

/** So many of those who wait for a worker may be one address's, or one organisation's: any number, unless the queue is half full. */
unsigned budget_of_queue(const struct exchange *exchange, unsigned else_most);

/**
 * From here on a reader that works on the exchange counts for the organisation that it asks about, or else for who asks. False: that
 * one has its part of the readers, so it is to be submitted again.
 */
bool budget_of_workers(struct exchange *exchange);

/* gateway/pipeline/streams.c */
/** Whether one more body may come in; counted until the exchange ends. False: *refusal_out says why, and the caller makes the answer. */
bool stream_enter(struct exchange *exchange, struct stream_refusal *refusal_out);
/** The exchange ends. */
void stream_leave(struct exchange *exchange);

/* gateway/pipeline/ration.c */
/** Whether an allowed request makes rights faster than its organisation, or its principal, may. */
bool ration_is_used_up(struct exchange *exchange);
#define RIGHTS_TOO_FAST "rights are made too fast here; Retry-After says when to come again" /* the answer then */

/* gateway/pipeline/denial.c */
/** Nothing is said against the caller: rights and policies could not be read for a while, or changed just now. */
bool denial_will_pass(const struct decision *decision);
/** The answer to a decision that is not VERDICT_ALLOW. */
void denial_answer(struct exchange *exchange, const struct decision *decision);
