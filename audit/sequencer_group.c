/* The group thread: takes the records that wait, appends them, and completes them with the outcome. */
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

/* Under the mutex: the next time at which the group thread has work. */
static int64_t due_ms(const struct sequencer *sequencer)
{
    const bool has_records = sequencer->ready.count > 0 || sequencer->joining.count > 0;
    const int64_t due = has_records ? 0 : own_due_ms(sequencer);

    if (sequencer_is_forked(sequencer)) return has_records ? 0 : INT64_MAX;
    if (sequencer->uncertain.exists) return sequencer->retry_at_ms;
    return due > sequencer->retry_at_ms || due == INT64_MAX ? due : sequencer->retry_at_ms;
}

/* Under the mutex: whether the thread may end. No more records can come, and either no record is left or the remaining records
 * can't be recorded. */
static bool is_over(const struct sequencer *sequencer)
{
    if (!sequencer->is_stopping || !sequencer->resolver_is_done) return false;
    const bool is_empty = sequencer->ready.count == 0 && sequencer->joining.count == 0;
    return sequencer->is_broken || (is_empty && sequencer_is_forked(sequencer)) ||
           (is_empty && own_due_ms(sequencer) == INT64_MAX);
}

/* False: the thread must end. */
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

/* A COMMIT without an answer may still take effect, so nothing that is cached is valid. */
static void set_broken(struct sequencer *sequencer, const struct error *why)
{
    log_cache_forget(sequencer->cache);
    sequencer_note_all(sequencer);
    (void)pthread_mutex_lock(&sequencer->mutex);
    sequencer->is_broken = true;
    sequencer->last_error = *why;
    (void)pthread_mutex_unlock(&sequencer->mutex);
    sequencer->backoff_ms = sequencer->backoff_ms == 0 ? BACKOFF_MIN_MS : 2 * sequencer->backoff_ms;
    if (sequencer->backoff_ms > BACKOFF_MAX_MS) sequencer->backoff_ms = BACKOFF_MAX_MS;
    sequencer->retry_at_ms = clock_monotonic_ms() + sequencer->backoff_ms;
}

/* A duplicate descriptor: the connection's own may be closed at any moment, and its number used for another file. */
void sequencer_guard_socket(struct sequencer *sequencer)
{
    const int copy = fcntl(pg_socket(sequencer->pg), F_DUPFD_CLOEXEC, 3);

    sequencer->backend = pg_backend(sequencer->pg);
    (void)pthread_mutex_lock(&sequencer->mutex);
    if (sequencer->append_socket >= 0) (void)close(sequencer->append_socket);
    sequencer->append_socket = copy;
    (void)pthread_mutex_unlock(&sequencer->mutex);
}

static bool connect_again(struct sequencer *sequencer)
{
    struct error err = {0};

    pg_notice_loss(sequencer->pg);
    if (!pg_is_broken(sequencer->pg)) return true;
    metric_add(AUDIT_METRIC(audit_reconnects), 1);
    if (pg_reopen(sequencer->pg, &err).ok) {
        sequencer_guard_socket(sequencer);
        return true;
    }
    set_broken(sequencer, &err);
    return false;
}

static void note_durable(struct sequencer *sequencer, const struct merkle_frontier *frontier)
{
    const struct merkle_hash root = merkle_frontier_root(frontier);

    (void)pthread_mutex_lock(&sequencer->mutex);
    sequencer->is_broken = false;
    sequencer->appended_size = frontier->size;
    sequencer->appended_root = root;
    if (sequencer->unsigned_since_ms == 0) sequencer_note_unsigned(sequencer, clock_monotonic_ms());
    (void)pthread_cond_signal(&sequencer->sign_work);
    (void)pthread_mutex_unlock(&sequencer->mutex);
    sequencer->backoff_ms = 0;
    sequencer->retry_at_ms = 0;
    sequencer->group_limit = sequencer->group_limit > GROUP_RECORDS_MAX / 2 ? GROUP_RECORDS_MAX : 2 * sequencer->group_limit;
    metric_set(AUDIT_METRIC(audit_log_size), (int64_t)frontier->size);
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
    metric_add(AUDIT_METRIC(audit_exception_uses), group_uses(group));
    if (group->takes) log_cache_forget(sequencer->cache); /* so that the next group reads the rights */
    note_durable(sequencer, &group->frontier);
    for (size_t i = 0; i < group->count; i++) finish_event(sequencer, &group->events[i]);
    group->count = 0;
}

/* Puts the records back at the front of their queue, in their order, and releases the events that were made of them. */
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

/* The server answers but refuses the group. One event may be the cause, so smaller and smaller groups are tried. */
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

static void note_uncertain(struct sequencer *sequencer, const struct group *group)
{
    struct uncertain_commit *uncertain = &sequencer->uncertain;

    *uncertain = (struct uncertain_commit){
        .exists = true, .backend = sequencer->backend, .sequence = group->state.size, .end_number = group->end_number};
    uncertain->hash = group->events[0].hash;
    for (size_t i = 0; i < group->count; i++) {
        if (group->events[i].record != NULL) uncertain->records++;
        else uncertain->own[uncertain->own_count++] = group->events[i];
    }
}

/* Asks the database whether the group is stored. False: the database can't be asked yet. */
static bool ask_outcome(struct sequencer *sequencer, bool *is_durable_out)
{
    struct error err = {0};

    if (!connect_again(sequencer)) return false;
    const struct uncertain_commit *uncertain = &sequencer->uncertain;
    if (audit_has_entry(sequencer->pg, &uncertain->backend, uncertain->sequence, &uncertain->hash, is_durable_out, &err).ok) {
        sequencer->uncertain.exists = false;
        sequencer_note_all(sequencer); /* rows may have been read before the group took effect */
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
        sequencer_wait(sequencer, &sequencer->watchdog_work, earlier(sequencer->retry_at_ms, deadline_ms));
    const bool is_stopping = sequencer->is_stopping;
    (void)pthread_mutex_unlock(&sequencer->mutex);
    return !is_stopping;
}

/* COMMIT was sent and its answer was lost. No record is completed until the database tells whether it took effect, or the
 * deadline passes. */
static void resolve_uncertain(struct sequencer *sequencer, struct group *group, const struct error *why)
{
    const int64_t deadline_ms = oldest_deadline_ms(sequencer, group);
    bool is_durable = false, is_settled = false;

    pg_rollback(sequencer->pg);
    note_uncertain(sequencer, group);
    set_broken(sequencer, why);
    do is_settled = ask_outcome(sequencer, &is_durable);
    while (!is_settled && may_wait(sequencer, deadline_ms));
    if (!is_settled) {
        give_up_group(sequencer, group, why); /* counted as unrecorded until resolve_uncertain_commit() knows the outcome */
    } else if (is_durable) {
        group->tail_is_known = false;
        finish_durable(sequencer, group);
    } else {
        put_back(sequencer, group);
    }
}

/* An uncertain commit outlived its records. Its outcome decides the numbering, so nothing is appended before it is known. */
static bool resolve_uncertain_commit(struct sequencer *sequencer)
{
    struct uncertain_commit *uncertain = &sequencer->uncertain;
    bool is_durable = false;

    if (!uncertain->exists) return true;
    if (!ask_outcome(sequencer, &is_durable)) return false;
    if (!is_durable) return true;
    sequencer->next_number = uncertain->end_number;
    (void)pthread_mutex_lock(&sequencer->mutex);
    sequencer->unrecorded -= uncertain->records;
    (void)pthread_mutex_unlock(&sequencer->mutex);
    for (size_t i = 0; i < uncertain->own_count; i++) own_apply(sequencer, &uncertain->own[i]);
    return true;
}

/* Under the mutex. An entry has been unsigned for more than UNSIGNED_MAX_MS: then nothing is served. */
static bool is_unsigned_too_long(const struct sequencer *sequencer)
{
    return sequencer->unsigned_since_ms != 0 && clock_monotonic_ms() - sequencer->unsigned_since_ms > UNSIGNED_MAX_MS;
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
        const struct change *change = record->change;
        if (record_has_uses(record)) group->raises_epoch = group->takes = true; /* the last use ends what an exception allows */
        if (change == NULL || !change->raises_epoch) continue;
        group->raises_epoch = true;
        if (!change->only_gives) group->takes = true;
    }
    sequencer_give_up(sequencer, &failed, &err);
}

static const struct error not_signed = {
    ERROR_UNAVAILABLE, "the audit log is not being signed: see whether sijil-keyd runs; nothing is served until it is"};

static void collect(struct sequencer *sequencer)
{
    struct group *group = sequencer->group;
    struct record_queue taken, unserved, released;

    queue_init(&taken);
    queue_init(&unserved);
    queue_init(&released);
    queue_init(&group->stale);
    group->count = 0;
    group->raises_epoch = group->takes = false;
    (void)pthread_mutex_lock(&sequencer->mutex);
    own_collect(sequencer, clock_monotonic_ms(), &released);
    queue_take_group(sequencer, is_unsigned_too_long(sequencer), &taken, &unserved);
    (void)pthread_mutex_unlock(&sequencer->mutex);
    for (struct record *record; (record = queue_take(&released)) != NULL;) {
        record->is_in_burst = true;
        metric_add(record->refusal == NULL ? AUDIT_METRIC(audit_burst_challenges) : AUDIT_METRIC(audit_burst_refusals), 1);
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

static void set_append_deadline(struct sequencer *sequencer, int64_t deadline_ms)
{
    (void)pthread_mutex_lock(&sequencer->mutex);
    sequencer->append_deadline_ms = deadline_ms;
    (void)pthread_mutex_unlock(&sequencer->mutex);
}

static struct result append(struct sequencer *sequencer, struct group *group, struct error *err)
{
    TRY(group_prepare(sequencer, group, err));
    set_append_deadline(sequencer, oldest_deadline_ms(sequencer, group));
    const struct result appended = group_append(sequencer, group, err);
    set_append_deadline(sequencer, 0);
    return appended;
}

/* For an error that a smaller group would meet too. */
static void refuse_group(struct sequencer *sequencer, struct group *group, const struct error *why)
{
    pg_rollback(sequencer->pg);
    sequencer->clock.is_refused = false; /* until the clock is read again */
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
        sequencer->backoff_ms = sequencer->retry_at_ms = 0; /* all events were stale, so the database answers */
    } else if (err.kind == ERROR_UNCERTAIN) {
        resolve_uncertain(sequencer, group, &err);
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
    for (struct record *record; (record = queue_take(&sequencer->joining)) != NULL;) queue_add(taken, record);
}

/* At the end of the thread: no record may be left waiting. */
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

/* True: the log is not the signed one, so nothing more is appended. */
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
        if (!connect_again(sequencer) || !resolve_uncertain_commit(sequencer)) continue;
        collect(sequencer);
        if (sequencer->group->count > 0) run_group(sequencer, sequencer->group);
    }
    give_up_rest(sequencer);
    return NULL;
}
