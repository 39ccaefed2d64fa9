/* The clerk finds the keys of subjects that are not in the cache, and gives back what waited too long anywhere. */
#include <sys/socket.h>

#include "audit/sequencer_priv.h"
#include "base/clock.h"

static struct record *take_unresolved(struct sequencer *sequencer)
{
    (void)pthread_mutex_lock(&sequencer->mutex);
    while (sequencer->unresolved.count == 0 && !sequencer->is_stopping)
        sequencer_wait(sequencer, &sequencer->unresolved_work, INT64_MAX);
    struct record *record = queue_take(&sequencer->unresolved);
    (void)pthread_mutex_unlock(&sequencer->mutex);
    return record;
}

static void pass_on(struct sequencer *sequencer, struct record *record)
{
    (void)pthread_mutex_lock(&sequencer->mutex);
    queue_add(record->folds ? &sequencer->folding : &sequencer->ready, record);
    (void)pthread_cond_signal(&sequencer->work);
    (void)pthread_mutex_unlock(&sequencer->mutex);
}

static struct result resolve(struct sequencer *sequencer, const char *const names[2], struct audit_subject **subject_out,
                             struct error *err)
{
    struct audit_subject *found = subject_cache_find(sequencer->subjects, names[0], names[1]);

    if (found != NULL) { /* the record before it was of the same subject */
        *subject_out = found;
        return SUCCESS;
    }
    pg_notice_loss(sequencer->clerk_pg);
    if (pg_is_broken(sequencer->clerk_pg)) TRY(pg_reopen(sequencer->clerk_pg, err));
    return subject_cache_resolve(sequencer->subjects, sequencer->keyd, sequencer->clerk_pg, names, subject_out, err);
}

/* What is found is given back with the record. */
static struct result resolve_all(struct sequencer *sequencer, struct record *record, struct error *err)
{
    char anonymous[ANONYMOUS_NAME_SIZE];
    const char *names[2];

    if (record->resolved == NULL) {
        record_subject(record, anonymous, names);
        TRY(resolve(sequencer, names, &record->resolved, err));
    }
    if (record->day == NULL && record_day(record, anonymous, names)) TRY(resolve(sequencer, names, &record->day, err));
    if (record->concerned != NULL || !record_concerns_somebody(record)) return SUCCESS;
    names[0] = record->change->concerns_issuer;
    names[1] = record->change->concerns_subject;
    return resolve(sequencer, names, &record->concerned, err);
}

/* A keyd that hangs must not hold up the end by its time-out for each record. */
static void take_rest_when_stopping(struct sequencer *sequencer, struct record_queue *rest)
{
    (void)pthread_mutex_lock(&sequencer->mutex);
    while (sequencer->is_stopping && sequencer->unresolved.count > 0) queue_add(rest, queue_take(&sequencer->unresolved));
    (void)pthread_mutex_unlock(&sequencer->mutex);
}

void *sequencer_clerk_run(void *argument)
{
    struct sequencer *sequencer = argument;

    for (struct record *record; (record = take_unresolved(sequencer)) != NULL;) {
        struct record_queue failed;
        struct error err = {0};
        if (resolve_all(sequencer, record, &err).ok) {
            pass_on(sequencer, record);
            continue;
        }
        queue_init(&failed);
        queue_add(&failed, record);
        take_rest_when_stopping(sequencer, &failed);
        sequencer_give_up(sequencer, &failed, &err);
    }
    (void)pthread_mutex_lock(&sequencer->mutex);
    sequencer->clerk_is_done = true;
    (void)pthread_cond_signal(&sequencer->work);
    (void)pthread_mutex_unlock(&sequencer->mutex);
    return NULL;
}

/* Queues are in the order of arrival, so only their beginnings can be too old. */
static void take_expired(struct record_queue *queue, int64_t arrived_before_ms, struct record_queue *expired)
{
    while (queue->first != NULL && queue->first->arrived_ms <= arrived_before_ms) queue_add(expired, queue_take(queue));
}

/* Under the mutex. A group whose oldest record is late hangs in a database that stands still: cutting the connection
 * gives the records back now; whether the group became durable is settled once the database answers. */
static void cut_late_flight(struct sequencer *sequencer)
{
    if (sequencer->flight_deadline_ms == 0 || clock_monotonic_ms() < sequencer->flight_deadline_ms) return;
    sequencer->flight_deadline_ms = 0;
    if (sequencer->flight_socket >= 0) (void)shutdown(sequencer->flight_socket, SHUT_RDWR);
}

void *sequencer_watch_run(void *argument)
{
    struct sequencer *sequencer = argument;
    bool goes_on = true;

    while (goes_on) {
        struct record_queue expired;
        struct error why = {ERROR_UNAVAILABLE, "the audit log could not be written in time"};

        queue_init(&expired);
        (void)pthread_mutex_lock(&sequencer->mutex);
        sequencer_wait(sequencer, &sequencer->watch_work, clock_monotonic_ms() + WATCH_INTERVAL_MS);
        const int64_t before_ms = clock_monotonic_ms() - sequencer->deadline_ms;
        take_expired(&sequencer->ready, before_ms, &expired);
        take_expired(&sequencer->unresolved, before_ms, &expired);
        take_expired(&sequencer->folding, before_ms, &expired);
        take_expired(&sequencer->overflow, INT64_MAX, &expired);
        cut_late_flight(sequencer);
        goes_on = !sequencer->is_stopping;
        if (sequencer->is_broken && sequencer->last_error.kind != ERROR_NONE) why = sequencer->last_error;
        (void)pthread_mutex_unlock(&sequencer->mutex);
        sequencer_give_up(sequencer, &expired, &why);
    }
    return NULL;
}
