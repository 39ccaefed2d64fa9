/*
 * runner/serve/worker_stop.h -- how the process of a worker is asked to stop, and how it waits meanwhile.
 */
#pragma once

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/result.h"

extern volatile sig_atomic_t worker_cancelled; /* by the serving process, or by the registry */
extern atomic_bool worker_gives_up;            /* calls that fetch end at once */

#define WORKER_PAUSE_LEAST_MS 1000

/** For the handler of a signal: sets worker_cancelled, and while nothing runs worker_gives_up, too. */
void worker_cancel(void);
/** Whether a request to stop also ends calls at once: while nothing runs. */
void worker_set_idle(bool is_idle);
/** Waits for so long; false: the worker was cancelled. */
bool worker_pause(int64_t milliseconds);
/** After the failed call number `attempt` (from 0): whether it is worth another one before `ends_ms` (wall time); waits in between. */
bool worker_tries_again(const struct error *err, unsigned attempt, int64_t ends_ms);
