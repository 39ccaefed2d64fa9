/* The resolver finds the keys of subjects that are not in the cache. keyd may be slow, so no other thread waits for it. */
#include "audit/sequencer_priv.h"

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
    queue_add(record->joins_burst ? &sequencer->joining : &sequencer->ready, record);
    (void)pthread_cond_signal(&sequencer->work);
    (void)pthread_mutex_unlock(&sequencer->mutex);
}

static struct result resolve(struct sequencer *sequencer, const char *const names[2], struct audit_subject **subject_out,
                             struct error *err)
{
    struct audit_subject *found = subject_cache_find(sequencer->subjects, names[0], names[1]);

    if (found != NULL) { /* the previous record had the same subject */
        *subject_out = found;
        return SUCCESS;
    }
    pg_notice_loss(sequencer->resolver_pg);
    if (pg_is_broken(sequencer->resolver_pg)) TRY(pg_reopen(sequencer->resolver_pg, err));
    return subject_cache_resolve(sequencer->subjects, sequencer->keyd, sequencer->resolver_pg, names, subject_out, err);
}

/* The record holds the subjects that are found; they are released when it is completed. */
static struct result resolve_all(struct sequencer *sequencer, struct record *record, struct error *err)
{
    char anonymous[ANONYMOUS_NAME_SIZE];
    const char *names[2];

    if (record->resolved == NULL) {
        record_subject(record, anonymous, names);
        TRY(resolve(sequencer, names, &record->resolved, err));
    }
    if (record->day == NULL && record_day(record, anonymous, names)) TRY(resolve(sequencer, names, &record->day, err));
    if (record->concerned != NULL || !record_has_subject(record)) return SUCCESS;
    names[0] = record->change->concerns_issuer;
    names[1] = record->change->concerns_subject;
    return resolve(sequencer, names, &record->concerned, err);
}

/* If keyd hangs, the end must not wait for one time-out of keyd for each record. */
static void take_rest_when_stopping(struct sequencer *sequencer, struct record_queue *rest)
{
    (void)pthread_mutex_lock(&sequencer->mutex);
    while (sequencer->is_stopping && sequencer->unresolved.count > 0) queue_add(rest, queue_take(&sequencer->unresolved));
    (void)pthread_mutex_unlock(&sequencer->mutex);
}

void *sequencer_resolver_run(void *argument)
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
    sequencer->resolver_is_done = true;
    (void)pthread_cond_signal(&sequencer->work);
    (void)pthread_mutex_unlock(&sequencer->mutex);
    return NULL;
}
