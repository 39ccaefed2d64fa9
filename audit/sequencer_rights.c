/* Checks whether a decision still holds: nothing that it depends on has changed since
 * (docs/decisions/0036-changes-by-organisation.md). */
#include <string.h>

#include "audit/sequencer_priv.h"

/* An event that only states an outcome is recorded in any case. An event that completes an operation with a change needs
 * the present rights. */
static const struct decision *deciding(const struct event *event)
{
    const struct record *record = event->record;

    if (record == NULL || record->decision != NULL) return record == NULL ? NULL : record->decision;
    return record->change != NULL && record->outcome == OUTCOME_COMPLETED ? record->under->decision : NULL;
}

/* The decision that the event rests on, if it depends on rights at all. */
static const struct decision_parts *parts_of(const struct event *event)
{
    const struct decision *decision = deciding(event);

    return decision == NULL || decision->parts.epoch == EPOCH_OF_JOBS ? NULL : &decision->parts;
}

bool record_only_gives(const struct record *record)
{
    const struct decision *decision = record->decision != NULL ? record->decision
                                      : record->under == NULL  ? NULL
                                                               : record->under->decision;

    return record->change != NULL && record->change->only_gives && decision != NULL && decision->parts.is_partial &&
           decision->parts.outlasts_grants;
}

/* group->organisation_count if it is not in the list. */
static size_t index_of(const struct group *group, const struct uuid *organisation)
{
    size_t index = 0;

    while (index < group->organisation_count && !uuid_equal(&group->organisations[index], organisation)) index++;
    return index;
}

static void add_organisation(struct group *group, const struct uuid *organisation)
{
    const size_t index = index_of(group, organisation);

    if (index < group->organisation_count || index == GROUP_ORGANISATIONS_MAX) return;
    group->organisations[index] = *organisation;
    group->organisation_views[index] = uuid_bytes(&group->organisations[index]);
    group->organisation_epochs[index] = group->organisation_taken[index] = 0;
    group->organisation_count++;
}

void group_gather_rights(struct group *group)
{
    static const struct uuid registry = {{0}};

    group->organisation_count = 0;
    add_organisation(group, &registry); /* every decision depends on it */
    for (size_t i = 0; i < group->count; i++) {
        const struct decision_parts *parts = parts_of(&group->events[i]);
        for (size_t k = 0; parts != NULL && parts->is_partial && k < parts->organisation_count; k++)
            add_organisation(group, &parts->organisations[k]);
    }
}

struct audit_rights group_rights(struct group *group)
{
    return (struct audit_rights){group->organisation_count, group->organisation_views, group->organisation_epochs,
                                 group->organisation_taken};
}

static bool has_changed_since(const struct group *group, const struct uuid *organisation, const struct decision_parts *parts)
{
    const uint64_t *epochs = parts->outlasts_grants ? group->organisation_taken : group->organisation_epochs;
    const size_t index = index_of(group, organisation);

    return index == group->organisation_count ||
           epochs[index] > parts->epoch; /* an organisation that is not in the list may have changed */
}

/* A person may have been erased since its key was found, so the record comes back with the key that the person has now. */
static bool is_forgotten(const struct event *event)
{
    const struct record *record = event->record;

    if (record == NULL || record->decision == NULL) return false;
    return (record->resolved != NULL && record->resolved->is_forgotten) ||
           (record->concerned != NULL && record->concerned->is_forgotten);
}

bool group_is_stale(const struct group *group, const struct event *event)
{
    static const struct uuid registry = {{0}};
    const struct decision_parts *parts = parts_of(event);

    if (parts == NULL) return false;
    if (is_forgotten(event)) return true;
    if (parts->epoch == group->state.authorization_epoch) return false;
    if (!parts->is_partial || parts->epoch > group->state.authorization_epoch) return true;
    if (has_changed_since(group, &registry, parts)) return true;
    for (size_t i = 0; i < parts->organisation_count; i++)
        if (has_changed_since(group, &parts->organisations[i], parts)) return true;
    return false;
}

static bool all_are_listed(const struct group *group, const struct decision_parts *parts)
{
    for (size_t i = 0; i < parts->organisation_count; i++)
        if (index_of(group, &parts->organisations[i]) == group->organisation_count) return false;
    return true;
}

/* A decision that any change makes stale needs exactly the epoch that it was made at; other decisions need at
 * least that epoch. */
static bool narrow(struct audit_fence *fence, const struct decision_parts *parts)
{
    if (fence->from < parts->epoch) fence->from = parts->epoch;
    if (fence->oldest > parts->epoch) fence->oldest = parts->epoch;
    if (!parts->is_partial && fence->until > parts->epoch) fence->until = parts->epoch;
    if (!parts->outlasts_grants) fence->ignores_grants = false;
    return fence->from <= fence->until;
}

bool group_fence(const struct group *group, struct audit_fence *fence_out)
{
    struct audit_fence fence = {.excludes = group->raises_epoch,
                                .until = INT64_MAX,
                                .oldest = INT64_MAX,
                                .ignores_grants = true,
                                .organisations = group->organisation_views,
                                .count = group->organisation_count};

    for (size_t i = 0; i < group->count; i++) {
        const struct decision_parts *parts = parts_of(&group->events[i]);
        if (parts == NULL) continue;
        if (is_forgotten(&group->events[i])) return false;
        if (!all_are_listed(group, parts) || !narrow(&fence, parts)) return false;
    }
    *fence_out = fence;
    return true;
}
