#include "policy/decider/region_state.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

#include "policy/decider/decider_priv.h"

/* What is written into the region; and what reads from it besides. Metadata, the log and names of repositories are in the database. */
#define WRITING (OP_INGEST | OP_MOUNT | OP_REPLICATE | OP_MIGRATE | OP_CACHE | OP_BACKUP | OP_RESTORE)
#define READING (OP_READ | OP_STAT | OP_TRAIN | OP_EXPORT | OP_PROMOTE | OP_KEY_WRAP)

const char *region_state_name(const struct region_state *state)
{
    if (state->is_retired) return "retired";
    if (state->why[0] != '\0') return "quarantined";
    return state->is_draining ? "draining" : "active";
}

/* A label is no byte: it may rise wherever the content is. Nor is a look at where it is. */
static unsigned bytes_of(enum action action)
{
    const bool is_label = action == ACTION_PROJECT_LABEL || action == ACTION_REPOSITORY_LABEL || action == ACTION_PLACEMENT_CHECK;

    if (action == ACTION_COPY_READ) return OP_READ; /* decided towards the other region, and read here */
    return is_label ? OP_NONE : action_operations(action) & (WRITING | READING);
}

const struct region_refusal *region_refusal_of(const struct region_state *state, enum action action)
{
    static const struct region_refusal
        retired = {REGION_RULE_RETIRED, "The region of this content is retired: it has no bytes any more, and gets none."},
        quarantined =
            {REGION_RULE_QUARANTINE,
             "The region of this content is quarantined, because its store disagrees with its record: nothing is read or "
             "written there. An administrator of the registry finds the reason with 'sijil region show'."},
        draining = {"SYS-DRAINING", "The region of this content takes no new bytes any more; what is there can be read."};
    const unsigned operations = bytes_of(action);

    if (operations == OP_NONE) return NULL;
    if (state->is_retired) return &retired;
    if (state->why[0] != '\0') return &quarantined;
    return state->is_draining && (operations & WRITING) != 0 ? &draining : NULL;
}

const struct region_refusal *region_refusal_without_keys(enum action action)
{
    static const struct region_refusal not_current = {
        REGION_RULE_CURRENT,
        "The keys of this region are with a sijil-keyd of its own, which was not told within ten minutes which policy set "
        "is in force: nothing is read or written there until it is."};

    return bytes_of(action) == OP_NONE ? NULL : &not_current;
}

struct result region_lacks_set(struct region_lacks *lacks, const char *region, bool is_lacking, struct error *err)
{
    size_t i = 0;

    (void)pthread_mutex_lock(&lacks->lock);
    while (i < lacks->count && strcmp(lacks->each[i].id, region) != 0) i++;
    const bool is_full = i == REGION_LACKS_MAX;
    if (i == lacks->count && is_lacking && !is_full)
        (void)text_copy(lacks->each[lacks->count++].id, sizeof lacks->each[i].id, region);
    if (i < lacks->count && lacks->each[i].is_lacking != is_lacking) {
        lacks->each[i].is_lacking = is_lacking;
        atomic_fetch_add(&lacks->lacking, is_lacking ? 1 : -1);
    }
    (void)pthread_mutex_unlock(&lacks->lock);
    return is_full && is_lacking ? failure(err, ERROR_LIMIT, "too many regions have a sijil-keyd") : SUCCESS;
}

bool region_lacks_has(struct region_lacks *lacks, const char *region)
{
    bool found = false;

    if (atomic_load(&lacks->lacking) == 0) return false;
    (void)pthread_mutex_lock(&lacks->lock);
    for (size_t i = 0; i < lacks->count; i++)
        found = found || (lacks->each[i].is_lacking && strcmp(lacks->each[i].id, region) == 0);
    (void)pthread_mutex_unlock(&lacks->lock);
    return found;
}

struct result decider_region_lacks(struct decider *decider, const char *region, bool lacks, struct error *err)
{
    return region_lacks_set(decider->lacks, region, lacks, err);
}

static int compare_id(const void *id, const void *state)
{
    return strcmp(id, ((const struct region_state *)state)->id);
}

const struct region_state *tenancy_region(const struct tenancy *tenancy, const char *region)
{
    if (tenancy->region_count == 0) return NULL;
    return bsearch(region, tenancy->regions, tenancy->region_count, sizeof *tenancy->regions, compare_id);
}

bool decider_region_state(struct decider *decider, const char *region, struct region_state *state_out)
{
    OWNED(snapshot) *snapshot = decider_take(decider);
    const struct region_state *state = tenancy_region(&snapshot->tenancy, region);

    if (state != NULL) *state_out = *state;
    return state != NULL;
}
