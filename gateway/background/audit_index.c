#include "gateway/background/audit_index.h"

#include "audit/archive.h"
#include "audit/metrics.h"
#include "audit/search.h"
#include "audit/search_index.h"
#include "audit/sequencer.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/thread.h"
#include "gateway/pipeline/gateway.h"

#define LOOK_EVERY_MS 2000 /* without a search that waits: a larger batch writes fewer rows for an event */
#define OTHER_MS      20   /* until the next look while another gateway is at it */
#define FAILED_MS     2000 /* until the next try */
#define BUSY          1000 /* events in a second: from here on the service needs the processors more than the index */
#define BUSY_RESTS    3    /* then it rests for so many times as long as it worked */

struct audit_index {
    struct gateway *gateway;
    struct pg *pg;
    struct search_index *search;
    struct thread thread;
    uint64_t size;   /* of the log, at the last step */
    int64_t seen_ms; /* when that was */
    bool is_asked;   /* with the thread's mutex */
    bool is_failed;  /* the last step failed, and the log says so */
};

/* Returns the time until the next step. */
static int64_t failed(struct audit_index *index, const struct error *why)
{
    if (why->kind == ERROR_FORKED) sequencer_set_forked(index->gateway->sequencer, why);
    if (!index->is_failed) log_error("the index of searches of the log can't go on; it is tried again", why);
    index->is_failed = true;
    return FAILED_MS;
}

/* Whether events came at a rate of at least BUSY since the last step. */
static bool is_busy(struct audit_index *index, uint64_t size, int64_t now_ms)
{
    const uint64_t grown = index->size == 0 || size < index->size ? 0 : size - index->size;
    const int64_t passed_ms = now_ms > index->seen_ms ? now_ms - index->seen_ms : 1;

    index->size = size;
    index->seen_ms = now_ms;
    return grown * 1000 >= (uint64_t)passed_ms * BUSY;
}

/* An old log is indexed without a rest while the service is quiet, and in a quarter of the time of one processor while it is busy. */
static int64_t step(struct audit_index *index)
{
    const int64_t began_ms = clock_monotonic_ms();
    struct search_index_state state;
    struct error err = {0};

    if (!search_index_step(index->search, &state, &err).ok) return failed(index, &err);
    index->is_failed = false;
    metric_set(AUDIT_METRIC(audit_indexed), (int64_t)state.indexed);
    if (!state.is_mine) return OTHER_MS;
    const int64_t now_ms = clock_monotonic_ms();
    const bool rests = is_busy(index, state.size, now_ms);
    if (state.indexed >= state.size) return LOOK_EVERY_MS;
    return rests ? BUSY_RESTS * (now_ms - began_ms) : 0;
}

/* False: the thread must end. */
static bool rest(struct audit_index *index, int64_t milliseconds)
{
    const int64_t until_ms = clock_monotonic_ms() + milliseconds;

    (void)pthread_mutex_lock(&index->thread.mutex);
    while (!index->is_asked && !index->thread.is_stopping && clock_monotonic_ms() < until_ms)
        thread_wait(&index->thread, until_ms);
    index->is_asked = false;
    const bool goes_on = !index->thread.is_stopping;
    (void)pthread_mutex_unlock(&index->thread.mutex);
    return goes_on;
}

static void *index_main(void *argument)
{
    struct audit_index *index = argument;

    while (rest(index, step(index))) continue;
    return NULL;
}

struct result audit_index_start(struct gateway *gateway, struct audit_index **index_out, struct error *err)
{
    static const struct pg_table *const tables[] = {&audit_query_table, &audit_subject_table, &audit_search_index_table,
                                                    &audit_archive_table, NULL};
    OWNED(audit_index) *index = memory_zeroed(1, sizeof *index);

    if (index == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the index of searches");
    index->gateway = gateway;
    TRY(pg_open_lazily(gateway->settings->database, tables, &index->pg, err));
    TRY(search_index_new(index->pg, gateway->keyd, gateway->origin, &index->search, err));
    TRY(thread_start(&index->thread, index_main, index, "writes the index of searches", err));
    *index_out = GIVE(index);
    return SUCCESS;
}

void audit_index_wake(struct audit_index *index)
{
    (void)pthread_mutex_lock(&index->thread.mutex);
    index->is_asked = true;
    (void)pthread_cond_signal(&index->thread.woken);
    (void)pthread_mutex_unlock(&index->thread.mutex);
}

void audit_index_free(struct audit_index *index)
{
    if (index == NULL) return;
    thread_stop(&index->thread);
    search_index_free(index->search);
    pg_free(index->pg);
    free(index);
}
