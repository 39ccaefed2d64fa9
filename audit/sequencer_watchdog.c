/* The watchdog fails the records that have waited past their deadline. */
#include <sys/socket.h>

#include "audit/sequencer_priv.h"
#include "base/clock.h"

/* Queues are in the order of arrival, so only their beginnings can be too old. */
static void take_expired(struct record_queue *queue, int64_t arrived_before_ms, struct record_queue *expired)
{
    while (queue->first != NULL && queue->first->arrived_ms <= arrived_before_ms) queue_add(expired, queue_take(queue));
}

/* Under the mutex. If a group's oldest record is late, the database does not answer. Shutting the connection down completes
 * the records now. Whether the group became durable is found out once the database answers. */
static void cut_late_append(struct sequencer *sequencer)
{
    if (sequencer->append_deadline_ms == 0 || clock_monotonic_ms() < sequencer->append_deadline_ms) return;
    sequencer->append_deadline_ms = 0;
    if (sequencer->append_socket >= 0) (void)shutdown(sequencer->append_socket, SHUT_RDWR);
}

void *sequencer_watchdog_run(void *argument)
{
    struct sequencer *sequencer = argument;
    bool goes_on = true;

    while (goes_on) {
        struct record_queue expired;
        struct error why = {ERROR_UNAVAILABLE, "the audit log could not be written in time"};

        queue_init(&expired);
        (void)pthread_mutex_lock(&sequencer->mutex);
        sequencer_wait(sequencer, &sequencer->watchdog_work, clock_monotonic_ms() + WATCHDOG_INTERVAL_MS);
        const int64_t before_ms = clock_monotonic_ms() - sequencer->deadline_ms;
        take_expired(&sequencer->ready, before_ms, &expired);
        take_expired(&sequencer->unresolved, before_ms, &expired);
        take_expired(&sequencer->joining, before_ms, &expired);
        take_expired(&sequencer->overflow, INT64_MAX, &expired);
        cut_late_append(sequencer);
        goes_on = !sequencer->is_stopping;
        if (sequencer->is_broken && sequencer->last_error.kind != ERROR_NONE) why = sequencer->last_error;
        (void)pthread_mutex_unlock(&sequencer->mutex);
        sequencer_give_up(sequencer, &expired, &why);
    }
    return NULL;
}
