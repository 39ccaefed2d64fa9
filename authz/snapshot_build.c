/* Makes parts from rows: all parts, or only those of changed organisations. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "authz/snapshot_load.h"
#include "authz/snapshot_priv.h"
#include "base/memory.h"

/* The parts of the new snapshot so far. */
struct gathering {
    struct rights_part **parts;
    size_t count;
};

static void gathering_done(struct gathering *gathering)
{
    for (size_t i = 0; i < gathering->count; i++) rights_part_free(gathering->parts[i]);
    free(gathering->parts);
}

static int compare_ids(const struct uuid *a, const struct uuid *b)
{
    return memcmp(a->bytes, b->bytes, sizeof a->bytes);
}

static int compare_robots(const void *a, const void *b)
{
    return compare_ids(&((const struct authz_robot *)a)->organisation, &((const struct authz_robot *)b)->organisation);
}

static int compare_bindings(const void *a, const void *b)
{
    return compare_ids(&((const struct authz_binding *)a)->organisation, &((const struct authz_binding *)b)->organisation);
}

/* Takes the rows of one organisation from the front of `left`. */
static struct authz_parts take_front(struct authz_parts *left, const struct uuid *organisation)
{
    struct authz_parts front = {.robots = left->robots, .bindings = left->bindings, .rules = left->rules};

    while (front.robot_count < left->robot_count && uuid_equal(&left->robots[front.robot_count].organisation, organisation))
        front.robot_count++;
    while (front.binding_count < left->binding_count &&
           uuid_equal(&left->bindings[front.binding_count].organisation, organisation))
        front.binding_count++;
    left->robots += front.robot_count;
    left->robot_count -= front.robot_count;
    left->bindings += front.binding_count;
    left->binding_count -= front.binding_count;
    return front;
}

static bool lowest_left(const struct authz_parts *left, struct uuid *organisation_out)
{
    const struct uuid *robot = left->robot_count == 0 ? NULL : &left->robots[0].organisation;
    const struct uuid *binding = left->binding_count == 0 ? NULL : &left->bindings[0].organisation;

    if (robot == NULL && binding == NULL) return false;
    *organisation_out = robot == NULL || (binding != NULL && compare_ids(binding, robot) < 0) ? *binding : *robot;
    return true;
}

static struct result add_part(struct gathering *gathering, struct authz_parts *left, const struct uuid *organisation,
                              struct error *err)
{
    const struct authz_parts front = take_front(left, organisation);

    TRY(rights_part_new(organisation, &front, &gathering->parts[gathering->count], err));
    gathering->count++;
    return SUCCESS;
}

bool rights_have_changed(const struct rights_change *change, const struct uuid *organisation)
{
    for (size_t i = 0; i < change->count; i++)
        if (uuid_equal(&change->organisations[i], organisation)) return true;
    return false;
}

/* Merges, in order, the unchanged parts of the snapshot before and new parts from rows. The registry's part is always made. */
static struct result merge(const struct authz_snapshot *before, const struct rights_change *change, struct authz_parts *rows,
                           struct gathering *gathering, struct error *err)
{
    static const struct uuid registry = {{0}};
    const size_t old_count = before == NULL ? 0 : before->part_count;
    size_t old = 0;

    if (before == NULL || rights_have_changed(change, &registry)) TRY(add_part(gathering, rows, &registry, err));
    for (;;) {
        struct uuid next;
        while (old < old_count && rights_have_changed(change, &before->parts[old]->organisation)) old++;
        const bool has_row = lowest_left(rows, &next);
        if (!has_row && old == old_count) return SUCCESS;
        if (old < old_count && (!has_row || compare_ids(&before->parts[old]->organisation, &next) < 0))
            gathering->parts[gathering->count++] = rights_part_keep(before->parts[old++]);
        else TRY(add_part(gathering, rows, &next, err));
    }
}

static struct result build(const struct authz_snapshot *before, const struct rights_change *change, struct authz_parts *rows,
                           struct authz_snapshot **snapshot_out, struct error *err)
{
    const size_t most = 1 + rows->robot_count + rows->binding_count + (before == NULL ? 0 : before->part_count);
    struct gathering gathering = {.parts = memory_zeroed(most, sizeof(struct rights_part *))};
    OWNED(issuer_list) *issuers = NULL;
    static const struct uuid registry = {{0}};

    if (gathering.parts == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a snapshot of rights");
    struct result result = merge(before, change, rows, &gathering, err);
    if (result.ok && (before == NULL || rights_have_changed(change, &registry)))
        result = issuer_list_new(rows, before == NULL ? NULL : before->issuers, &issuers, err);
    if (!result.ok) {
        gathering_done(&gathering);
        return result;
    }
    assert(issuers != NULL || before != NULL);
    const struct snapshot_shared shared = {.issuers = issuers != NULL ? issuers : before->issuers,
                                           .rules = rows->rules,
                                           .persons = issuers != NULL ? rows->persons : before->persons};
    return snapshot_assemble(gathering.parts, gathering.count, &shared, snapshot_out, err);
}

struct result snapshot_build(const struct authz_snapshot *before, const struct rights_change *change,
                             const struct authz_parts *parts, struct authz_snapshot **snapshot_out, struct error *err)
{
    struct authz_robot *robots = memory_zeroed(parts->robot_count + 1, sizeof *robots);
    struct authz_binding *bindings = memory_zeroed(parts->binding_count + 1, sizeof *bindings);
    struct authz_parts rows = *parts;
    struct result result = {.ok = false};

    if (robots == NULL || bindings == NULL) {
        failure_write(err, ERROR_NO_MEMORY, "no memory for a snapshot of rights");
    } else {
        if (parts->robot_count > 0) memcpy(robots, parts->robots, parts->robot_count * sizeof *robots);
        if (parts->binding_count > 0) memcpy(bindings, parts->bindings, parts->binding_count * sizeof *bindings);
        qsort(robots, rows.robot_count, sizeof *robots, compare_robots);
        qsort(bindings, rows.binding_count, sizeof *bindings, compare_bindings);
        rows.robots = robots;
        rows.bindings = bindings;
        result = build(before, change, &rows, snapshot_out, err);
    }
    free(robots);
    free(bindings);
    return result;
}

struct result authz_snapshot_build(const struct authz_parts *parts, struct authz_snapshot **snapshot_out, struct error *err)
{
    return snapshot_build(NULL, &(struct rights_change){0}, parts, snapshot_out, err);
}

/* Without a snapshot before, all parts are made from the rows. */
struct result snapshot_of_rows(const struct authz_snapshot *like, const struct authz_parts *rows,
                               struct authz_snapshot **snapshot_out, struct error *err)
{
    const struct rights_change all = {.count = 0};
    struct authz_parts left = *rows;
    struct gathering gathering = {.parts =
                                      memory_zeroed(1 + rows->robot_count + rows->binding_count, sizeof(struct rights_part *))};

    if (gathering.parts == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a snapshot of rights");
    const struct result merged = merge(NULL, &all, &left, &gathering, err);
    const struct snapshot_shared shared = {.issuers = like->issuers, .rules = rows->rules, .persons = rows->persons};
    if (merged.ok) return snapshot_assemble(gathering.parts, gathering.count, &shared, snapshot_out, err);
    gathering_done(&gathering);
    return merged;
}
