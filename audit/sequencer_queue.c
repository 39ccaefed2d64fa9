#include <assert.h>
#include <stdio.h>
#include <time.h>

#include "audit/sequencer_priv.h"
#include "base/clock.h"

void queue_init(struct record_queue *queue)
{
    queue->first = NULL;
    queue->end = &queue->first;
    queue->count = 0;
}

void queue_add(struct record_queue *queue, struct record *record)
{
    record->next = NULL;
    *queue->end = record;
    queue->end = &record->next;
    queue->count++;
}

void queue_add_front(struct record_queue *queue, struct record *record)
{
    record->next = queue->first;
    if (queue->first == NULL) queue->end = &record->next;
    queue->first = record;
    queue->count++;
}

struct record *queue_take(struct record_queue *queue)
{
    struct record *record = queue->first;

    if (record == NULL) return NULL;
    queue->first = record->next;
    if (queue->first == NULL) queue->end = &queue->first;
    queue->count--;
    record->next = NULL;
    return record;
}

void sequencer_give_up(struct sequencer *sequencer, struct record_queue *queue, const struct error *why)
{
    if (queue->count == 0) return;
    (void)pthread_mutex_lock(&sequencer->mutex);
    if (sequencer->unrecorded == 0) sequencer->unrecorded_since_ms = clock_monotonic_ms();
    sequencer->unrecorded += queue->count;
    (void)pthread_mutex_unlock(&sequencer->mutex);
    metric_add(AUDIT_METRIC(audit_unrecorded), (int64_t)queue->count);
    for (struct record *record; (record = queue_take(queue)) != NULL;) {
        record->error = *why;
        sequencer_complete(sequencer, record, RECORD_UNAVAILABLE);
    }
}

void sequencer_wait(struct sequencer *sequencer, pthread_cond_t *condition, int64_t until_ms)
{
    const int64_t longest_ms = clock_monotonic_ms() + 60000;
    const int64_t wake_ms = until_ms < longest_ms ? until_ms : longest_ms;
    const struct timespec wake = {.tv_sec = wake_ms / 1000, .tv_nsec = wake_ms % 1000 * 1000000};

    (void)pthread_cond_timedwait(condition, &sequencer->mutex, &wake); /* the condition uses the monotonic clock */
}

/* ---- groups ---- */

/* Whether the group ends before this record. */
static bool ends_before(const struct record *record, size_t taken, size_t giving)
{
    const struct change *change = record->change;

    if (change == NULL) return false;
    return (change->is_alone && taken + giving > 0) || (change->raises_epoch && giving > 0 && !record_only_gives(record));
}

static bool ends_with(const struct record *record)
{
    return record->change != NULL && record->change->raises_epoch && !record_only_gives(record);
}

/* The records of `more` come before those of `queue`. */
static void queue_add_all_front(struct record_queue *queue, struct record_queue *more)
{
    if (more->count == 0) return;
    *more->end = queue->first;
    if (queue->first == NULL) queue->end = more->end;
    queue->first = more->first;
    queue->count += more->count;
}

/*
 * What only gives roles comes last: so nothing that is decided before a grant stands behind it in the log. Grants beyond GROUP_GRANTS_MAX wait for the next
 * group, and what stands behind them does not: a read would wait for all of them.
 */
void queue_take_group(struct sequencer *sequencer, bool is_late, struct record_queue *taken, struct record_queue *unserved)
{
    struct record_queue giving, later;
    size_t changes = 0;
    bool is_full = false;

    queue_init(&giving);
    queue_init(&later);
    while (!is_full && taken->count + giving.count < sequencer->group_limit && later.count < GROUP_RECORDS_MAX &&
           sequencer->ready.count > 0) {
        if (ends_before(sequencer->ready.first, taken->count, giving.count)) break;
        struct record *record = queue_take(&sequencer->ready);
        const bool is_unserved = is_late && record->under == NULL, gives = record_only_gives(record);
        const bool waits = !is_unserved && gives && giving.count == GROUP_GRANTS_MAX;
        if (!waits) changes += record->change != NULL;
        is_full = changes == AUDIT_CHANGES_IN_ONE_TRIP || ends_with(record);
        queue_add(is_unserved ? unserved : waits ? &later : gives ? &giving : taken, record);
    }
    queue_add_all_front(&sequencer->ready, &later);
    for (struct record *record; (record = queue_take(&giving)) != NULL;) queue_add(taken, record);
}
