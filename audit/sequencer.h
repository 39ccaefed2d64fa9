/*
 * audit/sequencer.h -- the one door to the log of a gateway (docs/formats/audit-log.md section 14).
 *
 * Events and short changes wait in memory while the previous group commits; then all waiting ones go together:
 * lock of the log first, state and epoch read, changes run, leaves hashed, one commit, and only then the waiting
 * requests are told. No event thread ever waits here: submitting returns at once, `done` is called later, once,
 * on a thread of the sequencer's, and must not block.
 */
#pragma once

#include "audit/permit.h"
#include "audit/signed_checkpoint.h"
#include "storage/pg.h"

struct audit_subject;
struct record_waiter;
struct sequencer;
struct keyd_client;

/** Who must not answer from memory any more once a change is durable (sequencer_alterations()). */
enum change_reach {
    CHANGE_REACHES_ALL = 0,    /* whatever is kept: what a change is that says nothing */
    CHANGE_REACHES_REPOSITORY, /* manifests and tags of change->repository */
    CHANGE_REACHES_NOTHING     /* sessions, blobs: nobody keeps them */
};

/** A short change that is made in the same transaction as its event. */
struct change {
    /**
     * Runs prepared statements on the sequencer's connection. A conflict is a zero-row result, which this turns
     * into ERROR_CONFLICT, ERROR_NOT_FOUND or ERROR_INVALID; the event then says `failed`. Called again, from the
     * start, when the group had to roll back: it must keep no state of an earlier try.
     */
    RESULT (*run)(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
        __attribute__((nonnull(1, 2, 4)));
    /**
     * NULL, or adds all that run() would do, in the usual case, as one statement of a pipeline (pg_pipeline_add()). It
     * must raise an error unless it did all of it, as by a division by zero; then run() is called, and does it or says why not.
     */
    RESULT (*add)(const struct permit *permit, struct change *change, struct pg *pg, struct error *err) __attribute__((nonnull));
    /** With add: what its statement answered, once it is durable. Not called when the answer was lost. */
    void (*take)(struct change *change, const struct pg_rows *answer);
    /**
     * Set if run() raises the authorization epoch: the group then holds the epoch's lock exclusively, and ends here,
     * so that what was decided before the change is decided again after it.
     */
    bool raises_epoch;
    bool is_alone; /* with raises_epoch: its group also begins with it, so that it finds every event before its own in the log */
    enum change_reach reach;
    struct uuid repository; /* CHANGE_REACHES_REPOSITORY */
    /**
     * NULL, or what the event says behind its one resource instead of the detail that was decided on: what only the
     * change knows, as the id of a new row. At most CHANGE_DETAIL_MAX bytes that outlive the record; no personal data.
     */
    const char *detail;
    /** With detail: whom the change concerns, or NULL. The event does not name him; his pseudonym ends the detail. */
    const char *concerns_issuer, *concerns_subject; /* neither is "" */
};

/** Who, from where: goes into the encrypted payload, never into the leaf. Views must outlive the record. */
struct event_context {
    const char *issuer, *subject;  /* of the principal; NULL without one, and for later events under a permit */
    const char *client_address;    /* "127.0.0.1" */
    const char *user_agent;        /* may be NULL */
    const char *claims;            /* JSON text of what the token said; may be NULL */
    const char *tried;             /* whose secret was wrong; may be NULL */
    char request_id[37];
};

/**
 * A request that is answered 429 because its principal, or its organisation, has used up its share. It has no event of
 * its own: denied.burst events count it, durable first with an upper bound, then exactly by principal, action, network
 * and target. Views must outlive the record.
 */
struct refusal {
    const char *organisation; /* of the principal; "" if it has none, or stands outside: then its issuer's are together */
    enum action action;
    const char *target;       /* as the caller named it, whether or not it is there; "" */
};

enum outcome { OUTCOME_ALLOWED, OUTCOME_DENIED, OUTCOME_FAILED, OUTCOME_COMPLETED };

enum record_status {
    RECORD_DONE,       /* durable; `permit` is set if the decision allowed */
    /** Something that was decided on has changed since: decide again and submit again; nothing was recorded. So also what completes an
     *  operation with a change under its permit: bytes that came in under rights that are gone do not stay. */
    RECORD_STALE,
    RECORD_REFUSED,    /* the change failed (`error` says why) and is undone; a `failed` event is durable */
    /** The log can't be written: answer 503; counted, and recorded as log.unrecorded later. `error` is ERROR_UNCERTAIN when a
     *  commit was sent and its answer lost for good: then it may be there, with its change. */
    RECORD_UNAVAILABLE
};

struct record {
    /* Set by the caller. Exactly one of decision, under and refusal is set. */
    struct decision *decision;     /* owned by the record until record_done() */
    const struct permit *under;    /* a later event of an operation that was permitted: its outcome */
    const struct refusal *refusal; /* not to be served; its principal, if it has one, is in `context` */
    enum outcome outcome;          /* with `under` only: OUTCOME_COMPLETED or OUTCOME_FAILED */
    char note[80];                 /* with `under`: what is worth knowing, e.g. "67108864 bytes"; no personal data */
    struct event_context context;
    struct change *change;         /* or NULL; not run if the decision denies */
    void (*done)(struct record *record);

    /* Set by the sequencer before done(). */
    enum record_status status;
    struct error error;
    uint64_t sequence;             /* of the event, when durable */
    uint64_t outdated_epoch;       /* RECORD_STALE: rights of this epoch are too old to decide again */
    bool folded;                   /* counted in a denied.burst event: there is no sequence number */
    struct permit *permit;         /* owned by the record until taken with GIVE() */

    /* The sequencer's own. */
    struct record *next;
    struct audit_subject *resolved, *concerned, *day;
    bool folds; /* to be counted in a burst */
    struct record_waiter *waiter;
    int64_t arrived_ms;
};

/** Takes `record` until done(). Never blocks, never fails: what can't be recorded comes back RECORD_UNAVAILABLE. */
void sequencer_submit(struct sequencer *sequencer, struct record *record) __attribute__((nonnull));
/** For threads that may block (jobs, start-up): submits and waits for done(). Do not set record->done. */
void sequencer_submit_and_wait(struct sequencer *sequencer, struct record *record) __attribute__((nonnull));
/** Releases what a record owns. The record itself is the caller's. */
void record_done(struct record *record);

/**
 * Background work of the server itself: records `allowed` and yields the permit. Blocks; never call it on an event
 * thread. ERROR_UNAVAILABLE when the log can't be written.
 */
RESULT permit_for_job(struct sequencer *sequencer, const struct action_pair *pair, struct permit **permit_out,
                      struct error *err) __attribute__((nonnull));

/**
 * The same with a change in the same transaction, for jobs that have several records under way: set record->done and
 * submit it. *record_out is overwritten.
 */
RESULT record_prepare_for_job(const struct action_pair *pair, struct change *change, struct record *record_out, struct error *err)
    __attribute__((nonnull(1, 3, 4)));

/**
 * A number that is another one once a durable change, of this gateway or any other, reached what may be kept in memory
 * of `repository`. Ask before reading rows; when it is the same after a later record is done, then no change that was
 * acknowledged before that record was submitted reached them. Never blocks.
 */
uint64_t sequencer_alterations(const struct sequencer *sequencer, const struct uuid *repository)
    __attribute__((nonnull));

/** One more request that libmicrohttpd or our gate refused by itself; becomes an http.refused event within seconds. */
void sequencer_count_refused(struct sequencer *sequencer);

struct keyd_identity;

struct sequencer_options {
    const char *conninfo;                    /* PostgreSQL, as the application's role */
    const struct pg_table *const *tables;    /* NULL-terminated: every statement table that changes use */
    struct keyd_client *keyd;                /* signs checkpoints, wraps subjects' keys */
    char origin[128];                        /* of the log: "registry.example/audit" */
    char instance[64];                       /* of this gateway, unique among those on one log */
    /** NULL, or told what a person should know: on any thread, seldom. */
    void (*notice)(const char *what, const struct error *why);
    unsigned deadline_ms;                    /* a record that waited longer comes back RECORD_UNAVAILABLE; 10000 */
};

/**
 * Opens its connection, checks the log against keyd's last checkpoint and leaf by leaf what that does not cover, has it
 * signed, starts its threads. ERROR_FORKED: the log in the database is not the one that was signed.
 */
RESULT sequencer_start(const struct sequencer_options *options, struct sequencer **sequencer_out, struct error *err);
/**
 * For --check-config: does the log in this database have the name that keyd signs under, and all that keyd has signed? Looks at
 * name and size alone, which says less than a start, and changes nothing.
 */
RESULT sequencer_look(const char *conninfo, const struct keyd_identity *identity, struct error *err);
/** The last commit succeeded, and the log is signed up to 5 s ago: /readyz. */
bool sequencer_is_ready(const struct sequencer *sequencer, struct error *err);
/**
 * Has the log signed at once instead of by and by, and waits until entry `sequence`, which is in it, is covered. For whoever must
 * convince sijil-keyd that it is. ERROR_UNAVAILABLE when keyd does not sign, or not within 5 s. Blocks; never on an event thread.
 */
RESULT sequencer_await_signed(struct sequencer *sequencer, uint64_t sequence, struct error *err);
/** The newest that sijil-keyd signed. ERROR_UNAVAILABLE before the first; ERROR_FORKED once the log contradicts one. */
RESULT sequencer_checkpoint(const struct sequencer *sequencer, struct signed_checkpoint *checkpoint_out, struct error *err);
/**
 * The database contradicts what was signed: from now on nothing is recorded, so nothing is served, until the gateway is
 * started again; sijil-keyd is told, and signs no checkpoint for anybody until an operator says that the log is restored. Only the first reason counts, and is told to `notice`. Thread-safe; `why` is ERROR_FORKED.
 */
void sequencer_set_forked(struct sequencer *sequencer, const struct error *why);
/** Finishes what waits, then stops. No record may be submitted any more. */
void sequencer_free(struct sequencer *sequencer);
DEFINE_OWNED(sequencer);
