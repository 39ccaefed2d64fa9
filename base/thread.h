/*
 * base/thread.h -- one thread of an object that waits for a moment or a signal, and can be stopped.
 *
 * The mutex protects what the thread shares with others. To wake the thread, change that with the mutex held and signal `woken`.
 */
#pragma once

#include <pthread.h>
#include <stdint.h>

#include "base/result.h"

struct thread {
    pthread_mutex_t mutex;
    pthread_cond_t woken;
    pthread_t id;
    bool has_started, is_stopping; /* the second with the mutex */
};

/**
 * Starts `run` with `argument`; it returns soon after is_stopping is set. `task` completes "can't start the thread that ...".
 * ERROR_NO_MEMORY; then there is nothing to stop.
 */
RESULT thread_start(struct thread *thread, void *(*run)(void *argument), void *argument, const char *task, struct error *err)
    __attribute__((nonnull));
/** Sets is_stopping, wakes the thread and waits for its end. Does nothing for a zeroed thread. */
void thread_stop(struct thread *thread);

/** With the mutex: waits for a signal, at most until `until_ms` of clock_monotonic_ms() (INT64_MAX: without an end). */
void thread_wait(struct thread *thread, int64_t until_ms);
/** Without the mutex: waits that long. False: the thread must end. */
bool thread_sleep(struct thread *thread, int64_t milliseconds);
/** Without the mutex. */
bool thread_is_stopping(struct thread *thread);
