/*
 * training/lease_jobs.h -- changes of runs without the permit of a request: the search for work, the reports of lease holders,
 * and the server's own work (docs/runs.md).
 *
 * Closed to handlers (tests/lint/closed_headers.txt). The caller has found the runner's key in a document in force. A function
 * that moves a run records its own permit.
 */
#pragma once

#include "training/lease.h"

/**
 * Finds a run and keeps it from other runners for ten seconds. *found_out false: no run fits. Only the change of run_lease
 * leases the run.
 */
RESULT run_claim(struct pg *pg, const struct run_offer *offer, struct run_claim *claim_out, bool *found_out, struct error *err);

/** The state of a lease, for its holder. */
struct run_held {
    struct resource where; /* the project */
    enum run_state state;
    struct uuid runner;
    int64_t leased_ms, ends_ms; /* of the lease */
    bool has_ended;             /* the attempt */
    char phase[16];
    char reason[RUN_REASON_SIZE]; /* why the run ended; "" */
};
/** ERROR_NOT_FOUND: there is no such lease, or it is another key's. */
RESULT run_held_find(struct pg *pg, const struct run_holder *holder, struct run_held *held_out, struct error *err);

/** The content of a heartbeat. */
struct run_heard {
    const char *phase; /* "fetching", "running" or "finishing" */
    int64_t progress;  /* 0 to 100; -1: unknown */
    int64_t cpu_ms, device_ms, memory_bytes;
};
/** Moves the end of an attempt to RUN_SILENCE_MS from now. ERROR_CONFLICT: it has ended. */
RESULT run_heartbeat(struct pg *pg, const struct run_holder *holder, const struct run_heard *heard, struct error *err);

/* --- the server's own work; these functions block --- */

/** Fails a run that must not go on, such as one that today's policies forbid. ERROR_CONFLICT: it has ended. */
RESULT run_stop(struct sequencer *sequencer, const struct resource *where, const struct uuid *run, const char *reason,
                struct error *err);
/** Ends a run that finished, with the admission that sijil-keyd has signed. ERROR_CONFLICT: it is not finishing. */
RESULT run_admit(struct sequencer *sequencer, const struct resource *where, const struct uuid *run,
                 const struct run_signed *admission, struct error *err);
/** Ends a run whose result can't be admitted. ERROR_CONFLICT: it is not finishing. */
RESULT run_quarantine(struct sequencer *sequencer, const struct resource *where, const struct uuid *run, const char *reason,
                      struct error *err);
/** Stores a result that came too late, or twice. It has no effect on the run. A repeated call changes nothing. */
RESULT run_quarantine_late(struct sequencer *sequencer, const struct resource *where, const struct uuid *run,
                           const struct run_signed *result, struct error *err);
/** Ends attempts that were silent for too long, at most a hundred: each run is ordered again, or fails after its last attempt. */
RESULT run_lose_due(struct sequencer *sequencer, struct pg *pg, size_t *count_out, struct error *err);

/* --- sessions of runners --- */

struct run_session {
    const char *key;
    struct uuid runner;
    uint8_t session[RUN_SESSION_SIZE];
    int64_t generation; /* of the runner's journal: it rises at each start */
};
/**
 * Checks that this is the key's only session. A higher generation begins a new session; an equal generation must be of the same
 * session. Otherwise two runners have the key, or one runner has an old journal. Then the key is suspended, an event records
 * that, and the key's leases are lost. ERROR_CONFLICT: the key is suspended, by this call or before. `where` is the resource of
 * the event.
 */
RESULT run_session_begin(struct sequencer *sequencer, struct pg *pg, const struct run_session *session,
                         const struct resource *where, struct error *err);
