#include "policy/decider/region_state.h"

#include <stdlib.h>
#include <string.h>

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

/* A label is no byte: it may rise wherever the content is. */
static unsigned bytes_of(enum action action)
{
    const bool is_label = action == ACTION_PROJECT_LABEL || action == ACTION_REPOSITORY_LABEL;

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
