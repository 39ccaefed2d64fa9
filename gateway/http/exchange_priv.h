/*
 * gateway/http/exchange_priv.h -- a request together with the connection that it came on.
 *
 * Who may touch it: while it is suspended, the worker or the sequencer's callback that has it; else the connection's
 * event thread. Only the two rings (intake, outflow) are shared, under `mutex`. An exchange is freed by whoever is
 * last: the event thread when MHD is done with the request, or the job that still runs then.
 */
#pragma once

#include <microhttpd.h>
#include <pthread.h>

#include "base/work.h"
#include "gateway/http/http_check.h"
#include "gateway/http/link_priv.h"
#include "gateway/http/quota.h"
#include "gateway/http/transport_priv.h"
#include "gateway/pipeline/allotment.h"
#include "gateway/pipeline/gateway.h"
#include "gateway/pipeline/lease_priv.h"
#include "gateway/pipeline/metrics.h"
#include "gateway/pipeline/pipeline.h"
#include "gateway/pipeline/response.h"
#include "gateway/pipeline/route.h"

enum { TICKET_ADDRESS, TICKET_PRINCIPAL, TICKET_ORGANISATION, TICKET_STREAM_PRINCIPAL, TICKET_STREAM_ORGANISATION, TICKETS };

#define BUDGET_ORGANISATION_SIZE 64 /* an organisation's name has at most 63 letters */

enum phase {
    PHASE_HEAD,   /* the head is arriving, or just arrived */
    PHASE_WORK,   /* suspended: a worker or the sequencer has it */
    PHASE_RECALL, /* recorded: the answer may be at hand */
    PHASE_GATHER, /* the body goes into `body` */
    PHASE_STREAM, /* the body goes into the intake ring */
    PHASE_ANSWER, /* there is an answer; what is left of the body is drained first */
    PHASE_SENT    /* MHD has the answer */
};

#define INTAKE_SLOTS      8
#define INTAKE_SLOT_SIZE  (BLOCK_SIZE / 2)
#define OUTFLOW_SLOTS     2
#define EXCHANGE_MEMORY   ((size_t)1 << 20) /* arena of one request; bodies are not in it */

/** Upload: the event thread fills slots, one mover at a time empties them. */
struct intake {
    uint8_t *slots[INTAKE_SLOTS]; /* taken when filled, given back when written */
    size_t filled[INTAKE_SLOTS];
    unsigned head, count;         /* full slots; the one after them is being filled */
    bool is_full;                 /* the event thread suspended because no slot was free */
    bool has_ended, has_failed;
};

/**
 * Download: the event thread reads what needs no waiting. When something does, one sender at a time fills slots, which
 * the event thread empties.
 */
struct outflow {
    uint8_t *slots[OUTFLOW_SLOTS];  /* taken when filled, given back when sent */
    size_t filled[OUTFLOW_SLOTS], used; /* used: of the first slot */
    unsigned head, count;
    uint64_t read_bytes;          /* of the source, so far */
    uint64_t sender_until;        /* what lies before this could not be read at once, and a sender reads it */
    bool is_empty;                /* the event thread suspended because no slot was full */
    bool has_failed;
};

struct exchange {
    struct request request;
    struct response blank;
    struct server *server;
    struct link *link;
    struct MHD_Connection *connection; /* not to be touched once `is_gone` */

    char *target;                /* as it came; NULL if it was too long to keep */
    size_t target_length;
    uint64_t number;             /* of its connection's requests */
    struct http_framing framing;
    struct path *path;
    enum phase phase;
    bool is_at_head;             /* the answer can still go out instead of 100 Continue */
    bool is_body_done;
    uint64_t drained_bytes, body_bytes, sent_bytes;
    struct buffer body;          /* gathered */

    struct work_job job;
    size_t step;                 /* of the pipeline */
    void (*next)(struct exchange *exchange, struct pg *pg); /* what the job does */
    int64_t begun_us, queued_ms; /* monotonic */
    struct decision *decision;
    struct record record;
    unsigned stale_count;      /* of the decision that is to be recorded */
    int64_t stale_since_ms;    /* the first of them; of the monotonic clock */
    bool is_without_role;        /* all that its principal asks for counts like a denial */
    struct refusal refusal;      /* beyond a budget */
    char organisation[BUDGET_ORGANISATION_SIZE];
    bool is_allotted;            /* counted in its project's quota of events */
    bool is_rationed;            /* counted among the rights that are made */
    bool is_recorded;            /* an event says what became of this request, or a counter that becomes one */
    bool has_sequence;
    bool has_failure;            /* an event says that it failed */
    bool is_denied_late;         /* request_record() decided again, and the answer is now no */
    bool is_denied_too_often;    /* ... and that is counted, not recorded */
    uint64_t sequence;
    bool has_begun;              /* the handler ran, so its release must */
    bool is_stream;              /* counted among the bodies that move */
    bool is_refused_by_parser;   /* MHD answered by itself, which server.c counted */
    bool is_given_up;            /* the client sends more than we are willing to throw away, and is answered before the end */
    struct quota_ticket tickets[TICKETS];
    struct lease lease;          /* of the body that moves */
    struct exchange *pause_next; /* the one that goes on after it; of gateway/pipeline/pause.c */
    int64_t pause_ends_ms;       /* monotonic */

    pthread_mutex_t mutex;       /* for all below */
    bool is_busy;                /* a job is queued or runs on the rings */
    bool is_gone;                /* MHD is done with the request */
    bool was_cut;                /* ... before the whole body was there */
    struct intake intake;
    struct outflow outflow;
};

struct stream_refusal {
    unsigned status; /* 429: this organisation or principal has its share; 503: all have all there is */
    char why[160];
    enum gateway_metric metric;
};

/* gateway/http/exchange.c */
void *exchange_begin(void *context, const char *target, struct MHD_Connection *connection);
enum MHD_Result exchange_continue(void *server, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *data, size_t *data_size,
                                  void **place);
void exchange_end(void *server, struct MHD_Connection *connection, void **place,
                  enum MHD_RequestTerminationCode why);
void exchange_suspend(struct exchange *exchange);
/** Hands the exchange back to its event thread, which goes on with `phase`. */
void exchange_resume(struct exchange *exchange, enum phase phase);
/** Frees it. May block if the handler has a release. */
void exchange_free(struct exchange *exchange);
/** If nothing says what became of it yet, a counter does, which becomes an event. Before the answer goes out. */
void exchange_count_unrecorded(struct exchange *exchange, enum gateway_metric metric);
/** Makes the answer that it can't be now, 429 or 503, and when to try again; it is counted, and has no event of its own. */
void exchange_refuse(struct exchange *exchange, unsigned status, const char *why, unsigned wait_s, enum gateway_metric metric);
/** Makes that answer alone. */
void exchange_say_later(struct exchange *exchange, unsigned status, const char *why, unsigned wait_s);
/** The bytes that frame it are wrong, and nothing of it may count (gateway/http/inlet.h). */
bool exchange_is_malformed(const struct exchange *exchange);
/** Makes the answer that says so. */
void exchange_refuse_malformed(struct exchange *exchange);
/** What is thrown away of its body, or will be, is more than we are willing to. */
bool exchange_sends_too_much(const struct exchange *exchange);
/** MHD is done with it and no job runs: frees it, on a worker if that may take time. */
void exchange_leave(struct exchange *exchange);
/** Queues a job; false when there are too many. */
bool exchange_submit(struct exchange *exchange, struct work_pool *pool, void (*next)(struct exchange *, struct pg *));

/* gateway/http/head.c */
/** Copies and checks the head. False: refused. */
bool head_take(struct exchange *exchange, const char *method, const char *version,
               struct http_refusal *refusal_out);

/* gateway/http/send.c */
enum MHD_Result send_answer(struct exchange *exchange);
/** In the middle of a body, where libmicrohttpd takes no answer: sends it past libmicrohttpd. The connection must be closed then. */
void send_at_once(struct exchange *exchange);
/** For refusals of the head: answers and closes, whatever else was sent. */
enum MHD_Result send_refusal(struct exchange *exchange, const struct http_refusal *refusal);

/* gateway/http/gather.c */
/** The exchange is suspended; from here on its event thread gathers its body, and then pipeline_continue() goes on. */
void gather_begin(struct exchange *exchange);
/** Takes what came. Where there is no memory for it now, the answer is 503 and the rest is drained. */
enum MHD_Result gather_take(struct exchange *exchange, const char *data, size_t *data_size);
/** Wipes and frees what was gathered. */
void gather_end(struct exchange *exchange);

/* gateway/http/intake.c */
/** Takes what fits; the rest stays in MHD's buffer and the connection is suspended. At the end a mover finishes. */
enum MHD_Result intake_take(struct exchange *exchange, const char *data, size_t *data_size);

/* gateway/http/outflow.c */
/** Reads the first block, here or on a sender, and resumes the exchange with the answer: another one, if the read failed. */
void outflow_begin(struct exchange *exchange);
/** On the event thread: reads the first block if that needs no waiting; false: it does, and outflow_begin() must. */
bool outflow_begin_at_once(struct exchange *exchange);
ssize_t outflow_give(void *context, uint64_t position, char *place, size_t size);

/* gateway/pipeline/outcome.c */
/** An event says that the request was allowed, if none does yet: no answer goes out and no body comes in without one. Blocks. */
RESULT outcome_ensure(struct exchange *exchange, struct error *err);
/** The answer to a failure; or to the denial that it was, if what was allowed is denied by now. */
void outcome_answer(struct exchange *exchange, const struct error *err);
/** What the handler came to, as answer and as event. Blocks. */
void outcome_conclude(struct exchange *exchange, struct result result, const struct error *err);

/* gateway/pipeline/pause.c */
/** After request->wait_ms its answer goes out or, if it has none yet, its step is run again. It is not the caller's any more. */
void pause_begin(struct exchange *exchange);
struct pauser;
/** Starts the thread that ends pauses. */
RESULT pauser_start(struct pauser **pauser_out, struct error *err);
/** Nobody pauses any more. */
void pauser_stop(struct pauser *pauser);

/* gateway/pipeline/pipeline.c, beside gateway/pipeline/pipeline.h */
/** The gathered body is complete and the exchange is suspended. */
void pipeline_continue(struct exchange *exchange);
/** On the event thread: true if the answer was at hand. Else the exchange is suspended, and a worker has it. */
bool pipeline_recall(struct exchange *exchange);
/** The streamed body was written; on a mover. */
void pipeline_finish(struct exchange *exchange, struct pg *pg);
/** An answer was made, or `failed` is it: goes back to the event thread. */
void pipeline_answer(struct exchange *exchange, const struct error *failed);

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
/** Who asks, and from where, for a record. */
struct event_context exchange_context(const struct exchange *exchange);
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
