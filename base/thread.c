#include "base/thread.h"

#include <time.h>

#include "base/clock.h"

static void done(struct thread *thread)
{
    (void)pthread_cond_destroy(&thread->woken);
    (void)pthread_mutex_destroy(&thread->mutex);
    *thread = (struct thread){.has_started = false};
}

struct result thread_start(struct thread *thread, void *(*run)(void *argument), void *argument, const char *task,
                           struct error *err)
{
    (void)pthread_mutex_init(&thread->mutex, NULL);
    clock_condition(&thread->woken);
    thread->has_started = pthread_create(&thread->id, NULL, run, argument) == 0;
    if (thread->has_started) return SUCCESS;
    done(thread);
    return failure(err, ERROR_NO_MEMORY, "can't start the thread that %s", task);
}

void thread_stop(struct thread *thread)
{
    if (!thread->has_started) return;
    (void)pthread_mutex_lock(&thread->mutex);
    thread->is_stopping = true;
    (void)pthread_cond_signal(&thread->woken);
    (void)pthread_mutex_unlock(&thread->mutex);
    (void)pthread_join(thread->id, NULL);
    done(thread);
}

void thread_wait(struct thread *thread, int64_t until_ms)
{
    const struct timespec until = {.tv_sec = (time_t)(until_ms / 1000), .tv_nsec = (long)(until_ms % 1000) * 1000000L};

    if (until_ms == INT64_MAX) (void)pthread_cond_wait(&thread->woken, &thread->mutex);
    else (void)pthread_cond_timedwait(&thread->woken, &thread->mutex, &until);
}

bool thread_sleep(struct thread *thread, int64_t milliseconds)
{
    const int64_t until_ms = clock_monotonic_ms() + milliseconds;

    (void)pthread_mutex_lock(&thread->mutex);
    while (!thread->is_stopping && clock_monotonic_ms() < until_ms) thread_wait(thread, until_ms);
    const bool goes_on = !thread->is_stopping;
    (void)pthread_mutex_unlock(&thread->mutex);
    return goes_on;
}

bool thread_is_stopping(struct thread *thread)
{
    (void)pthread_mutex_lock(&thread->mutex);
    const bool is_stopping = thread->is_stopping;
    (void)pthread_mutex_unlock(&thread->mutex);
    return is_stopping;
}
