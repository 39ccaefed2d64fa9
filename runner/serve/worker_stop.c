#include "runner/serve/worker_stop.h"

#include <time.h>

#include "base/clock.h"

volatile sig_atomic_t worker_cancelled;
atomic_bool worker_gives_up;
static atomic_bool is_idle = true;

void worker_cancel(void)
{
    worker_cancelled = 1;
    if (atomic_load(&is_idle)) atomic_store(&worker_gives_up, true);
}

void worker_set_idle(bool idle)
{
    atomic_store(&is_idle, idle);
    if (idle && worker_cancelled != 0) atomic_store(&worker_gives_up, true);
}

bool worker_pause(int64_t milliseconds)
{
    const struct timespec tenth = {.tv_nsec = 100000000};

    for (int64_t passed = 0; passed < milliseconds && worker_cancelled == 0; passed += 100) (void)nanosleep(&tenth, NULL);
    return worker_cancelled == 0;
}

/* A request to stop must not lose a result, so this goes on waiting. The serving process kills a worker that takes too long. */
bool worker_tries_again(const struct error *err, unsigned attempt, int64_t ends_ms)
{
    const int64_t pause_ms = (int64_t)WORKER_PAUSE_LEAST_MS << (attempt < 5 ? attempt : 5);
    const struct timespec tenth = {.tv_nsec = 100000000};

    if (err->kind != ERROR_UNAVAILABLE || clock_wall_ms() + pause_ms >= ends_ms) return false;
    for (int64_t passed = 0; passed < pause_ms && !atomic_load(&worker_gives_up); passed += 100) (void)nanosleep(&tenth, NULL);
    return !atomic_load(&worker_gives_up);
}
