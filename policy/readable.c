/* Which names of repositories a principal may list: its bindings' scopes, as ranges of names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "policy/decider_priv.h"

/* Letters between which names lie: they begin with a letter or a digit, and go on with no letter before '-'. */
#define AFTER_ALL_NAMES   "~"
#define AFTER_THIS_NAME   '!'
#define AFTER_ALL_BELOW   '0' /* follows '/' */

static void set_range(struct name_range *range, const char *prefix, char last)
{
    const size_t length = strlen(prefix);

    (void)snprintf(range->from, sizeof range->from, "%s", prefix);
    (void)snprintf(range->until, sizeof range->until, "%s", prefix);
    if (last == AFTER_THIS_NAME)
        (void)snprintf(range->until + length, sizeof range->until - length, "%c", last);
    else
        range->until[length - 1] = last;
}

static bool below(const char *name, struct name_range *range_out)
{
    char prefix[RESOURCE_NAME_MAX + 2];

    if (name == NULL) return false;
    (void)snprintf(prefix, sizeof prefix, "%s/", name);
    set_range(range_out, prefix, AFTER_ALL_BELOW);
    return true;
}

/* A full name, or "acme/models/" and an asterisk; always inside the binding's project. */
static bool pattern_range(const struct tenancy *tenancy, const struct authz_binding *binding, struct name_range *range_out)
{
    const char *project = tenancy_project_name(tenancy, &binding->project);
    const size_t length = strlen(binding->pattern), inside = project == NULL ? 0 : strlen(project);
    char prefix[RESOURCE_NAME_MAX + 1];

    if (project == NULL || strncmp(binding->pattern, project, inside) != 0 || binding->pattern[inside] != '/') return false;
    const bool is_prefix = strcmp(binding->pattern + length - 2, "/*") == 0;
    (void)snprintf(prefix, sizeof prefix, "%.*s", (int)(is_prefix ? length - 1 : length), binding->pattern);
    set_range(range_out, prefix, is_prefix ? AFTER_ALL_BELOW : AFTER_THIS_NAME);
    return true;
}

static bool binding_range(const struct tenancy *tenancy, const struct authz_binding *binding, struct name_range *range_out)
{
    switch (binding->scope) {
    case RESOURCE_SYSTEM: *range_out = (struct name_range){.from = "", .until = AFTER_ALL_NAMES}; return true;
    case RESOURCE_ORGANISATION: return below(tenancy_organisation_name(tenancy, &binding->organisation), range_out);
    case RESOURCE_PROJECT: return below(tenancy_project_name(tenancy, &binding->project), range_out);
    case RESOURCE_REPOSITORY: return pattern_range(tenancy, binding, range_out);
    }
    return false;
}

static int compare_ranges(const void *a, const void *b)
{
    return strcmp(((const struct name_range *)a)->from, ((const struct name_range *)b)->from);
}

/* One prefix holds another or has no name in common with it, so a range is inside of one before it, or apart. */
static void merge(struct name_ranges *ranges)
{
    struct name_range *list = ranges->ranges;
    size_t kept = 0;

    if (ranges->count == 0) return;
    qsort(list, ranges->count, sizeof *list, compare_ranges);
    for (size_t i = 1; i < ranges->count; i++)
        if (strcmp(list[i].from, list[kept].until) >= 0) list[++kept] = list[i];
    ranges->count = kept + 1;
}

void tenancy_ranges(const struct tenancy *tenancy, const struct authz_binding *const bindings[], size_t count,
                    struct name_ranges *ranges)
{
    ranges->count = 0;
    for (size_t i = 0; i < count; i++)
        if (binding_range(tenancy, bindings[i], &ranges->ranges[ranges->count])) ranges->count++;
    merge(ranges);
}

struct result decider_readable(struct decider *decider, const struct principal *principal, int64_t now_ms,
                               struct name_ranges **ranges_out, struct error *err)
{
    const struct authz_binding *bindings[BINDINGS_PER_PRINCIPAL_MAX];
    OWNED(snapshot) *snapshot = decider_take(decider);
    OWNED(name_ranges) *ranges = memory_zeroed(1, sizeof *ranges);
    size_t count = 0;

    if (ranges == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for names");
    if (!decider_is_stale(decider, snapshot))
        count = authz_snapshot_permitting(snapshot->authz, principal, ACTION_BLOB_READ, now_ms, bindings);
    tenancy_ranges(&snapshot->tenancy, bindings, count, ranges);
    *ranges_out = GIVE(ranges);
    return SUCCESS;
}

void name_ranges_free(struct name_ranges *ranges)
{
    free(ranges);
}
