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
