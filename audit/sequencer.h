/*
 * audit/sequencer.h -- the only way to write to a gateway's log (docs/formats/audit-log.md section 14).
 *
 * Events and short changes wait in memory while the previous group commits. All waiting ones become the next group: the log
 * is locked, state and epoch are read, changes run, leaves are hashed, and one commit makes all durable. Only then the
 * requests continue. An event thread never waits here: submitting returns at once. `done` is called later, exactly once, on
 * a thread of the sequencer; it must not block.
 */
#pragma once

#include "audit/permit.h"
#include "audit/signed_checkpoint.h"
#include "storage/pg.h"

struct audit_subject;
struct record_waiter;
struct sequencer;
struct keyd_client;

/** The caches that become invalid once a change is durable (sequencer_alterations()). */
enum change_invalidation {
    CHANGE_INVALIDATES_ALL = 0,    /* everything that is cached; the default */
    CHANGE_INVALIDATES_REPOSITORY, /* manifests and tags of change->repository */
    CHANGE_INVALIDATES_NOTHING     /* nothing that is cached: sessions and blobs */
};

#define AUDIT_CHANGES_TOGETHER 32

/** A short change, made in the same transaction as its event. */
struct change {
    /**
     * Runs prepared statements on the sequencer's connection. It turns a conflict, which is a result without rows, into
     * ERROR_CONFLICT, ERROR_NOT_FOUND or ERROR_INVALID; the event then says `failed`. When the group was rolled back, it is
     * called again from the start, so it must keep no state of an earlier call.
     */
    /* clang-format off */
    RESULT (*run)(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
        __attribute__((nonnull(1, 2, 4)));
    /* clang-format on */
    /**
     * NULL, or adds the usual work of run() to a pipeline, as one statement (pg_pipeline_add()). If the statement can't do
     * all of the work, it must raise an error, for example by a division by zero. Then run() is called, which does the work
     * or returns the reason.
     */
    RESULT (*add)(const struct permit *permit, struct change *change, struct pg *pg, struct error *err) __attribute__((nonnull));
    /** NULL, or as add(), in one statement for several changes that have this function and stand one behind the other; at most AUDIT_CHANGES_TOGETHER. */
    /* clang-format off */
    RESULT (*add_all)(const struct permit *const *permits, struct change *const *changes, size_t count, struct pg *pg, struct error *err)
        __attribute__((nonnull));
    /* clang-format on */
    /** With add or add_all: takes the answer of its statement, once the change is durable. Not called if the answer was lost. */
    void (*take)(struct change *change, const struct pg_rows *answer);
    size_t row; /* with add_all: of the answer; set by the sequencer */
    /**
     * Set if run() raises the authorization epoch. The group then holds the epoch's lock exclusively, and this change is its
     * last one. So decisions from before the change are made again after it, but for those that outlast it.
     */
    bool raises_epoch;
    bool is_alone; /* with raises_epoch: its group also begins with it, so all earlier events are in the log when it runs */
    /** With raises_epoch: it gives a role, and takes nothing. So several of them end a group, if the decision of each outlasts grants. */
    bool only_gives;
    enum change_invalidation invalidates;
    struct uuid repository; /* CHANGE_INVALIDATES_REPOSITORY */
    /**
     * NULL, or the text that replaces the detail of the event's only resource, if only the change knows it, such as the id of
     * a new row. At most CHANGE_DETAIL_MAX bytes, which must outlive the record; no personal data.
     */
    const char *detail;
    /** With detail: the subject that the change concerns, or NULL. The event does not name it; its pseudonym is appended to the
     *  detail. */
    const char *concerns_issuer, *concerns_subject; /* neither is "" */
};

/** The actor and its address, for the encrypted payload; they are never in the leaf. Views must outlive the record. */
struct event_context {
    const char *issuer, *subject; /* of the principal; NULL without one, and for later events under a permit */
    const char *client_address;   /* "127.0.0.1" */
    const char *user_agent;       /* may be NULL */
    const char *claims;           /* JSON text of the token's claims; may be NULL */
    const char *tried;            /* the name whose secret was wrong; may be NULL */
    const char *token;            /* id of the registry's token that was used; may be NULL */
    const char *act;              /* the signature of the request (audit/format/signed_act.h); may be NULL */
    const char *certificate;      /* x5t#S256 of the client's certificate; may be NULL */
    const char *purpose, *search; /* of a search in the log: why, and the conditions, which may name persons; may be NULL */
    char request_id[37];
};

/**
 * A request that is answered 429, because its principal or its organisation has used up its share. It has no event of its
 * own: denied.burst events count it. The first such event is durable before the answer, and states an upper bound. A
 * later event states the exact numbers, by principal, action, network and target. Views must outlive the record.
 */
struct refusal {
    const char *organisation; /* of the principal; "" if it is in none: then all requests of its issuer are counted together */
    enum action action;
    const char *target; /* as the caller named it, even if it does not exist; "" for none */
};

enum outcome { OUTCOME_ALLOWED, OUTCOME_DENIED, OUTCOME_FAILED, OUTCOME_COMPLETED };

enum record_status {
    RECORD_DONE, /* durable; `permit` is set if the decision allowed */
    /** Rights or policies that the decision depends on have changed since: decide again and submit again. Nothing was
     *  recorded. An event that completes an operation with a change under its permit may be stale too: bytes that arrived
     *  under rights that no longer exist are not kept. */
    RECORD_STALE,
    RECORD_REFUSED, /* the change failed (`error` has the reason) and is undone; a `failed` event is durable */
    /** The log can't be written: answer 503. The event is counted, and recorded later as log.unrecorded. `error` is
     *  ERROR_UNCERTAIN if a commit was sent and its answer was lost for good: event and change may be durable then. */
    RECORD_UNAVAILABLE
};

struct record {
    /* Set by the caller. Exactly one of decision, under and refusal is set. */
    struct decision *decision;     /* owned by the record until record_done() */
    const struct permit *under;    /* a later event of a permitted operation: its outcome */
    const struct refusal *refusal; /* a request that is not served; `context` has its principal, if there is one */
    enum outcome outcome;          /* with `under` only: OUTCOME_COMPLETED or OUTCOME_FAILED */
    char note[80];                 /* a detail, such as "67108864 bytes" of an outcome; no personal data */
    struct event_context context;
    struct change *change; /* or NULL; it does not run if the decision denies */
    void (*done)(struct record *record);

    /* Set by the sequencer before done(). */
    enum record_status status;
    struct error error;
    uint64_t sequence;       /* of the event, when durable */
    uint64_t outdated_epoch; /* RECORD_STALE: a new decision needs rights newer than this epoch */
    bool is_in_burst;        /* counted in a denied.burst event: it has no sequence number */
    struct permit *permit;   /* owned by the record until taken with GIVE() */

    /* Used by the sequencer only. */
    struct record *next;
    struct audit_subject *resolved, *concerned, *day;
    bool joins_burst; /* the request will be counted in a burst */
    struct record_waiter *waiter;
    int64_t arrived_ms;
};

/** Takes `record` until done(). Never blocks and never fails: a record that can't be written comes back RECORD_UNAVAILABLE. */
void sequencer_submit(struct sequencer *sequencer, struct record *record) __attribute__((nonnull));
/** For threads that may block (jobs, start-up): submits, and waits until it is complete. Do not set record->done. */
void sequencer_submit_and_wait(struct sequencer *sequencer, struct record *record) __attribute__((nonnull));
/** Releases what the record owns. The record itself belongs to the caller. */
void record_done(struct record *record);

/**
 * A number that grows with each durable change, of this or another gateway, that makes cached rows of `repository` invalid.
 * Get the number before reading rows. Submit a record later, and compare when it is done: if the number is the same, then
 * no change that was acknowledged before the submission has reached these rows. Never blocks.
 */
uint64_t sequencer_alterations(const struct sequencer *sequencer, const struct uuid *repository) __attribute__((nonnull));

/** Counts a request that libmicrohttpd or our own checks refused before the pipeline. An http.refused event follows within
 *  seconds. */
void sequencer_count_refused(struct sequencer *sequencer);

struct keyd_identity;

#define SEQUENCER_TABLES_MAX 80 /* of statements; a gateway has 78 */

struct sequencer_options {
    const char *conninfo; /* PostgreSQL, as the application's role */
    const struct pg_table *const
        *tables;              /* NULL-terminated, at most SEQUENCER_TABLES_MAX: all statement tables that changes use */
    struct keyd_client *keyd; /* signs checkpoints, wraps subjects' keys */
    char origin[128];         /* of the log: "registry.example/audit" */
    char instance[64];        /* of this gateway, unique among those on one log */
    /** NULL, or reports a condition to the operator: called on any thread, seldom. */
    void (*notice)(const char *what, const struct error *why);
    bool succeeds;        /* for the recovery alone: the log under a new origin has no entry of its own yet */
    unsigned deadline_ms; /* a record that waited longer comes back RECORD_UNAVAILABLE; 0: 10000 */
};

/**
 * Connects, checks the log against keyd's last checkpoint, checks the entries after the checkpoint leaf by leaf, has the
 * log signed, and starts the threads. ERROR_FORKED: the log in the database is not the one that was signed.
 */
RESULT sequencer_start(const struct sequencer_options *options, struct sequencer **sequencer_out, struct error *err);
/**
 * For --check-config: whether the log in this database has the name that keyd signs, and at least the signed size. This
 * checks only name and size, so it proves less than a start. It changes nothing.
 */
RESULT sequencer_check_identity(const char *conninfo, const struct keyd_identity *identity, struct error *err);
/** For /readyz: whether the last commit succeeded, and the log is signed up to 5 s ago. */
bool sequencer_is_ready(const struct sequencer *sequencer, struct error *err);
/**
 * Has the log signed at once and waits until entry `sequence`, which is in the log, is covered: for a caller that must
 * prove the entry to sijil-keyd. ERROR_UNAVAILABLE if keyd does not sign, or not within 5 s. Blocks; never call it on an
 * event thread.
 */
RESULT sequencer_await_signed(struct sequencer *sequencer, uint64_t sequence, struct error *err);
/** The newest checkpoint that sijil-keyd signed. ERROR_UNAVAILABLE before the first; ERROR_FORKED once the log
 *  contradicts one. */
RESULT sequencer_checkpoint(const struct sequencer *sequencer, struct signed_checkpoint *checkpoint_out, struct error *err);
/** The keys of the log, as sijil-keyd names them. Lives as long as the sequencer; a new key makes a new one. */
const struct log_keys *sequencer_log_keys(const struct sequencer *sequencer);
/**
 * Call it when the database contradicts the signed log. From then on nothing is recorded, so nothing is served, until the
 * gateway is restarted. sijil-keyd gets a report, and signs no checkpoint for any gateway until an operator declares the log
 * restored.
 * Only the first reason is kept and reported to `notice`. Thread-safe; `why` is ERROR_FORKED.
 */
void sequencer_set_forked(struct sequencer *sequencer, const struct error *why);
/** Completes the records that wait, then stops. No record may be submitted any more. */
void sequencer_free(struct sequencer *sequencer);
DEFINE_OWNED(sequencer);
