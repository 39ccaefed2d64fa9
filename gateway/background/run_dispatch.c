#include "gateway/background/run_dispatch.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "gateway/background/listener.h"
#include "gateway/pipeline/gateway.h"
#include "gateway/pipeline/pause.h"
#include "gateway/pipeline/run_endings.h"
#include "training/order_jobs.h"

#define ENDINGS_EVERY_MS 5000
#define STEP_MS          10 /* between two steps of a round */
#define WOKEN_MAX        8  /* runners in one step of a round: the readers have other work, too */
#define REST_FACTOR      4  /* the wait after a round, in lengths of that round: so searches take at most a fifth of the time */

struct run_dispatch {
    struct gateway *gateway;
    struct listener *listener;
    int64_t endings_ms;  /* when to look which watched leases have ended; monotonic */
    bool is_ring_wanted; /* a run may wait for a runner */
    bool is_ringing;     /* a round has begun and not ended */
    uint64_t round;
    int64_t began_ms, next_ms; /* of the round; when the next one may begin */
};

/* ---- orders ---- */

static bool order_one(struct pg *pg, void *context)
{
    struct run_dispatch *dispatch = context;
    const struct gateway *gateway = dispatch->gateway;
    const struct run_bundle_source source = {pg, gateway->keyd, gateway->sequencer, gateway->documents, gateway->decider};
    struct error err = {0};
    bool is_found = false;

    if (!run_order_next(&source, gateway->settings->instance, &is_found, &err).ok)
        log_error("a training run is not ordered yet; it is tried again", &err);
    dispatch->is_ring_wanted = dispatch->is_ring_wanted || is_found;
    return is_found;
}

/* ---- waking ---- */

static void begin_round(struct run_dispatch *dispatch)
{
    const int64_t now_ms = clock_monotonic_ms();

    if (dispatch->is_ringing || !dispatch->is_ring_wanted || now_ms < dispatch->next_ms) return;
    dispatch->is_ring_wanted = false;
    dispatch->is_ringing = true;
    dispatch->began_ms = now_ms;
    dispatch->round++;
}

static void end_round(struct run_dispatch *dispatch)
{
    const int64_t now_ms = clock_monotonic_ms();

    dispatch->is_ringing = false;
    dispatch->next_ms = now_ms + REST_FACTOR * (now_ms - dispatch->began_ms);
}

/* Wakes the next few runners of the pools that have work. */
static void ring(struct pg *pg, struct run_dispatch *dispatch)
{
    OWNED(pg_rows) *pools = NULL;
    struct error err = {0};
    size_t woken = 0;

    if (!run_waiting_pools(pg, &pools, &err).ok) {
        log_error("runs that wait for a runner can't be read", &err);
        end_round(dispatch);
        return;
    }
    for (size_t i = 0; i < pg_rows_count(pools) && woken < WOKEN_MAX; i++)
        woken += pause_wake(dispatch->gateway, pg_text(pools, i, 0), dispatch->round, WOKEN_MAX - woken);
    if (woken == 0) end_round(dispatch);
}

/* ---- leases that have ended ---- */

/* Looks every few seconds. After failures nothing is known about them, and then request bodies of runs are cut off. */
static void note_endings(struct pg *pg, struct run_dispatch *dispatch)
{
    struct run_watched watched[RUN_WATCHED_MAX];
    struct error err = {0};
    size_t at = 0, count = 0;

    if (clock_monotonic_ms() < dispatch->endings_ms) return;
    dispatch->endings_ms = clock_monotonic_ms() + ENDINGS_EVERY_MS;
    while ((count = run_endings_watched(dispatch->gateway->run_endings, &at, watched)) > 0) {
        if (!run_watched_look(lookup_of(pg), watched, count, &err).ok) {
            log_error("leases whose bodies move can't be read", &err);
            return;
        }
        run_endings_note(dispatch->gateway->run_endings, watched, count);
    }
}

/* ---- the thread ---- */

static void each(struct pg *pg, void *context)
{
    struct run_dispatch *dispatch = context;

    note_endings(pg, dispatch);
    begin_round(dispatch);
    if (dispatch->is_ringing) ring(pg, dispatch);
}

static void told(void *context)
{
    ((struct run_dispatch *)context)->is_ring_wanted = true;
}

static unsigned wait_ms(const void *context)
{
    const struct run_dispatch *dispatch = context;
    const int64_t rest_ms = dispatch->next_ms - clock_monotonic_ms();

    if (dispatch->is_ringing) return STEP_MS;
    if (!dispatch->is_ring_wanted || rest_ms >= LISTENER_WAIT_MS) return LISTENER_WAIT_MS;
    return rest_ms > 0 ? (unsigned)rest_ms : 0;
}

static const struct listener_work work = {
    .channel = RUN_CHANNEL, .name = "orders training runs", .next = order_one, .told = told, .each = each, .wait_ms = wait_ms};

struct result run_dispatch_start(struct gateway *gateway, struct run_dispatch **dispatch_out, struct error *err)
{
    OWNED(run_dispatch) *dispatch = memory_zeroed(1, sizeof *dispatch);

    if (dispatch == NULL) return failure(err, ERROR_NO_MEMORY, "no memory to order runs");
    dispatch->gateway = gateway;
    TRY(listener_start(gateway, &work, dispatch, &dispatch->listener, err));
    *dispatch_out = GIVE(dispatch);
    return SUCCESS;
}

void run_dispatch_free(struct run_dispatch *dispatch)
{
    if (dispatch == NULL) return;
    listener_free(dispatch->listener);
    free(dispatch);
}
