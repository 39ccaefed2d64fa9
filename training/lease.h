/*
 * training/lease.h -- a run from its order to its end: orders, leases, and what their holders change. Heartbeats are in training/work.h (docs/runs.md).
 *
 * A lease is one node of one attempt, for one runner's key. A run of several nodes is leased when each of its nodes is
 * leased. Before the call the caller finds the runner's key in a document in force (documents/view.h), and checks signatures.
 */
#pragma once

#include "registry/held_manifest.h"
#include "training/format/envelope.h"
#include "training/run.h"

#define RUN_KEY_SIZE           44 /* a thumbprint (RFC 7638) and '\0' */
#define RUN_SESSION_SIZE       16
#define RUN_JURISDICTIONS_MAX  16 /* docs/formats/run.md */
#define RUN_OFFERED_MAX        64 /* devices */
#define RUN_HEARTBEAT_EVERY_MS 10000
#define RUN_SILENCE_MS         40000 /* four intervals of heartbeats: after such a silence the attempt is lost */
#define RUN_BARRIER_EVERY_MS   1000  /* until a node that is ready asks again whether all are */
#define RUN_LISTEN_SIZE        65    /* "[", an address of IPv6 with 39 characters, "]:", a port, '\0'; with room */
#define RUN_GATHER_MS          60000 /* of the first gathering of a run; each next one waits twice as long */
#define RUN_GATHER_LONGEST     30    /* times as long as the first: half an hour */
#define RUN_GATHER_EVERY_MS    2000  /* until a runner that is kept for a run looks again, */
#define RUN_GATHER_EACH_MS     50 /* and at least so long for each node, so that all of them together look 20 times a second; */
#define RUN_GATHER_LATEST_MS   10000 /* at most so long, below RUN_SHARE_MS */
#define RUN_SHARE_MS           15000 /* after such a silence it is not counted any more */
#define RUN_TAKE_MS            30000 /* for the leases of all nodes, once enough runners are kept, and RUN_TAKE_EACH_MS for each */
#define RUN_TAKE_EACH_MS       500
#define RUN_OFFER_EVERY_S      60  /* an offer that has not changed is noted again */
#define RUN_OFFER_LIVE_S       120 /* a runner that has asked since then is counted for a run that waits */

extern const struct pg_table run_claim_table, run_lease_table, run_offer_table, run_queue_table, run_session_table;

/* --- the order --- */

/** The demands of an order on a runner; views into its envelope. */
struct run_need {
    int64_t attempts, nodes, time_s, cpus, memory_bytes, isolation, assurance; /* time_s with the grace; isolation: its rank */
    size_t jurisdiction_count;
    struct bytes jurisdictions[RUN_JURISDICTIONS_MAX]; /* jurisdictions */
    int64_t devices, device_memory;
    const char *device_type, *device_mig; /* "": none */
    int64_t expires_ms;
};
struct run_need run_need_of(const struct run_envelope *order);

/**
 * A change: stores the order of a requested run. ERROR_CONFLICT. The permit: run.order on the project. The views of `need` and
 * `order` must outlive the change.
 */
struct run_order {
    struct change change;
    struct resource where; /* the project */
    struct uuid run;
    struct run_need need;
    const char *regions; /* where the policies allow the run, with blanks between them */
    struct run_signed order;
};
/** The caller sets order_out->regions afterwards. */
void run_order_prepare(const struct resource *where, const struct run_envelope *order, const struct run_signed *stored,
                       struct run_order *order_out);

/* --- leases --- */

/** A lease outlives the run's longest time by so many seconds: in them code and inputs are fetched, and outputs are stored. */
#define RUN_FETCH_S 3600

/**
 * The free capacity of a runner. Pool, region, places, assurance, devices_most and the end come from its document. The isolation is the
 * weaker one of the document's and the runner's own. The other values come from the runner itself. Views.
 */
struct run_offer {
    const char *key;
    const struct uuid *organisation, *project; /* of the document's scope; NULL: any */
    const char *pool, *region;
    size_t jurisdiction_count;
    struct bytes jurisdictions[RUN_JURISDICTIONS_MAX]; /* a run must be allowed in all of them */
    int64_t isolation, assurance, cpus, memory_bytes;
    int64_t devices_most; /* that the document names */
    int64_t nodes;        /* of one run of several, that it can serve at once; 0: it gets no such run */
    int64_t
        enrolled_until_ms; /* the document's end: sijil-keyd signs no lease beyond it, so a run that may take longer does not fit */
    size_t device_count;
    struct bytes device_types[RUN_OFFERED_MAX], device_migs[RUN_OFFERED_MAX];
    int64_t device_memory[RUN_OFFERED_MAX];
    const struct uuid *run; /* only this run, in this attempt: a scheduler's job names it; NULL: any */
    int64_t attempt;
};

/** The oldest run that fits an offer. No other runner gets it for ten seconds. */
struct run_claim {
    struct uuid run;
    struct resource where;                  /* the project */
    int64_t attempt, attempts, node, nodes; /* attempts: how many the order allows */
    int64_t time_s, expires_ms;             /* of the order */
};

/** The holder of a lease, as the runner names itself in each call. */
struct run_holder {
    struct uuid run;
    int64_t attempt, node;
    const char *key; /* of the authenticated runner */
};

/** A change: leases one more node. ERROR_CONFLICT: the claim has run out. The permit: run.lease on the project. */
struct run_lease {
    struct change change;
    struct resource where;
    struct run_claim claim;
    struct run_holder holder;
    struct uuid runner;
    uint8_t session[RUN_SESSION_SIZE];
    int64_t ends_ms;
};
void run_lease_prepare(const struct run_claim *claim, const struct run_lease *of, struct run_lease *lease_out);

/** Keeps the envelope that sijil-keyd has signed. ERROR_CONFLICT: the attempt has ended. */
RESULT run_lease_keep(const struct permit *permit, struct pg *pg, const struct run_lease *lease, struct bytes envelope,
                      struct error *err) __attribute__((nonnull));

/**
 * A change by the holder of a lease: moves the run to `to`, stores the runner's envelope as `kind` ("refusal", "result"), and
 * ends the attempt. With RUN_STATE_RUNNING it stores nothing, and the attempt goes on. ERROR_CONFLICT: the attempt has ended. The
 * permit: `action` on the project.
 */
struct run_step {
    struct change change;
    struct resource where;
    struct run_holder holder;
    enum action action;
    enum run_state to;
    const char *kind, *reason; /* reason NULL: none */
    const char *why;           /* for the runners of the other nodes; NULL: they see the reason */
    const char *outcome_name;  /* of the attempt, in its row */
    struct run_signed stored;
    struct bytes certificate;          /* of a result: the envelope of its key's certificate */
    const struct held_manifests *held; /* likewise; NULL: none */
    const struct run_outcome *outcome; /* likewise */
};
void run_start_prepare(const struct resource *where, const struct run_holder *holder, struct run_step *step_out);
void run_refuse_prepare(const struct resource *where, const struct run_holder *holder, const struct run_signed *refusal,
                        const char *reason, struct run_step *step_out);
/**
 * A refusal whose check is RUN_CHECK_MACHINE: the whole attempt ends, and the run is ordered again; after the last attempt it fails. This runner
 * does not get the run again for RUN_SILENCE_MS.
 */
void run_return_prepare(const struct resource *where, const struct run_holder *holder, const struct run_signed *refusal,
                        bool is_last, const char *reason, struct run_step *step_out);
/** What a result means for its run. RUN_STATE_FINISHING: it succeeded, and waits for its admission; RUN_STATE_FAILED, RUN_STATE_CANCELLED. */
struct run_outcome {
    enum run_state state;
    char reason[RUN_REASON_SIZE];            /* ""; why it ended otherwise */
    int64_t cpu_ms, device_ms, memory_bytes; /* that the attempt used, by its result; the heartbeats may have reported less */
};
/** If it succeeded, the run was running, and is finishing with the result of its last node. The outcome must outlive the change, and so must step_out->held. */
void run_finish_prepare(const struct resource *where, const struct run_holder *holder, const struct run_signed *result,
                        const struct run_outcome *outcome, struct run_step *step_out);
