/* Decides which requests are only counted and get no event of their own, and turns counters into events. */
#include <assert.h>

#include "audit/sequencer_priv.h"
#include "base/clock.h"

/* A token bucket in milliseconds: an event of its own costs 1000 / CHALLENGES_PER_S of them. */
#define CREDIT_COST_MS (1000 / CHALLENGES_PER_S)
#define CREDIT_MAX_MS  (CHALLENGES_BURST * CREDIT_COST_MS)

bool challenge_is_counted(struct sequencer *sequencer, int64_t now_ms)
{
    const int64_t earned_ms = now_ms - sequencer->challenge_at_ms;

    sequencer->challenge_at_ms = now_ms;
    sequencer->challenge_credit_ms += earned_ms;
    if (sequencer->challenge_credit_ms > CREDIT_MAX_MS) sequencer->challenge_credit_ms = CREDIT_MAX_MS;
    if (sequencer->challenge_credit_ms < CREDIT_COST_MS) return true;
    sequencer->challenge_credit_ms -= CREDIT_COST_MS;
    return false;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t own_due_ms(const struct sequencer *sequencer)
{
    int64_t due_ms = bursts_due_ms(sequencer);

    if (atomic_load(&sequencer->refused) > 0) due_ms = earlier(due_ms, sequencer->refused_at_ms + OWN_INTERVAL_MS);
    if (sequencer->unrecorded > 0) due_ms = earlier(due_ms, sequencer->unrecorded_since_ms + OWN_INTERVAL_MS);
    if (sequencer->clock.steps > 0) due_ms = 0;
    if (due_ms != INT64_MAX && sequencer->is_stopping) return 0;
    return due_ms;
}

static void add_own(struct group *group, enum own_event own, enum action action, uint64_t count)
{
    struct event *event = &group->events[group->count++];

    *event = (struct event){.own = own, .action = action, .count = count, .outcome = OUTCOME_COMPLETED};
}

void own_collect(struct sequencer *sequencer, int64_t now_ms, struct record_queue *released)
{
    struct group *group = sequencer->group;
    const uint64_t refused = atomic_load(&sequencer->refused);
    const bool is_refused_due = sequencer->is_stopping || now_ms - sequencer->refused_at_ms >= OWN_INTERVAL_MS;
    const bool is_unrecorded_due = sequencer->is_stopping || now_ms - sequencer->unrecorded_since_ms >= OWN_INTERVAL_MS;

    bursts_release(sequencer, released);
    bursts_collect(sequencer, now_ms);
    if (refused > 0 && is_refused_due) add_own(group, OWN_REFUSED, ACTION_REFUSED, refused);
    if (sequencer->unrecorded > 0 && is_unrecorded_due) add_own(group, OWN_UNRECORDED, ACTION_UNRECORDED, sequencer->unrecorded);
    if (sequencer->clock.steps > 0) {
        add_own(group, OWN_CLOCK_STEP, ACTION_CLOCK_STEP, sequencer->clock.steps);
        group->events[group->count - 1].stepped_ms = sequencer->clock.stepped_ms;
    }
    assert(group->count <= GROUP_OWN_MAX);
}

static void apply_counters(struct sequencer *sequencer, const struct event *event)
{
    (void)pthread_mutex_lock(&sequencer->mutex);
    if (event->own == OWN_UNRECORDED) {
        sequencer->unrecorded -= event->count;
        sequencer->unrecorded_since_ms = clock_monotonic_ms(); /* of the events that were counted in the meantime */
    }
    if (event->own == OWN_REFUSED) {
        (void)atomic_fetch_sub(&sequencer->refused, event->count);
        sequencer->refused_at_ms = clock_monotonic_ms();
    }
    (void)pthread_mutex_unlock(&sequencer->mutex);
}

void own_apply(struct sequencer *sequencer, const struct event *event)
{
    switch (event->own) {
    case OWN_BURST_OPEN:
    case OWN_BURST_CLOSE: bursts_apply(sequencer, event); break;
    case OWN_CLOCK_STEP:
        sequencer->clock.steps -= (unsigned)event->count;
        sequencer->clock.stepped_ms -= event->stepped_ms;
        break;
    case OWN_REFUSED:
    case OWN_UNRECORDED: apply_counters(sequencer, event); break;
    case OWN_NONE: break;
    }
}
