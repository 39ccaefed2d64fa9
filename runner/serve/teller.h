/*
 * runner/serve/teller.h -- tells the registry how a run goes: a thread that sends heartbeats and the log, while the sandbox is watched.
 *
 * The registry may answer that the run must stop: then the run's flags are set. A registry that can't be reached stops nothing.
 */
#pragma once

#include <signal.h>

#include "base/owned.h"
#include "runner/calls/calls.h"

struct teller_options {
    struct calls *calls; /* of the teller's thread alone, until teller_free() */
    const struct leased_run *leased;
    int log;                          /* the file that the log is written to; the teller reads it */
    volatile sig_atomic_t *cancelled; /* becomes 1 when the run must stop */
    atomic_bool *gives_up;            /* becomes true then, too */
};

struct teller;
/** Sends the first heartbeat at once. */
RESULT teller_start(const struct teller_options *options, struct teller **teller_out, struct error *err);

void teller_set_phase(struct teller *teller, const char *phase);
void teller_set_progress(struct teller *teller, int percent);
void teller_set_use(struct teller *teller, int64_t cpu_ms, int64_t device_ms, int64_t memory_bytes);
/** `bytes` more of the log are in the file. */
void teller_add_log(struct teller *teller, uint64_t bytes);
/** Whether the registry has said that the run must stop, or that it has ended. Then `reason_out` says why. */
bool teller_was_stopped(struct teller *teller, char reason_out[ANSWER_REASON_SIZE]);
struct teller_patience {
    int64_t until_ms;   /* monotonic time */
    int64_t still_ms;   /* for a registry that takes heartbeats, and no more of the log */
    int64_t stopped_ms; /* after the request to stop */
};
/** Waits until the whole log is sent. A registry that can't be reached is waited for until `until_ms`. */
void teller_flush(struct teller *teller, const struct teller_patience *patience);

void teller_free(struct teller *teller);
DEFINE_OWNED(teller);
