/* Counts the uses of exceptions in the transaction of the events that use them. */
#include "audit/sequencer_priv.h"

static const struct decision_parts *parts_of(const struct record *record)
{
    if (record->decision == NULL || decision_verdict(record->decision) != VERDICT_ALLOW) return NULL;
    return &record->decision->parts;
}

bool record_has_uses(const struct record *record)
{
    const struct decision_parts *parts = parts_of(record);

    for (size_t i = 0; parts != NULL && i < parts->use_count; i++)
        if (!parts->uses[i].is_held) return true;
    return false;
}

/* Of several exceptions either all are used or none. Nobody else counts meanwhile, because the group holds the log's lock. */
static struct result are_left(struct sequencer *sequencer, const struct decision_parts *parts, bool *are_left_out,
                              struct error *err)
{
    bool are_left = true;

    for (size_t i = 0; i < parts->use_count && are_left; i++)
        if (!parts->uses[i].is_held) TRY(audit_use_is_left(sequencer->pg, &parts->uses[i], &are_left, err));
    *are_left_out = are_left;
    return SUCCESS;
}

static struct result take(struct sequencer *sequencer, struct event *event, const struct decision_parts *parts, struct error *err)
{
    bool are_left_now = false;

    TRY(are_left(sequencer, parts, &are_left_now, err));
    event->is_beaten = !are_left_now;
    if (event->is_beaten) metric_add(AUDIT_METRIC(audit_exceptions_spent), 1);
    for (size_t i = 0; i < parts->use_count && are_left_now; i++)
        if (!parts->uses[i].is_held) TRY(audit_use_take(sequencer->pg, &parts->uses[i], &event->uses[i], err));
    return SUCCESS;
}

struct result group_count_uses(struct sequencer *sequencer, struct group *group, struct error *err)
{
    for (size_t i = 0; i < group->count; i++) {
        struct event *event = &group->events[i];
        if (event->record == NULL || !record_has_uses(event->record) || group_is_stale(group, event)) continue;
        TRY(take(sequencer, event, parts_of(event->record), err));
    }
    return SUCCESS;
}

int64_t group_uses(const struct group *group)
{
    int64_t count = 0;

    for (size_t i = 0; i < group->count; i++)
        for (size_t k = 0; k < DECISION_USES_MAX; k++) count += group->events[i].uses[k] > 0;
    return count;
}
