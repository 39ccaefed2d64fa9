/* Whether what was decided still stands: nothing that it depends on has changed since (docs/decisions/0036-changes-by-organisation.md). */
#include <string.h>

#include "audit/sequencer_priv.h"

/* What says only how a thing ended is recorded in any case; what completes it with a change needs the rights of now. */
static const struct decision *deciding(const struct event *event)
{
    const struct record *record = event->record;

    if (record == NULL || record->decision != NULL) return record == NULL ? NULL : record->decision;
    return record->change != NULL && record->outcome == OUTCOME_COMPLETED ? record->under->decision : NULL;
}

/* Of this event, if rights enter it at all. */
static const struct decision_parts *parts_of(const struct event *event)
{
    const struct decision *decision = deciding(event);

    return decision == NULL || decision->parts.epoch == EPOCH_OF_JOBS ? NULL : &decision->parts;
}

/* group->organisation_count: it is not among them. */
static size_t place_of(const struct group *group, const struct uuid *organisation)
{
    size_t place = 0;

    while (place < group->organisation_count && !uuid_equal(&group->organisations[place], organisation)) place++;
    return place;
}

static void add_organisation(struct group *group, const struct uuid *organisation)
{
    const size_t place = place_of(group, organisation);

    if (place < group->organisation_count || place == GROUP_ORGANISATIONS_MAX) return;
    group->organisations[place] = *organisation;
    group->organisation_views[place] = uuid_bytes(&group->organisations[place]);
    group->organisation_epochs[place] = 0;
    group->organisation_count++;
}

void group_gather_rights(struct group *group)
{
    static const struct uuid registry = {{0}};

    group->organisation_count = 0;
    add_organisation(group, &registry); /* which all depend on */
    for (size_t i = 0; i < group->count; i++) {
        const struct decision_parts *parts = parts_of(&group->events[i]);
        for (size_t k = 0; parts != NULL && parts->is_partial && k < parts->organisation_count; k++)
            add_organisation(group, &parts->organisations[k]);
    }
}

struct audit_rights group_rights(struct group *group)
{
    return (struct audit_rights){group->organisation_count, group->organisation_views, group->organisation_epochs};
}

static bool has_changed_since(const struct group *group, const struct uuid *organisation, uint64_t epoch)
{
    const size_t place = place_of(group, organisation);

    return place == group->organisation_count || group->organisation_epochs[place] > epoch; /* what was not looked at may have */
}

bool group_is_stale(const struct group *group, const struct event *event)
{
    static const struct uuid registry = {{0}};
    const struct decision_parts *parts = parts_of(event);

    if (parts == NULL || parts->epoch == group->state.authorization_epoch) return false;
    if (!parts->is_partial || parts->epoch > group->state.authorization_epoch) return true;
    if (has_changed_since(group, &registry, parts->epoch)) return true;
    for (size_t i = 0; i < parts->organisation_count; i++)
        if (has_changed_since(group, &parts->organisations[i], parts->epoch)) return true;
    return false;
}

static bool all_are_listed(const struct group *group, const struct decision_parts *parts)
{
    for (size_t i = 0; i < parts->organisation_count; i++)
        if (place_of(group, &parts->organisations[i]) == group->organisation_count) return false;
    return true;
}

/* A decision that any change makes stale needs exactly its own epoch, another at least its own. */
static bool narrow(struct audit_fence *fence, const struct decision_parts *parts)
{
    if (fence->from < parts->epoch) fence->from = parts->epoch;
    if (fence->oldest > parts->epoch) fence->oldest = parts->epoch;
    if (!parts->is_partial && fence->until > parts->epoch) fence->until = parts->epoch;
    return fence->from <= fence->until;
}

bool group_fence(const struct group *group, struct audit_fence *fence_out)
{
    struct audit_fence fence = {.until = INT64_MAX, .oldest = INT64_MAX, .organisations = group->organisation_views,
                                .count = group->organisation_count};

    for (size_t i = 0; i < group->count; i++) {
        const struct decision_parts *parts = parts_of(&group->events[i]);
        if (parts == NULL) continue;
        if (!all_are_listed(group, parts) || !narrow(&fence, parts)) return false;
    }
    *fence_out = fence;
    return true;
}
