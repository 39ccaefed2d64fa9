/* The way into the sequencer, and out of it: a record waits in a queue, a group of records is written, and each is done. */
#include <assert.h>
#include <stdio.h>

#include "audit/sequencer_priv.h"
#include "base/clock.h"

static void name_day(char anonymous[ANONYMOUS_NAME_SIZE], const char *names_out[2])
{
    char now[CLOCK_TEXT_SIZE];

    clock_format(clock_wall_ms(), now);
    (void)snprintf(anonymous, ANONYMOUS_NAME_SIZE, "%.10s", now); /* the day */
    names_out[0] = ANONYMOUS_ISSUER;
    names_out[1] = anonymous;
}

void record_subject(const struct record *record, char anonymous[ANONYMOUS_NAME_SIZE], const char *names_out[2])
{
    const char *issuer = record->context.issuer;

    names_out[0] = issuer == NULL || issuer[0] == '\0' ? REGISTRY_ISSUER : issuer;
    names_out[1] = record->context.subject;
    if (record->context.subject == NULL) name_day(anonymous, names_out);
}

bool record_day(const struct record *record, char anonymous[ANONYMOUS_NAME_SIZE], const char *names_out[2])
{
    if (record->refusal == NULL || record->context.subject == NULL) return false;
    name_day(anonymous, names_out);
    return true;
}

bool record_has_subject(const struct record *record)
{
    return record->change != NULL && record->change->concerns_subject != NULL;
}

/* Nothing is sealed for the server's own work, nor for a later event of an operation whose record names no subject. */
static bool has_payload(const struct record *record)
{
    if (record->refusal != NULL) return true;
    if (record->decision != NULL) return !decision_is_of_server(record->decision);
    return record->context.subject != NULL;
}

/* Counts only refusals of requests without a valid credential. A known principal gets an event, also if its token lacks the
 * right. */
static bool is_unauthenticated(const struct record *record)
{
    return record->context.subject == NULL && record->decision != NULL && decision_verdict(record->decision) == VERDICT_CHALLENGE;
}

/* Under the mutex. */
static struct record_queue *choose_queue(struct sequencer *sequencer, struct record *record, bool needs_subject)
{
    const size_t waiting = sequencer->ready.count + sequencer->unresolved.count + sequencer->joining.count;

    if (waiting >= WAITING_MAX || sequencer->is_stopping) return &sequencer->overflow;
    record->joins_burst =
        record->refusal != NULL || (is_unauthenticated(record) && challenge_is_counted(sequencer, record->arrived_ms));
    if (needs_subject) return &sequencer->unresolved;
    return record->joins_burst ? &sequencer->joining : &sequencer->ready;
}

static void wake(struct sequencer *sequencer, const struct record_queue *queue)
{
    if (queue == &sequencer->unresolved) (void)pthread_cond_signal(&sequencer->unresolved_work);
    else if (queue == &sequencer->overflow) (void)pthread_cond_broadcast(&sequencer->watchdog_work);
    else (void)pthread_cond_signal(&sequencer->work);
}

/* Finds the subjects that the record needs; false if one of them is not in the cache. */
static bool find_subjects(struct sequencer *sequencer, struct record *record)
{
    const bool has_box = has_payload(record), concerns = record_has_subject(record);
    char anonymous[ANONYMOUS_NAME_SIZE];
    const char *names[2];

    record->resolved = record->concerned = record->day = NULL;
    if (has_box) {
        record_subject(record, anonymous, names);
        record->resolved = subject_cache_find(sequencer->subjects, names[0], names[1]);
    }
    if (concerns)
        record->concerned =
            subject_cache_find(sequencer->subjects, record->change->concerns_issuer, record->change->concerns_subject);
    const bool has_day = record_day(record, anonymous, names);
    if (has_day) record->day = subject_cache_find(sequencer->subjects, names[0], names[1]);
    return (!has_box || record->resolved != NULL) && (!concerns || record->concerned != NULL) &&
           (!has_day || record->day != NULL);
}

void sequencer_submit(struct sequencer *sequencer, struct record *record)
{
    assert((record->decision != NULL) + (record->under != NULL) + (record->refusal != NULL) == 1);
    assert(has_payload(record) || !record_has_subject(record)); /* the server's own work concerns no subject */
    record->arrived_ms = clock_monotonic_ms();
    record->permit = NULL;
    record->sequence = 0;
    record->is_in_burst = false;
    record->error = (struct error){.kind = ERROR_NONE};
    const bool has_subjects = find_subjects(sequencer, record);
    (void)pthread_mutex_lock(&sequencer->mutex);
    struct record_queue *queue = choose_queue(sequencer, record, !has_subjects);
    queue_add(queue, record);
    wake(sequencer, queue);
    (void)pthread_mutex_unlock(&sequencer->mutex);
}

/* A thread that waits in sequencer_submit_and_wait(). */
struct record_waiter {
    pthread_mutex_t mutex;
    pthread_cond_t done;
    bool is_done;
};

void sequencer_complete(struct sequencer *sequencer, struct record *record, enum record_status status)
{
    struct record_waiter *waiter = record->waiter;

    subject_cache_release(sequencer->subjects, record->resolved);
    subject_cache_release(sequencer->subjects, record->concerned);
    subject_cache_release(sequencer->subjects, record->day);
    record->resolved = record->concerned = record->day = NULL;
    record->status = status;
    if (waiter == NULL) {
        record->done(record); /* may free the record */
        return;
    }
    (void)pthread_mutex_lock(&waiter->mutex);
    waiter->is_done = true;
    (void)pthread_cond_signal(&waiter->done);
    (void)pthread_mutex_unlock(&waiter->mutex);
}

void sequencer_submit_and_wait(struct sequencer *sequencer, struct record *record)
{
    struct record_waiter waiter = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};

    record->waiter = &waiter;
    sequencer_submit(sequencer, record);
    (void)pthread_mutex_lock(&waiter.mutex);
    while (!waiter.is_done) (void)pthread_cond_wait(&waiter.done, &waiter.mutex);
    (void)pthread_mutex_unlock(&waiter.mutex);
    record->waiter = NULL;
}
