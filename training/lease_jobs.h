/*
 * training/lease_jobs.h -- what moves runs without a permit of a request: the search for work, what holders of leases say, and the
 * server's own work (docs/runs.md).
 *
 * Closed to handlers (tests/lint/closed_headers.txt). The caller has found the runner's key in a document in force. What moves a run
 * records its own permit.
 */
#pragma once

#include "training/lease.h"

/** *found_out false: there is none. It reserves and permits nothing: the change below does. */
RESULT run_claim(struct pg *pg, const struct run_offer *offer, struct run_claim *claim_out, bool *found_out, struct error *err);

/** What a lease's holder may know. */
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

/** What a heartbeat says. */
struct run_heard {
    const char *phase; /* "fetching", "running" or "finishing" */
    int64_t progress;  /* 0 to 100; -1: unknown */
    int64_t cpu_ms, device_ms, memory_bytes;
};
/** Puts the end of an attempt off by RUN_SILENCE_MS. ERROR_CONFLICT: it has ended. */
RESULT run_heartbeat(struct pg *pg, const struct run_holder *holder, const struct run_heard *heard, struct error *err);

/* --- what the server does by itself; these block --- */

/** Fails a run that must not go on, such as one that the policies of today forbid. ERROR_CONFLICT: it has ended. */
RESULT run_stop(struct sequencer *sequencer, const struct resource *where, const struct uuid *run, const char *reason,
                struct error *err);
/** Ends a run that finished, with the admission that sijil-keyd has signed. ERROR_CONFLICT: it is not finishing. */
RESULT run_admit(struct sequencer *sequencer, const struct resource *where, const struct uuid *run,
                 const struct run_signed *admission, struct error *err);
/** Ends a run whose result can't be admitted. ERROR_CONFLICT: it is not finishing. */
RESULT run_quarantine(struct sequencer *sequencer, const struct resource *where, const struct uuid *run, const char *reason,
                      struct error *err);
/** Keeps a result that came too late, or twice; nothing follows from it. The same again changes nothing. */
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
 * Whether this is the key's only session: a higher generation begins another one; the same generation must be of the same session.
 * Else two runners have the key, or one has an old journal: the key is suspended, which the log says, and its leases are lost.
 * ERROR_CONFLICT: it is suspended, now or already. `where`: a resource for the event.
 */
RESULT run_session_begin(struct sequencer *sequencer, struct pg *pg, const struct run_session *session,
                         const struct resource *where, struct error *err);
