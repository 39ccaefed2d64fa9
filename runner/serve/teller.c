#include "runner/serve/teller.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/thread.h"

#define FIRST_EVERY_MS 10000 /* docs/runs.md; the registry's answer replaces it */
#define AGAIN_MS       2000  /* after a call that did not arrive */
#define GATHER_MS      500   /* small pieces of a log wait so long for more */
#define LOOK_MS        500   /* for a request to stop */

struct teller {
    struct teller_options options;
    struct thread thread;
    /* with the mutex */
    struct heartbeat heartbeat;
    uint64_t logged, sent;       /* bytes of the log: in the file, at the registry */
    int64_t moved_ms, beaten_ms; /* when the registry took something last: of the log, a heartbeat */
    bool was_stopped, is_quiet;  /* quiet: the registry takes no more of the log */
    char reason[ANSWER_REASON_SIZE];
    /* of the thread alone */
    int64_t beat_ms, log_ms; /* when the next ones are due */
    uint8_t piece[CALLS_LOG_MAX];
};

static void stop_run(struct teller *teller, const char *reason)
{
    (void)pthread_mutex_lock(&teller->thread.mutex);
    teller->was_stopped = teller->is_quiet = true;
    (void)snprintf(teller->reason, sizeof teller->reason, "%.256s", reason);
    (void)pthread_mutex_unlock(&teller->thread.mutex);
    teller->beat_ms = INT64_MAX; /* nobody waits for a further one */
    *teller->options.cancelled = 1;
    atomic_store(teller->options.gives_up, true);
}

static void say_stopped(struct teller *teller, const char *state, const char *reason)
{
    log_line(LOG_INFO, "the registry stops the run", "run", teller->options.leased->run, "state", state, "reason", reason, NULL);
    stop_run(teller, reason[0] == '\0' ? "the registry stops the run" : reason);
}

static void note_beaten(struct teller *teller)
{
    (void)pthread_mutex_lock(&teller->thread.mutex);
    teller->beaten_ms = clock_monotonic_ms();
    (void)pthread_cond_broadcast(&teller->thread.woken);
    (void)pthread_mutex_unlock(&teller->thread.mutex);
}

static void beat(struct teller *teller, const struct heartbeat *heartbeat)
{
    struct heartbeat_answer answer;
    struct error err = {0};

    if (calls_heartbeat(teller->options.calls, teller->options.leased, heartbeat, &answer, &err).ok) {
        teller->beat_ms = clock_monotonic_ms() + answer.every_ms;
        note_beaten(teller);
        if (answer.stop) say_stopped(teller, answer.state, answer.reason);
        return;
    }
    teller->beat_ms = clock_monotonic_ms() + AGAIN_MS;
    if (err.kind == ERROR_CONFLICT || err.kind == ERROR_NOT_FOUND || err.kind == ERROR_DENIED)
        say_stopped(teller, NULL, err.message);
    else log_error("a heartbeat did not arrive", &err);
}

static void note_sent(struct teller *teller, uint64_t sent)
{
    (void)pthread_mutex_lock(&teller->thread.mutex);
    teller->sent = sent < teller->logged ? sent : teller->logged;
    teller->moved_ms = clock_monotonic_ms();
    (void)pthread_cond_broadcast(&teller->thread.woken);
    (void)pthread_mutex_unlock(&teller->thread.mutex);
}

/* The log as a whole is a blob of the result, so what can't be streamed is not lost. */
static void be_quiet(struct teller *teller)
{
    (void)pthread_mutex_lock(&teller->thread.mutex);
    teller->is_quiet = true;
    (void)pthread_cond_broadcast(&teller->thread.woken);
    (void)pthread_mutex_unlock(&teller->thread.mutex);
}

static void send_log(struct teller *teller, uint64_t sent, uint64_t logged)
{
    const size_t length = logged - sent < sizeof teller->piece ? (size_t)(logged - sent) : sizeof teller->piece;
    uint64_t next = sent;
    struct error err = {0};

    teller->log_ms = clock_monotonic_ms() + (length < sizeof teller->piece ? GATHER_MS : 0);
    if (!file_read_at(teller->options.log, teller->piece, length, sent, &err).ok) {
        be_quiet(teller);
        log_error("the kept log can't be read", &err);
        return;
    }
    if (calls_log(teller->options.calls, teller->options.leased, sent, (struct bytes){teller->piece, length}, &next, &err).ok) {
        note_sent(teller, next);
        return;
    }
    teller->log_ms = clock_monotonic_ms() + AGAIN_MS;
    if (err.kind != ERROR_UNAVAILABLE) be_quiet(teller);
    log_error("a piece of the log did not arrive", &err);
}

/* One look: returns when the next one is due. With the mutex, which it releases meanwhile. */
static int64_t tell(struct teller *teller)
{
    const struct heartbeat heartbeat = teller->heartbeat;
    const uint64_t sent = teller->sent, logged = teller->logged;
    const bool has_log = sent < logged && !teller->is_quiet;
    const int64_t now_ms = clock_monotonic_ms();

    (void)pthread_mutex_unlock(&teller->thread.mutex);
    if (now_ms >= teller->beat_ms) beat(teller, &heartbeat);
    else if (has_log && now_ms >= teller->log_ms) send_log(teller, sent, logged);
    (void)pthread_mutex_lock(&teller->thread.mutex);
    const bool has_more = teller->sent < teller->logged && !teller->is_quiet;
    return has_more && teller->log_ms < teller->beat_ms ? teller->log_ms : teller->beat_ms;
}

static void *run(void *argument)
{
    struct teller *teller = argument;

    (void)pthread_mutex_lock(&teller->thread.mutex);
    while (!teller->thread.is_stopping) {
        const int64_t due_ms = tell(teller);
        if (!teller->thread.is_stopping && clock_monotonic_ms() < due_ms) thread_wait(&teller->thread, due_ms);
    }
    (void)pthread_mutex_unlock(&teller->thread.mutex);
    return NULL;
}

struct result teller_start(const struct teller_options *options, struct teller **teller_out, struct error *err)
{
    OWNED(teller) *teller = memory_zeroed(1, sizeof *teller);

    if (teller == NULL) return failure(err, ERROR_NO_MEMORY, "no memory to tell of a run");
    teller->options = *options;
    teller->heartbeat = (struct heartbeat){.phase = "fetching", .progress = -1};
    TRY(thread_start(&teller->thread, run, teller, "tells the registry of a run", err));
    *teller_out = GIVE(teller);
    return SUCCESS;
}

#define WITH_MUTEX(teller, change)                           \
    do {                                                     \
        (void)pthread_mutex_lock(&(teller)->thread.mutex);   \
        change;                                              \
        (void)pthread_mutex_unlock(&(teller)->thread.mutex); \
    } while (0)

void teller_set_phase(struct teller *teller, const char *phase)
{
    WITH_MUTEX(teller, teller->heartbeat.phase = phase);
}

void teller_set_progress(struct teller *teller, int percent)
{
    WITH_MUTEX(teller, teller->heartbeat.progress = percent);
}

void teller_set_use(struct teller *teller, int64_t cpu_ms, int64_t device_ms, int64_t memory_bytes)
{
    (void)pthread_mutex_lock(&teller->thread.mutex);
    teller->heartbeat.cpu_ms = cpu_ms;
    teller->heartbeat.device_ms = device_ms;
    teller->heartbeat.memory_bytes = memory_bytes;
    (void)pthread_mutex_unlock(&teller->thread.mutex);
}

void teller_add_log(struct teller *teller, uint64_t bytes)
{
    (void)pthread_mutex_lock(&teller->thread.mutex);
    teller->logged += bytes;
    (void)pthread_cond_broadcast(&teller->thread.woken);
    (void)pthread_mutex_unlock(&teller->thread.mutex);
}

bool teller_was_stopped(struct teller *teller, char reason_out[ANSWER_REASON_SIZE])
{
    (void)pthread_mutex_lock(&teller->thread.mutex);
    const bool was_stopped = teller->was_stopped;
    memcpy(reason_out, teller->reason, sizeof teller->reason);
    (void)pthread_mutex_unlock(&teller->thread.mutex);
    return was_stopped;
}

/* With the mutex. */
static bool is_worth_waiting(const struct teller *teller, const struct teller_patience *patience)
{
    return teller->sent < teller->logged && !teller->is_quiet && !teller->was_stopped &&
           teller->beaten_ms - teller->moved_ms <= patience->still_ms;
}

void teller_flush(struct teller *teller, const struct teller_patience *patience)
{
    const int64_t began_ms = clock_monotonic_ms();
    int64_t stopped_ms = 0;

    (void)pthread_mutex_lock(&teller->thread.mutex);
    teller->moved_ms = began_ms;
    while (is_worth_waiting(teller, patience)) {
        const int64_t now_ms = clock_monotonic_ms();
        if (stopped_ms == 0 && *teller->options.cancelled != 0) stopped_ms = now_ms;
        if (now_ms >= patience->until_ms || (stopped_ms != 0 && now_ms >= stopped_ms + patience->stopped_ms)) break;
        thread_wait(&teller->thread, now_ms + LOOK_MS);
    }
    (void)pthread_mutex_unlock(&teller->thread.mutex);
}

void teller_free(struct teller *teller)
{
    if (teller == NULL) return;
    thread_stop(&teller->thread);
    free(teller);
}
