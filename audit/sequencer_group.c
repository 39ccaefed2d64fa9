/* The group thread: takes what waits, appends it, and tells those who wait what became of it. */
#include <assert.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "audit/sequencer_priv.h"
#include "base/clock.h"

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Under the mutex: when the group thread has something to do. */
static int64_t due_ms(const struct sequencer *sequencer)
{
    const bool has_records = sequencer->ready.count > 0 || sequencer->folding.count > 0;
    const int64_t due = has_records ? 0 : own_due_ms(sequencer);

    if (sequencer_is_forked(sequencer)) return has_records ? 0 : INT64_MAX;
    if (sequencer->doubt.exists) return sequencer->retry_at_ms;
    return due > sequencer->retry_at_ms || due == INT64_MAX ? due : sequencer->retry_at_ms;
}

/* Under the mutex: nothing more can come, and nothing is left, or it can't be recorded any more. */
static bool is_over(const struct sequencer *sequencer)
{
    if (!sequencer->is_stopping || !sequencer->clerk_is_done) return false;
    const bool is_empty = sequencer->ready.count == 0 && sequencer->folding.count == 0;
    return sequencer->is_broken || (is_empty && sequencer_is_forked(sequencer)) || (is_empty && own_due_ms(sequencer) == INT64_MAX);
}

/* False: the thread is to end. */
static bool wait_for_work(struct sequencer *sequencer)
{
    (void)pthread_mutex_lock(&sequencer->mutex);
    while (!is_over(sequencer)) {
        const int64_t wake_ms = due_ms(sequencer), now_ms = clock_monotonic_ms();
        if (wake_ms <= now_ms) break;
        sequencer_wait(sequencer, &sequencer->work, wake_ms);
    }
    const bool goes_on = !is_over(sequencer);
    (void)pthread_mutex_unlock(&sequencer->mutex);
    return goes_on;
}

/* A COMMIT that got no answer may still come true, so nothing that was remembered counts any more. */
static void set_broken(struct sequencer *sequencer, const struct error *why)
{
    log_memory_forget(sequencer->memory);
    sequencer_note_all(sequencer);
    (void)pthread_mutex_lock(&sequencer->mutex);
    sequencer->is_broken = true;
    sequencer->last_error = *why;
    (void)pthread_mutex_unlock(&sequencer->mutex);
    sequencer->backoff_ms = sequencer->backoff_ms == 0 ? BACKOFF_MIN_MS : 2 * sequencer->backoff_ms;
    if (sequencer->backoff_ms > BACKOFF_MAX_MS) sequencer->backoff_ms = BACKOFF_MAX_MS;
    sequencer->retry_at_ms = clock_monotonic_ms() + sequencer->backoff_ms;
}

/* A descriptor of its own: the connection's may be closed, and its number used again, at any moment. */
void sequencer_watch_socket(struct sequencer *sequencer)
{
    const int copy = fcntl(pg_socket(sequencer->pg), F_DUPFD_CLOEXEC, 3);

    sequencer->backend = pg_backend(sequencer->pg);
    (void)pthread_mutex_lock(&sequencer->mutex);
    if (sequencer->flight_socket >= 0) (void)close(sequencer->flight_socket);
    sequencer->flight_socket = copy;
    (void)pthread_mutex_unlock(&sequencer->mutex);
}

static bool connect_again(struct sequencer *sequencer)
{
    struct error err = {0};

    pg_notice_loss(sequencer->pg);
    if (!pg_is_broken(sequencer->pg)) return true;
    metric_add(AUDIT_METRIC(audit_reconnects), 1);
    if (pg_reopen(sequencer->pg, &err).ok) {
        sequencer_watch_socket(sequencer);
        return true;
    }
    set_broken(sequencer, &err);
    return false;
}

static void note_durable(struct sequencer *sequencer, uint64_t size)
{
    (void)pthread_mutex_lock(&sequencer->mutex);
    sequencer->is_broken = false;
    sequencer->appended_size = size;
    if (sequencer->unsigned_since_ms == 0) sequencer_note_unsigned(sequencer, clock_monotonic_ms());
    (void)pthread_cond_signal(&sequencer->sign_work);
    (void)pthread_mutex_unlock(&sequencer->mutex);
    sequencer->backoff_ms = 0;
    sequencer->retry_at_ms = 0;
    sequencer->group_limit = sequencer->group_limit > GROUP_RECORDS_MAX / 2 ? GROUP_RECORDS_MAX : 2 * sequencer->group_limit;
    metric_set(AUDIT_METRIC(audit_log_size), (int64_t)size);
}

static void finish_event(struct sequencer *sequencer, struct event *event)
{
    struct record *record = event->record;

    if (record == NULL) {
        own_apply(sequencer, event);
        return;
    }
    record->sequence = event->sequence;
    if (record->change != NULL && !event->has_failed) sequencer_note_change(sequencer, record->change);
    if (!event->has_failed) record->permit = GIVE(event->permit);
    if (event->has_failed) record->error = event->error;
    event_done(event);
    sequencer_complete(sequencer, record, event->has_failed ? RECORD_REFUSED : RECORD_DONE);
}

static void finish_durable(struct sequencer *sequencer, struct group *group)
{
    sequencer->next_number = group->end_number;
    if (group->tail_is_known) {
        memcpy(sequencer->tail, group->tail, sizeof sequencer->tail);
        sequencer->tail_size = group->state.size + group->count;
    }
    metric_add(AUDIT_METRIC(audit_events), (int64_t)group->count);
    note_durable(sequencer, group->state.size + group->count);
    for (size_t i = 0; i < group->count; i++) finish_event(sequencer, &group->events[i]);
    group->count = 0;
}

/* The records go back to where they came from, in their order; what was made for them is made again. */
static void put_back(struct sequencer *sequencer, struct group *group)
{
    (void)pthread_mutex_lock(&sequencer->mutex);
    for (size_t i = group->count; i > 0; i--) {
        struct event *event = &group->events[i - 1];
        event_done(event);
        if (event->record != NULL) queue_add_front(&sequencer->ready, event->record);
    }
    (void)pthread_mutex_unlock(&sequencer->mutex);
    group->count = 0;
}

static void give_up_group(struct sequencer *sequencer, struct group *group, const struct error *why)
{
    struct record_queue records;

    queue_init(&records);
    for (size_t i = 0; i < group->count; i++) {
        event_done(&group->events[i]);
        if (group->events[i].record != NULL) queue_add(&records, group->events[i].record);
    }
    group->count = 0;
    sequencer_give_up(sequencer, &records, why);
}

static size_t count_records(const struct group *group)
{
    size_t count = 0;

    for (size_t i = 0; i < group->count; i++) count += group->events[i].record != NULL ? 1 : 0;
    return count;
}

/* The server refuses the group although it answers: one of its events may be the cause, so ever smaller groups go. */
static void split(struct sequencer *sequencer, struct group *group, const struct error *why)
{
    const size_t count = count_records(group);

    pg_rollback(sequencer->pg);
    set_broken(sequencer, why);
    sequencer->group_limit = count > 2 ? count / 2 : 1;
    if (count > 1) put_back(sequencer, group);
    else give_up_group(sequencer, group, why);
}

static int64_t oldest_deadline_ms(const struct sequencer *sequencer, const struct group *group)
{
    int64_t deadline_ms = INT64_MAX;

    for (size_t i = 0; i < group->count; i++)
        if (group->events[i].record != NULL)
            deadline_ms = earlier(deadline_ms, group->events[i].record->arrived_ms + sequencer->deadline_ms);
    return deadline_ms;
}

static void enter_doubt(struct sequencer *sequencer, const struct group *group)
{
    struct doubt *doubt = &sequencer->doubt;

    *doubt = (struct doubt){.exists = true, .backend = sequencer->backend, .sequence = group->state.size,
                            .end_number = group->end_number};
    doubt->hash = group->events[0].hash;
    for (size_t i = 0; i < group->count; i++) {
        if (group->events[i].record != NULL) doubt->records++;
        else doubt->own[doubt->own_count++] = group->events[i];
    }
}

/* Asks the database whether the group is there, as soon as it can be asked. False: not yet. */
static bool settle(struct sequencer *sequencer, bool *is_durable_out)
{
    struct error err = {0};

    if (!connect_again(sequencer)) return false;
    const struct doubt *doubt = &sequencer->doubt;
    if (audit_has_entry(sequencer->pg, &doubt->backend, doubt->sequence, &doubt->hash, is_durable_out, &err).ok) {
        sequencer->doubt.exists = false;
        sequencer_note_all(sequencer); /* rows may have been read before they came true */
        return true;
    }
    set_broken(sequencer, &err);
    return false;
}

static bool may_wait(struct sequencer *sequencer, int64_t deadline_ms)
{
    const int64_t now_ms = clock_monotonic_ms();

    if (now_ms >= deadline_ms) return false;
    (void)pthread_mutex_lock(&sequencer->mutex);
    if (!sequencer->is_stopping && sequencer->retry_at_ms > now_ms)
        sequencer_wait(sequencer, &sequencer->watch_work, earlier(sequencer->retry_at_ms, deadline_ms));
    const bool is_stopping = sequencer->is_stopping;
    (void)pthread_mutex_unlock(&sequencer->mutex);
    return !is_stopping;
}

/* COMMIT was sent and its answer lost. Until the database says which, nobody is told anything, up to the deadline. */
static void resolve_doubt(struct sequencer *sequencer, struct group *group, const struct error *why)
{
    const int64_t deadline_ms = oldest_deadline_ms(sequencer, group);
    bool is_durable = false, is_settled = false;

    pg_rollback(sequencer->pg);
    enter_doubt(sequencer, group);
    set_broken(sequencer, why);
    do is_settled = settle(sequencer, &is_durable);
    while (!is_settled && may_wait(sequencer, deadline_ms));
    if (!is_settled) {
        give_up_group(sequencer, group, why); /* counted as unrecorded until settle_doubt() knows better */
    } else if (is_durable) {
        group->tail_is_known = false;
        finish_durable(sequencer, group);
    } else {
        put_back(sequencer, group);
    }
}

/* A doubt that outlived its records: before anything new is appended, the numbering must be known. */
static bool settle_doubt(struct sequencer *sequencer)
{
    struct doubt *doubt = &sequencer->doubt;
    bool is_durable = false;

    if (!doubt->exists) return true;
    if (!settle(sequencer, &is_durable)) return false;
    if (!is_durable) return true;
    sequencer->next_number = doubt->end_number;
    (void)pthread_mutex_lock(&sequencer->mutex);
    sequencer->unrecorded -= doubt->records;
    (void)pthread_mutex_unlock(&sequencer->mutex);
    for (size_t i = 0; i < doubt->own_count; i++) own_apply(sequencer, &doubt->own[i]);
    return true;
}

/* Under the mutex. More than UNSIGNED_MAX_MS unsigned: what is not signed soon is not served at all. */
static bool is_unsigned_too_long(const struct sequencer *sequencer)
{
    return sequencer->unsigned_since_ms != 0 &&
           clock_monotonic_ms() - sequencer->unsigned_since_ms > UNSIGNED_MAX_MS;
}

/* Under the mutex. The outcome of what was already permitted is recorded in any case. No more changes than go in one round trip. */
static void take_records(struct sequencer *sequencer, struct record_queue *taken, struct record_queue *unserved)
{
    const bool is_late = is_unsigned_too_long(sequencer);
    size_t changes = 0;

    while (taken->count < sequencer->group_limit && sequencer->ready.count > 0) {
        const struct change *next = sequencer->ready.first->change;
        if (next != NULL && next->is_alone && taken->count > 0) return;
        struct record *record = queue_take(&sequencer->ready);
        queue_add(is_late && record->under == NULL ? unserved : taken, record);
        changes += record->change != NULL;
        if (changes == AUDIT_CHANGES_AT_ONCE) return;
        if (record->change != NULL && record->change->raises_epoch) return; /* the group ends with it */
    }
}

static void add_records(struct sequencer *sequencer, struct record_queue *taken)
{
    struct group *group = sequencer->group;
    struct record_queue failed;
    struct error err = {0};

    queue_init(&failed);
    for (struct record *record; (record = queue_take(taken)) != NULL;) {
        const struct result made = event_of_record(record, &group->events[group->count], &err);
        if (made.ok) group->count++;
        else queue_add(&failed, record);
        if (record->change != NULL && record->change->raises_epoch) group->raises_epoch = true;
    }
    sequencer_give_up(sequencer, &failed, &err);
}

static const struct error not_signed = {
    ERROR_UNAVAILABLE, "the audit log is not being signed: see whether sijil-keyd runs; nothing is served meanwhile"};

static void collect(struct sequencer *sequencer)
{
    struct group *group = sequencer->group;
    struct record_queue taken, unserved, released;

    queue_init(&taken);
    queue_init(&unserved);
    queue_init(&released);
    queue_init(&group->stale);
    group->count = 0;
    group->raises_epoch = false;
    (void)pthread_mutex_lock(&sequencer->mutex);
    own_collect(sequencer, clock_monotonic_ms(), &released);
    take_records(sequencer, &taken, &unserved);
    (void)pthread_mutex_unlock(&sequencer->mutex);
    for (struct record *record; (record = queue_take(&released)) != NULL;) {
        record->folded = true;
        metric_add(record->refusal == NULL ? AUDIT_METRIC(audit_folded_challenges) : AUDIT_METRIC(audit_folded_refusals), 1);
        sequencer_complete(sequencer, record, RECORD_DONE);
    }
    sequencer_give_up(sequencer, &unserved, &not_signed);
    add_records(sequencer, &taken);
}

static void return_stale(struct sequencer *sequencer, struct group *group)
{
    for (struct record *record; (record = queue_take(&group->stale)) != NULL;) {
        metric_add(AUDIT_METRIC(audit_stale), 1);
        sequencer_complete(sequencer, record, RECORD_STALE);
    }
}

static void set_flight_deadline(struct sequencer *sequencer, int64_t deadline_ms)
{
    (void)pthread_mutex_lock(&sequencer->mutex);
    sequencer->flight_deadline_ms = deadline_ms;
    (void)pthread_mutex_unlock(&sequencer->mutex);
}

static struct result append(struct sequencer *sequencer, struct group *group, struct error *err)
{
    TRY(group_prepare(sequencer, group, err));
    set_flight_deadline(sequencer, oldest_deadline_ms(sequencer, group));
    const struct result appended = group_append(sequencer, group, err);
    set_flight_deadline(sequencer, 0);
    return appended;
}

/* No smaller group would fare better. */
static void refuse_group(struct sequencer *sequencer, struct group *group, const struct error *why)
{
    pg_rollback(sequencer->pg);
    sequencer->clock.is_refused = false; /* until it is read again */
    set_broken(sequencer, why);
    if (why->kind == ERROR_FORKED) sequencer_set_forked(sequencer, why);
    give_up_group(sequencer, group, why);
}

static void run_group(struct sequencer *sequencer, struct group *group)
{
    struct error err = {0};
    const int64_t started_ms = clock_monotonic_ms();
    const struct result appended = append(sequencer, group, &err);

    return_stale(sequencer, group);
    metric_observe_us(AUDIT_METRIC(audit_groups), (clock_monotonic_ms() - started_ms) * 1000);
    if (appended.ok && group->count > 0) {
        finish_durable(sequencer, group);
    } else if (appended.ok) {
        sequencer->backoff_ms = sequencer->retry_at_ms = 0; /* all were stale: the database answers */
    } else if (err.kind == ERROR_UNCERTAIN) {
        resolve_doubt(sequencer, group, &err);
    } else if (err.kind == ERROR_FORKED || sequencer->clock.is_refused) {
        refuse_group(sequencer, group, &err);
    } else if (pg_is_broken(sequencer->pg)) {
        set_broken(sequencer, &err);
        put_back(sequencer, group);
    } else {
        split(sequencer, group, &err);
    }
}

/* Under the mutex. */
static void take_waiting(struct sequencer *sequencer, struct record_queue *taken)
{
    for (struct record *record; (record = queue_take(&sequencer->ready)) != NULL;) queue_add(taken, record);
    for (struct record *record; (record = queue_take(&sequencer->folding)) != NULL;) queue_add(taken, record);
}

/* At the end of the thread: nobody may be left waiting. */
static void give_up_rest(struct sequencer *sequencer)
{
    struct record_queue rest;
    struct error why = {ERROR_UNAVAILABLE, "the server is stopping"};

    queue_init(&rest);
    (void)pthread_mutex_lock(&sequencer->mutex);
    take_waiting(sequencer, &rest);
    sequencer->group_is_done = true;
    (void)pthread_cond_broadcast(&sequencer->sign_work);
    (void)pthread_mutex_unlock(&sequencer->mutex);
    sequencer_give_up(sequencer, &rest, &why);
}

/* Nothing more goes into a log that is not the signed one. True: it is not. */
static bool give_up_forked(struct sequencer *sequencer)
{
    struct record_queue waiting;

    queue_init(&waiting);
    (void)pthread_mutex_lock(&sequencer->mutex);
    const struct error why = sequencer->forked;
    if (why.kind != ERROR_NONE) take_waiting(sequencer, &waiting);
    (void)pthread_mutex_unlock(&sequencer->mutex);
    sequencer_give_up(sequencer, &waiting, &why);
    return why.kind != ERROR_NONE;
}

void *sequencer_group_run(void *argument)
{
    struct sequencer *sequencer = argument;

    while (wait_for_work(sequencer)) {
        if (give_up_forked(sequencer)) continue;
        if (!connect_again(sequencer) || !settle_doubt(sequencer)) continue;
        collect(sequencer);
        if (sequencer->group->count > 0) run_group(sequencer, sequencer->group);
    }
    give_up_rest(sequencer);
    return NULL;
}
