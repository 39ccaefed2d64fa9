/* Appends one group, from BEGIN to COMMIT. Stale events leave the group, changes run, and a change that failed does not run
 * again. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "audit/sequencer_priv.h"
#include "base/clock.h"

/* The gap before the event that reports lost events is exactly as large as their number. */
static void number_events(struct sequencer *sequencer, struct group *group)
{
    uint64_t number = sequencer->next_number;

    for (size_t i = 0; i < group->count; i++) {
        struct event *event = &group->events[i];
        if (event->own == OWN_UNRECORDED) number += event->count;
        (void)snprintf(event->source.instance, sizeof event->source.instance, "%s", sequencer->instance);
        event->source.boot = sequencer->boot;
        event->source.number = number++;
    }
    group->end_number = number;
}

static struct result seal_payloads(struct sequencer *sequencer, struct group *group, struct error *err)
{
    group->boxes.length = 0;
    for (size_t i = 0; i < group->count; i++) {
        struct event *event = &group->events[i];
        const struct audit_subject *sealer = event->record == NULL ? event->sealer : event->record->resolved;
        if (sealer != NULL) TRY(event_seal_payload(event, sealer, sequencer->origin, &group->boxes, err));
    }
    return SUCCESS;
}

struct change *event_change(const struct event *event)
{
    if (event->record == NULL || event->has_failed || event->outcome == OUTCOME_DENIED) return NULL;
    return event->record->change;
}

const struct permit *event_permit(const struct event *event)
{
    return event->record->under != NULL ? event->record->under : event->permit;
}

static void gather_keys(struct group *group)
{
    group_clear_keys(group);
    for (size_t i = 0; i < group->count; i++) {
        struct event *event = &group->events[i];
        event_fill_leaf(event, &group->leaf);
        event->key_count = group->leaf.key_count;
        for (size_t k = 0; k < event->key_count; k++) event->keys[k] = group_key_index(group, group->leaf.keys[k].name);
    }
}

/* Before the heads are read, because a change that fails is recorded with another outcome, and so with another key. */
static void gather_failure_key(struct group *group)
{
    for (size_t i = 0; i < group->count; i++)
        if (event_change(&group->events[i]) != NULL) (void)group_key_index(group, "out:failed");
}

struct result group_prepare(struct sequencer *sequencer, struct group *group, struct error *err)
{
    number_events(sequencer, group);
    TRY(seal_payloads(sequencer, group, err));
    gather_keys(group);
    group_gather_rights(group);
    return SUCCESS;
}

/* Removes events that were decided under older rights, or whose exception is used up, from the group, and renumbers the events after them. */
static struct result drop_stale(struct sequencer *sequencer, struct group *group, struct error *err)
{
    size_t kept = 0;

    for (size_t i = 0; i < group->count; i++) {
        struct event *event = &group->events[i];
        if (event->is_beaten || group_is_stale(group, event)) {
            event->record->outdated_epoch = group->state.authorization_epoch - (event->is_beaten ? 0 : 1);
            queue_add(&group->stale, event->record);
            event_done(event);
        } else {
            if (kept < i) group->events[kept] = *event;
            kept++;
        }
    }
    if (kept == group->count) return SUCCESS;
    group->count = kept;
    number_events(sequencer, group);
    return seal_payloads(sequencer, group, err);
}

static void set_positions(struct group *group)
{
    for (size_t i = 0; i < group->count; i++) {
        struct event *event = &group->events[i];
        event->sequence = group->state.size + i;
        if (event->permit == NULL) continue;
        event->permit->sequence = event->sequence;
        event->permit->epoch = group->state.authorization_epoch;
        event_name_permit(event);
    }
}

/* Times in the log never fall, so new events get at least the last time, even if it is ahead of the clock. So the last time
 * must be that of the last entry, and not only a value in the state. */
static struct result check_clock(struct sequencer *sequencer, const struct audit_state *state, int64_t asked_ms,
                                 struct error *err)
{
    const struct clock_reading reading = {state->now_ms, asked_ms, clock_since_boot_ms(), clock_wall_ms()};
    const bool is_first = !sequencer->clock.is_known;
    const int64_t behind_ms = state->last_time_ms - state->now_ms;

    TRY(log_clock_read(&sequencer->clock, &reading, err));
    if (behind_ms <= LOG_CLOCK_NOTICE_MS) return SUCCESS;
    TRY(sequencer_check_last_time(sequencer->pg, state->size, state->last_time_ms, err));
    if (is_first) log_clock_add_step(&sequencer->clock, -behind_ms);
    return SUCCESS;
}

/*
 * The key of an erased person must seal nothing any more (docs/erasure.md). An erasure raises the registry's epoch, and each gateway reads it here before its
 * first append behind the erasure. Other changes of the registry leave the keys alone: without sijil-keyd they could not be found again.
 */
static struct result note_rights(struct sequencer *sequencer, const struct group *group, struct error *err)
{
    const uint64_t epoch = group->organisation_epochs[0]; /* of the registry: group_gather_rights() */
    int64_t erasures = 0;

    if (epoch == sequencer->registry_epoch) return SUCCESS;
    TRY(audit_count_erasures(sequencer->pg, &erasures, err));
    if (erasures != sequencer->erasures) subject_cache_forget(sequencer->subjects);
    sequencer->erasures = erasures;
    sequencer->registry_epoch = epoch;
    return SUCCESS;
}

/* The keys whose heads are read: those that are not in the cache; all, if other gateways append, because then the cache is probably wrong. */
static struct audit_heads missing_heads(const struct sequencer *sequencer, struct group *group)
{
    const struct audit_heads heads = {group->key_count, group->key_views, group->heads};

    if (!log_cache_is_alone(sequencer->cache)) return heads;
    group->missing_count = log_cache_heads(sequencer->cache, &heads, group->missing);
    for (size_t i = 0; i < group->missing_count; i++) group->missing_views[i] = group->key_views[group->missing[i]];
    return (struct audit_heads){group->missing_count, group->missing_views, group->missing_heads};
}

/* The heads of the other keys were in the cache. They are wrong if another gateway has appended since. */
static struct result take_heads(struct sequencer *sequencer, struct group *group, const struct audit_heads *read,
                                bool is_cache_right, struct error *err)
{
    const struct audit_heads heads = {group->key_count, group->key_views, group->heads};

    if (read->ordinals == group->heads) return SUCCESS;
    if (!is_cache_right) return audit_load_heads(sequencer->pg, &heads, err);
    for (size_t i = 0; i < read->count; i++) group->heads[group->missing[i]] = read->ordinals[i];
    return SUCCESS;
}

static struct result begin(struct sequencer *sequencer, struct group *group, struct error *err)
{
    const struct audit_heads heads = missing_heads(sequencer, group);
    const struct audit_rights rights = group_rights(group);
    const int64_t asked_ms = clock_since_boot_ms();

    TRY(audit_begin(sequencer->pg, group->raises_epoch, &heads, &rights, &group->state, err));
    TRY(check_clock(sequencer, &group->state, asked_ms, err));
    if (strcmp(group->state.origin, sequencer->origin) != 0)
        return failure(err, ERROR_FORKED, "the log in the database is another one now: \"%.60s\"", group->state.origin);
    if (group->state.size < sequencer->appended_size) /* only this thread appends here */
        return failure(err, ERROR_FORKED,
                       "the database has %llu events, but had %llu: it was restored from an older backup while the "
                       "gateway ran. Restore the newest one; nothing is recorded until then",
                       (unsigned long long)group->state.size, (unsigned long long)sequencer->appended_size);
    TRY(log_cache_compare(sequencer->cache, &group->state, err));
    if (group->state.size > sequencer->appended_size && group->state.altered > sequencer->appended_size)
        sequencer_note_all(sequencer); /* another gateway made the change */
    const bool is_cache_right = log_cache_read(sequencer->cache, &group->state, clock_monotonic_ms());
    TRY(take_heads(sequencer, group, &heads, is_cache_right, err));
    memset(group->uses, 0, group->key_count * sizeof group->uses[0]);
    TRY(note_rights(sequencer, group, err));
    TRY(group_count_uses(sequencer, group, err));
    TRY(drop_stale(sequencer, group, err));
    set_positions(group);
    return SUCCESS;
}

/* A change that failed before it touched a row leaves the transaction unchanged. */
static struct result run_change(struct sequencer *sequencer, struct event *event, bool *must_restart, struct error *err)
{
    struct change *change = event_change(event);
    const uint64_t touched = pg_rows_touched(sequencer->pg);

    const struct result ran = change->run(event_permit(event), change, sequencer->pg, err);
    if (ran.ok || pg_is_broken(sequencer->pg)) return ran;
    event->has_failed = true;
    event->error = *err;
    metric_add(AUDIT_METRIC(audit_refused_changes), 1);
    if (pg_rows_touched(sequencer->pg) != touched) *must_restart = true;
    return SUCCESS;
}

static struct result run_changes(struct sequencer *sequencer, struct group *group, bool *must_restart, struct error *err)
{
    for (size_t i = 0; i < group->count && !*must_restart; i++) {
        struct event *event = &group->events[i];
        if (event_change(event) != NULL) TRY(run_change(sequencer, event, must_restart, err));
    }
    return SUCCESS;
}

/* The state must be read first if a change has no statement for the pipeline, if uses are counted, or if tiles need rows. */
static bool needs_reading(const struct sequencer *sequencer, const struct group *group, const struct audit_state *state)
{
    const uint64_t end = state->size + group->count, wide = (uint64_t)TILE_WIDTH * TILE_WIDTH;
    const bool fills_tile = end / TILE_WIDTH != state->size / TILE_WIDTH;

    if (fills_tile && sequencer->tail_size != state->size) return true;
    for (size_t i = 0; i < group->count; i++) {
        const struct event *event = &group->events[i];
        const struct change *change = event_change(event);
        if ((change != NULL && change->add == NULL && change->add_all == NULL) ||
            (event->record != NULL && record_has_uses(event->record)))
            return true;
    }
    return end / wide != state->size / wide;
}

/* True: the group has the cached state and heads, and its events are numbered from them. */
static bool use_cache(struct sequencer *sequencer, struct group *group)
{
    const struct audit_heads heads = {group->key_count, group->key_views, group->heads};

    if (!log_cache_state(sequencer->cache, clock_monotonic_ms(), &group->state)) return false;
    if (group->state.size != sequencer->appended_size) return false;
    if (!group_fence(group, &group->fence) || needs_reading(sequencer, group, &group->state) ||
        log_cache_heads(sequencer->cache, &heads, group->missing) > 0)
        return false;
    memset(group->uses, 0, group->key_count * sizeof group->uses[0]);
    set_positions(group);
    return true;
}

static struct result append_after_reading(struct sequencer *sequencer, struct group *group, struct error *err)
{
    bool must_restart = true;

    gather_failure_key(group);
    while (must_restart) { /* ends, because in each round one more change is known to fail */
        must_restart = false;
        TRY(begin(sequencer, group, err));
        if (group->count > 0) TRY(run_changes(sequencer, group, &must_restart, err));
        if (must_restart || group->count == 0) pg_rollback(sequencer->pg);
        if (must_restart) metric_add(AUDIT_METRIC(audit_rollbacks), 1);
    }
    return group->count == 0 ? SUCCESS : group_write(sequencer, group, NULL, err);
}

struct result group_append(struct sequencer *sequencer, struct group *group, struct error *err)
{
    bool is_refused = false;

    if (!use_cache(sequencer, group)) return append_after_reading(sequencer, group, err);
    const struct result appended = group_write(sequencer, group, &is_refused, err);
    if (!is_refused) return appended;
    metric_add(AUDIT_METRIC(audit_beaten), 1);
    log_cache_forget(sequencer->cache);
    pg_rollback(sequencer->pg);
    return append_after_reading(sequencer, group, err);
}
