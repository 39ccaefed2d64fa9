/*
 * training/work.h -- the requests of runners about runs: a runner looks for work, and reports, under its own key (docs/runs.md).
 *
 * The caller has found the runner's key in a document in force. A lookup only finds what the runner itself names. Six functions need no
 * permit, because there is no event (docs/architecture.md): run_claim() and run_gather_join() reserve a run for seconds, run_gather_note() counts a runner, and they tell nobody; run_offer_note() notes what a runner has free; only the
 * change of run_lease() leases it. run_heartbeat() and run_ready() note that the holder of a lease, which has its event, is alive; run_ready() keeps the certificate of its key.
 */
#pragma once

#include "storage/lookup.h"
#include "training/lease.h"

/* --- looking for work --- */

/** A run of several nodes for which a runner is kept, or can be. */
struct run_gather {
    struct run_claim claim; /* its run, project and nodes; nothing is leased */
    int64_t number;         /* of the run, in the order of lists */
    int64_t share;          /* so many nodes are for this runner */
    bool is_gathered;       /* enough runners are kept: run_claim() gives this one its leases */
    bool
        is_likely; /* so many runners that fit have been seen within a day, and this one was kept for no other run in vain: so it gets no younger run */
};
/** The oldest run of several nodes that fits an offer and lacks runners, or of which this runner has still a lease to take. */
RESULT run_gather_find(struct lookup *lookup, const struct run_offer *offer, struct run_gather *gather_out, bool *found_out,
                       struct error *err);
/** RUN_KEEPS_NOT: meanwhile another run has begun to gather, or this one needs no runner any more. RUN_KEEPS_ENOUGH: each has RUN_TAKE_MS to take its leases. */
enum run_keeping { RUN_KEEPS_NOT, RUN_KEEPS, RUN_KEEPS_ENOUGH };
/**
 * Keeps the runner for the run for RUN_SHARE_MS; call it again meanwhile. It leases nothing, and uses up no attempt. The caller has decided that
 * the runner may have the run. In an organisation one run of a pool begins to gather at a time, also if several gateways are asked at once.
 */
RESULT run_gather_join(struct pg *pg, const struct run_offer *offer, const struct run_gather *gather,
                       enum run_keeping *keeping_out, struct error *err);

/** The runner fits the run, and gets another one: it was seen. */
RESULT run_gather_note(struct pg *pg, const struct run_offer *offer, const struct run_gather *gather, struct error *err);

/**
 * Notes what a runner that found no work has free, for people that look at a run that waits (run_read_offers()). One row for a key. It is written
 * again if it has changed, or is RUN_OFFER_EVERY_S old.
 */
RESULT run_offer_note(struct pg *pg, const struct run_offer *offer, struct error *err);

/**
 * Finds a run and keeps it from other runners for ten seconds. *found_out false: no run fits. Only the change of run_lease
 * leases the run. `gather`: what run_gather_find() found; NULL: nothing. If it is likely,
 * the runner gets no younger run of one node.
 */
RESULT run_claim(struct pg *pg, const struct run_offer *offer, const struct run_gather *gather, struct run_claim *claim_out,
                 bool *found_out, struct error *err);

/** A lease that the runner has not begun yet: its answer was lost, or its gateway died. */
struct run_leased {
    struct run_claim claim;
    int64_t ends_ms;
    bool is_signed; /* its envelope is kept */
};
/** The oldest unended lease of this session that has not begun; if the offer names a run, of this run. */
RESULT run_leased_find(struct lookup *lookup, const struct run_offer *offer, const uint8_t session[RUN_SESSION_SIZE],
                       struct run_leased *leased_out, bool *found_out, struct error *err);

/**
 * For a run that today's policies forbid in this region: it is not offered there any more. *regions_out: the number of its other regions. A run that
 * another key has claimed is left as it is, and counts as one with another region. The permit: runner.ask above the project; its detail is the
 * runner's key.
 */
RESULT run_region_drop(const struct permit *permit, struct pg *pg, const struct run_claim *claim, const char *region,
                       int64_t *regions_out, struct error *err) __attribute__((nonnull));

/**
 * For a lease that sijil-keyd refuses to sign: the attempt ends at once, and the run is ordered again for other runners; after the last attempt it fails.
 * ERROR_CONFLICT: it has ended. The permit: run.lease.
 */
RESULT run_lease_take_back(const struct permit *permit, struct sequencer *sequencer, const struct run_lease *lease,
                           const char *why, struct error *err) __attribute__((nonnull));

/* --- what a scheduler must know --- */

#define RUN_QUEUE_MAX         256
#define RUN_QUEUE_REGIONS_MAX 16

/** A run that is ordered or held by runners; views into a row. */
struct run_queued {
    struct uuid run;
    int64_t attempt; /* that runs, or that comes next */
    bool is_held;
    int64_t nodes, cpus, memory_bytes, time_s, devices;
    const char *device_type, *regions; /* regions: those of the query where it may be, with blanks between */
    const char *order;                 /* the envelope */
};
/** Which runs: of this scope, of the pool, and allowed in one of the regions; and who is told of them. */
struct run_queue_query {
    const struct uuid *organisation, *project; /* NULL: any */
    const char *pool;
    size_t region_count;
    struct bytes regions[RUN_QUEUE_REGIONS_MAX];
    RESULT (*visit)(void *context, const struct run_queued *queued, struct error *err);
    void *context;
};
/** Notes that the scheduler with this key has asked for `query`: run_offer_note() for one that says its regions alone. */
RESULT run_offer_note_queue(struct pg *pg, const char *key, const struct run_queue_query *query, struct error *err);
/** Visits at most RUN_QUEUE_MAX of them, the oldest first. *more_out: there are more. */
RESULT run_queue_visit(struct lookup *lookup, const struct run_queue_query *query, bool *more_out, struct error *err);

/* --- sessions --- */

struct run_session {
    const char *key;
    struct uuid runner;
    uint8_t session[RUN_SESSION_SIZE]; /* a hash, not what the runner names */
    int64_t generation;                /* of the runner's journal: it rises at each start */
};
/** How the key's newest session compares with this one. OVERTAKEN: the same session has asked again since, with a later generation. */
enum run_session_place { RUN_SESSION_NEW, RUN_SESSION_KNOWN, RUN_SESSION_OVERTAKEN };
/** NEW for a suspended key, too. */
RESULT run_session_find(struct lookup *lookup, const struct run_session *session, enum run_session_place *place_out,
                        struct error *err);
/**
 * Checks that this is the key's only session. A higher generation begins a new session; an equal generation must be of the same
 * session. Otherwise two runners have the key, or one runner has an old journal. Then the key is suspended, an event records
 * that, and the key's leases are lost. An overtaken question changes nothing. ERROR_CONFLICT: the key is suspended, by this call or before. The permit: runner.ask.
 */
RESULT run_session_begin(const struct permit *permit, struct sequencer *sequencer, struct pg *pg,
                         const struct run_session *session, struct error *err) __attribute__((nonnull));

/* --- reports of the holder of a lease --- */

/** The state of a lease, for its holder. */
struct run_held {
    struct resource where; /* the project */
    enum run_state state;
    struct uuid runner;
    int64_t leased_ms, ends_ms; /* of the lease */
    int64_t nodes;              /* of the run */
    bool has_ended;             /* the attempt */
    char phase[16];
    char reason[RUN_REASON_SIZE];      /* why the run ended, or the attempt; "" */
    uint8_t session[RUN_SESSION_SIZE]; /* that has asked for the lease */
    uint8_t newest[RUN_SESSION_SIZE];  /* of the runner's key; zeros: it has none */
    char suspended[RUN_REASON_SIZE];   /* why the runner's key is suspended; "" */
};
/** Which sessions may report about a lease. */
enum run_reporter {
    RUN_REPORTER_OF_LEASE, /* the one that has asked for it, while it is the newest of its key */
    RUN_REPORTER_NEWEST    /* the newest of the key: a runner that was started again sends a result that it has kept */
};
/**
 * Whether this session may report about the lease. ERROR_CONFLICT: the key is suspended, or the session is another one. So a thief with a copy of key and
 * journal can't act on what the runner itself has leased.
 */
RESULT run_held_check(const struct run_held *held, const uint8_t session[RUN_SESSION_SIZE], enum run_reporter reporter,
                      struct error *err);
/** ERROR_NOT_FOUND: there is no such lease, or it is another key's. */
RESULT run_held_find(struct lookup *lookup, const struct run_holder *holder, struct run_held *held_out, struct error *err);
/** The newest lease of the run that this key has had. ERROR_NOT_FOUND. */
RESULT run_held_newest(struct lookup *lookup, const struct uuid *run, const char *key, struct run_holder *holder_out,
                       struct error *err);
/**
 * Whether an envelope, whose signature the caller has checked, is the lease of this holder under this order now. The row alone proves nothing, because
 * a thief of the database's role can write any row. ERROR_DENIED.
 */
RESULT run_lease_check(const struct run_envelope *lease, const struct run_envelope *order, const struct run_holder *holder,
                       int64_t now_ms, struct error *err);

/** The content of a heartbeat. */
struct run_heard {
    const char *phase; /* "fetching", "running" or "finishing" */
    int64_t progress;  /* 0 to 100; -1: unknown */
    int64_t cpu_ms, device_ms, memory_bytes;
};
/** Moves the end of an attempt to RUN_SILENCE_MS from now. ERROR_CONFLICT: it has ended. */
RESULT run_heartbeat(struct pg *pg, const struct run_holder *holder, const struct run_heard *heard, struct error *err);

/** Of a node that is ready to start. */
struct run_readiness {
    const char *listen;      /* where it listens for the others; "": nowhere */
    const char *certificate; /* the envelope: of the key that will sign its result. The caller has checked it */
};
/**
 * Notes that a node is ready to start. It counts as a heartbeat. *ready_out: how many nodes of the attempt are. Two that come at once may not see each
 * other: each asks again. ERROR_CONFLICT: the lease has ended, or the node listened elsewhere or had another certificate.
 */
RESULT run_ready(struct pg *pg, const struct run_holder *holder, const struct run_readiness *readiness, int64_t *ready_out,
                 struct error *err);
/** The other nodes of the holder's attempt, in order. Columns: node, where it listens or "", the envelopes of its lease and of its certificate. */
RESULT run_peers(struct lookup *lookup, const struct run_holder *holder, struct pg_rows **rows_out, struct error *err);

/** A run that must not go on, and why. */
struct run_forbidden {
    enum action action;           /* of the permit: runner.ask above the project, or run.heartbeat for a lease of the run */
    const struct resource *where; /* the run's project */
    const struct uuid *run;
    const char *reason;
};
/** Fails the run. ERROR_CONFLICT: it has ended. */
RESULT run_forbid(const struct permit *permit, struct sequencer *sequencer, const struct run_forbidden *forbidden,
                  struct error *err) __attribute__((nonnull));
