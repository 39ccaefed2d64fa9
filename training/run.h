/*
 * training/run.h -- training runs: their requests, approvals and states (docs/runs.md).
 *
 * Each transition is a permit, an event and a row, in one transaction. The caller has checked signatures, persons and policies; the
 * changes here check that the run is in a state from which training/states.def allows the transition.
 */
#pragma once

#include "audit/sequencer.h"
#include "authz/role.h"
#include "crypto/digest.h"
#include "crypto/ecdsa.h"
#include "storage/lookup.h"
#include "training/budget.h"
#include "training/state.h"

#define RUNS_OPEN_MAX     10000              /* of a project; a list of them has a hundred pages */
#define RUN_PROJECT_BYTES (INT64_C(1) << 30) /* of the envelopes of all runs of a project, unless a setting says more or less */
#define RUN_POOL_SIZE     64
#define RUN_REASON_SIZE   257
#define RUN_COMMAND_SIZE  121

extern const struct pg_table run_table, run_doubt_table;

struct run {
    struct uuid id;
    enum run_state state;
    uint8_t request[SHA256_SIZE];       /* digest of the request's envelope */
    char requester[PRINCIPAL_KEY_SIZE]; /* principal_key() */
    int64_t approvals_wanted, approvals;
    char pool[RUN_POOL_SIZE];
    int64_t number, requested_ms, expires_ms, ended_ms; /* wall time; ended_ms 0: it has not ended */
    int64_t attempt, attempts;                          /* the newest; how many the order allows. 0 without an order */
    char reason[RUN_REASON_SIZE];                       /* why the run ended; "" */
    char command[RUN_COMMAND_SIZE];                     /* run_command_text(); "": a run from before it was kept */
    bool may_be_doubted;                                /* run_doubts() has rows, which prove nothing yet */
};

/** An envelope to be stored; views. */
struct run_signed {
    uint8_t digest[SHA256_SIZE];
    const char *principal; /* principal_key() of the signer */
    struct bytes envelope;
    int64_t attempt, node; /* of a result; attempt 0: it is none */
};

/**
 * A change: stores a request. The same request again changes nothing. ERROR_CONFLICT: another request has the same run id;
 * ERROR_LIMIT: the project has RUNS_OPEN_MAX open runs, or with this request its envelopes would have more than `bytes_max`
 * bytes; ERROR_DENIED: its budget has too little left; ERROR_INVALID: the checkpoint, or the run that it repeats, is not there. The permit: run.request on the project.
 */
struct run_request {
    struct change change;
    struct resource where; /* the project */
    struct run run;        /* id, approvals_wanted, pool, expires_ms, command */
    struct run_signed request;
    struct run_cost cost; /* the most that an attempt can use */
    struct run_rerun {    /* the run that this one repeats, which must be one of the project */
        bool is_named;
        struct uuid run;
        uint8_t order[SHA256_SIZE]; /* digest of its order */
    } rerun;
    int64_t bytes_max;                             /* RUN_PROJECT_BYTES; the caller may change it */
    const char *resume_repository, *resume_digest; /* of the checkpoint that it continues from; NULL: none */
};
void run_request_prepare(const struct resource *where, const struct run *run, const struct run_signed *request,
                         struct run_request *request_out);

/**
 * Whether the change of this request, whose envelope is not made yet, would fail as the rows are now. So sijil-keyd is not asked to sign what nobody stores, which would take a place
 * for the life of the request. Needs where, run.id, request.principal, the length of request.envelope, and what follows it. Errors as of the change; the change checks again.
 */
RESULT run_request_look(struct lookup *lookup, const struct run_request *request, struct error *err);

struct persons;
struct run_envelope;
/** Whether `approver` is known and nobody that is behind the request. Somebody unknown may be behind the token of a request with claims, such as that of a trust
 *  rule: then run_approvals_wanted() asks for one approval more. */
bool run_is_approved_by_another(const struct run_envelope *request, const struct persons *requester,
                                const struct persons *approver);
/** The command line of a request, for lists: its beginning, with blanks between the arguments, and without control characters. */
void run_command_text(const struct run_envelope *request, char text_out[RUN_COMMAND_SIZE]);
/** The member `rerun` of a request. */
struct run_rerun run_rerun_of(const struct run_envelope *request);

/**
 * A change: adds an approval. ERROR_CONFLICT: the run awaits none, or has another number of approvals than `run`. The caller has
 * compared the persons in `run`. The permit: run.approve on the project.
 */
struct run_approve {
    struct change change;
    struct resource where;
    struct run run; /* as it was read */
    struct run_signed approval;
};
void run_approve_prepare(const struct resource *where, const struct run *run, const struct run_signed *approval,
                         struct run_approve *approve_out);

/** A change: ends a run. ERROR_CONFLICT: it has ended; ERROR_NOT_FOUND. The permit: run.cancel on the project. */
struct run_end {
    struct change change;
    struct resource where;
    struct uuid run;
    enum action action;
    enum run_state state;
    char reason[RUN_REASON_SIZE]; /* ""; for those that look at the run */
};
void run_cancel_prepare(const struct resource *where, const struct uuid *run, struct run_end *end_out);

/* --- reading, under a permit for `action` on the run's project --- */

/** ERROR_NOT_FOUND. */
RESULT run_find(const struct permit *permit, struct pg *pg, enum action action, const struct uuid *id, struct run *run_out,
                struct error *err) __attribute__((nonnull));
/** The run's envelopes in the order of their arrival; none if the run is of another project. Columns: kind, digest, principal, envelope. */
RESULT run_envelopes(const struct permit *permit, struct pg *pg, enum action action, const struct uuid *id,
                     struct pg_rows **rows_out, struct error *err) __attribute__((nonnull));
enum run_envelope_column { RUN_ENVELOPE_KIND, RUN_ENVELOPE_DIGEST, RUN_ENVELOPE_PRINCIPAL, RUN_ENVELOPE_TEXT };

/**
 * The rows of doubts about an admitted run, the oldest first: that a runner was withdrawn after the admission, and its result does not count any more
 * (training/doubt.h). A row proves nothing: show a doubt only if a withdrawal of its key is in force, or its key is suspended. RUN_DOUBT_ENDED: the end of the
 * key's newest attempt at this run, or NULL. RUN_DOUBT_RESUMES: the run continues from another one. RUN_DOUBT_SUSPENDED: the key is suspended for this
 * reason. None if the run is of another project.
 */
RESULT run_doubts(const struct permit *permit, struct pg *pg, enum action action, const struct uuid *id,
                  struct pg_rows **rows_out, struct error *err) __attribute__((nonnull));
enum run_doubt_column {
    RUN_DOUBT_RUNNER,
    RUN_DOUBT_KEY,
    RUN_DOUBT_SINCE,
    RUN_DOUBT_REASON,
    RUN_DOUBT_NOTED,
    RUN_DOUBT_ENDED,
    RUN_DOUBT_RESUMES,
    RUN_DOUBT_SUSPENDED
};

/** A runner's key that may have had a part in a run; views. */
struct run_part {
    const struct uuid *run;
    const char *key;
    int64_t since_ms;
    const struct ecdsa_key *signer; /* of sijil-keyd */
};
/**
 * Whether sijil-keyd has signed a lease of the key for this run, or for one that it continues from, of an attempt that was not over at `since_ms`: the row of
 * an attempt alone proves nothing. Call run_doubts() first. The permit: of `action`, on the project.
 */
RESULT run_was_leased(const struct permit *permit, struct pg *pg, enum action action, const struct run_part *asked, bool *was_out,
                      struct error *err) __attribute__((nonnull));

/** The newest report of the first node in the attempt that is under way. */
struct run_activity {
    char phase[16];   /* "leased", "fetching", "waiting", "running" or "finishing"; "": no attempt goes on */
    int64_t progress; /* percent; -1: unknown */
};
RESULT run_read_activity(const struct permit *permit, struct pg *pg, enum action action, const struct uuid *id,
                         struct run_activity *activity_out, struct error *err) __attribute__((nonnull));

/** The nodes of the newest attempt, in order; none of a run of one node. Columns: node, runner, phase or how its lease ended, percent or -1. */
RESULT run_nodes(const struct permit *permit, struct pg *pg, enum action action, const struct uuid *id, struct pg_rows **rows_out,
                 struct error *err) __attribute__((nonnull));
enum run_node_column { RUN_NODE_NUMBER, RUN_NODE_RUNNER, RUN_NODE_PHASE, RUN_NODE_PROGRESS };
/** What an ordered run of several nodes waits for. */
struct run_kept {
    int64_t nodes; /* 0: it is another run */
    int64_t kept;  /* for so many of them a runner waits */
};
RESULT run_read_kept(const struct permit *permit, struct pg *pg, enum action action, const struct uuid *id,
                     struct run_kept *kept_out, struct error *err) __attribute__((nonnull));

/**
 * Runners that asked for work in the last RUN_OFFER_LIVE_S, and could get a run of this project and pool: what they lack for an ordered run. No rows if the
 * run is not ordered, or of another project. Else the first row has "" and their number, the second "fits" and how many lack nothing; the
 * others have what is lacking and how many lack it, the most frequent first. Columns: what, runners.
 */
RESULT run_read_offers(const struct permit *permit, struct pg *pg, enum action action, const struct uuid *id,
                       struct pg_rows **rows_out, struct error *err) __attribute__((nonnull));
enum run_offers_column { RUN_OFFERS_WHAT, RUN_OFFERS_RUNNERS };

struct run_page {
    int64_t before;    /* numbers below this; INT64_MAX: the newest */
    const char *state; /* NULL: in any */
    size_t limit;
};
/** Newest first. The caller owns *runs_out (free()). */
RESULT run_list(const struct permit *permit, struct pg *pg, const struct run_page *page, struct run **runs_out, size_t *count_out,
                struct error *err) __attribute__((nonnull));
