/* A snapshot after changes of single roles: it shares all but the buckets of who has them. */
#include <stdlib.h>
#include <string.h>

#include "authz/officer_entry.h"
#include "authz/snapshot_priv.h"
#include "authz/snapshot_rows_priv.h"
#include "base/clock.h"
#include "base/memory.h"

static int compare_changes(const void *a, const void *b)
{
    const struct uuid *left = &((const struct binding_change *)a)->binding.organisation,
                      *right = &((const struct binding_change *)b)->binding.organisation;

    return memcmp(left->bytes, right->bytes, sizeof left->bytes);
}

/* The parts of the new snapshot so far. */
struct patching {
    struct rights_part **parts;
    size_t count;
    bool has_more; /* parts than before, so the places of robots are others */
};

/* The first role in an organisation that has no robots. */
static struct result add_part(struct patching *patching, const struct binding_change *changes, size_t count, struct error *err)
{
    const struct uuid *organisation = &changes->binding.organisation;
    const struct authz_parts nothing = {.binding_count = 0};
    OWNED(rights_part) *empty = NULL;

    TRY(rights_part_new(organisation, &nothing, &empty, err));
    TRY(rights_part_renew(empty, changes, count, &patching->parts[patching->count], err));
    patching->has_more = true;
    patching->count++;
    return SUCCESS;
}

static struct result renew_part(struct patching *patching, const struct rights_part *before, const struct binding_change *changes,
                                size_t count, struct error *err)
{
    TRY(rights_part_renew(before, changes, count, &patching->parts[patching->count], err));
    patching->count++;
    return SUCCESS;
}

static size_t count_of_organisation(const struct binding_change *changes, size_t count)
{
    size_t same = 1;

    while (same < count && compare_changes(changes, changes + same) == 0) same++;
    return same;
}

/* Below 0: the part comes first, above: the change, and else both are of one organisation. `part` NULL: there is none left. */
static int compare_next(const struct rights_part *part, const struct binding_change *changes, size_t count)
{
    if (part == NULL) return 1;
    if (count == 0) return -1;
    return memcmp(part->organisation.bytes, changes->binding.organisation.bytes, sizeof part->organisation.bytes);
}

/* Merges, in order, the parts of before and the changes. */
static struct result patch(const struct authz_snapshot *before, const struct binding_change *changes, size_t count,
                           struct patching *patching, struct error *err)
{
    size_t old = 0;

    while (old < before->part_count || count > 0) {
        struct rights_part *part = old < before->part_count ? before->parts[old] : NULL;
        const int order = compare_next(part, changes, count);
        const size_t same = order < 0 ? 0 : count_of_organisation(changes, count);
        if (order < 0) patching->parts[patching->count++] = rights_part_keep(part);
        else if (order == 0) TRY(renew_part(patching, part, changes, same, err));
        else TRY(add_part(patching, changes, same, err));
        if (order <= 0) old++;
        changes += same;
        count -= same;
    }
    return SUCCESS;
}

struct result snapshot_patch(const struct authz_snapshot *before, struct binding_change *changes, size_t count,
                             struct authz_snapshot **snapshot_out, struct error *err)
{
    struct patching patching = {.parts = memory_zeroed(before->part_count + count, sizeof(struct rights_part *))};

    if (patching.parts == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a snapshot of rights");
    qsort(changes, count, sizeof *changes, compare_changes);
    const struct result patched = patch(before, changes, count, &patching, err);
    const struct snapshot_shared shared = {.issuers = before->issuers,
                                           .rules = before->rules,
                                           .persons = before->persons,
                                           .robots = patching.has_more ? NULL : before->robots};
    if (patched.ok) return snapshot_assemble(patching.parts, patching.count, &shared, snapshot_out, err);
    for (size_t i = 0; i < patching.count; i++) rights_part_free(patching.parts[i]);
    free(patching.parts);
    return patched;
}

/* ---- from rows ---- */

static struct result read_changes(const struct pg_rows *rows, const struct rights_change *change, const struct trust_rules *rules,
                                  struct binding_change *changes, size_t *count_out, struct error *err)
{
    const int64_t now_ms = clock_wall_ms();
    size_t count = 0;

    for (size_t i = 0; i < pg_rows_count(rows); i++) {
        struct binding_change *next = &changes[count];
        *next = (struct binding_change){.is_gone = snapshot_row_is_gone(rows, i)};
        TRY(snapshot_read_binding(rows, i, &next->binding, err));
        if (next->binding.role == ROLE_OWN) own_role_resolve(rules, &next->binding.organisation, &next->binding.own);
        officers_judge(rules, &next->binding, now_ms);
        /* What was read as a part is newer than, or the same as, what its single roles say. */
        if (!rights_have_changed(change, &next->binding.organisation)) count++;
    }
    *count_out = count;
    return SUCCESS;
}

static struct result patch_rows(const struct authz_snapshot *before, const struct rights_change *change,
                                const struct pg_rows *rows, struct authz_snapshot **snapshot_out, struct error *err)
{
    struct binding_change *changes = memory_zeroed(pg_rows_count(rows) + 1, sizeof *changes);
    size_t count = 0;

    if (changes == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a snapshot of rights");
    struct result result = read_changes(rows, change, before->rules, changes, &count, err);
    if (result.ok && count == 0) *snapshot_out = authz_snapshot_keep(before);
    else if (result.ok) result = snapshot_patch(before, changes, count, snapshot_out, err);
    free(changes);
    return result;
}

struct result authz_snapshot_renew(struct pg *pg, const struct authz_snapshot *before, const struct rights_change *change,
                                   struct authz_snapshot **snapshot_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    OWNED(authz_snapshot) *renewed = NULL;

    if (change->since > 0) TRY(snapshot_load_changes(pg, change->since, false, &rows, err));
    if (rows != NULL && pg_rows_count(rows) > RIGHTS_BINDINGS_MAX)
        return authz_snapshot_load(pg, before->rules, snapshot_out, err);
    if (change->count > 0) TRY(snapshot_renew_parts(pg, before, change, &renewed, err));
    else renewed = authz_snapshot_keep(before);
    if (rows != NULL) return patch_rows(renewed, change, rows, snapshot_out, err);
    *snapshot_out = GIVE(renewed);
    return SUCCESS;
}

struct result authz_snapshot_add(struct pg *pg, const struct authz_snapshot *before, uint64_t since, uint64_t *epoch_out,
                                 struct authz_snapshot **snapshot_out, struct error *err)
{
    const struct rights_change change = {.since = since};
    OWNED(pg_rows) *rows = NULL;

    TRY(snapshot_load_changes(pg, since, true, &rows, err));
    *epoch_out = 0;
    if (pg_rows_count(rows) == 0 || pg_rows_count(rows) > RIGHTS_BINDINGS_MAX) return SUCCESS;
    TRY(patch_rows(before, &change, rows, snapshot_out, err));
    *epoch_out = (uint64_t)pg_int8(rows, 0, BINDING_WIDTH + 1);
    return SUCCESS;
}
