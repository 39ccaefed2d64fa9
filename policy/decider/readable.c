/* The names of repositories that a principal may list: the scopes of its bindings, as ranges of names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "policy/decider/decider_priv.h"

/* Bounds for names: a name begins with a letter or a digit, and has no character that sorts before '-'. */
#define AFTER_ALL_NAMES "~"
#define AFTER_THIS_NAME '!'
#define AFTER_ALL_BELOW '0' /* follows '/' */

static void set_range(struct name_range *range, const char *prefix, char last)
{
    const size_t length = strlen(prefix);

    (void)snprintf(range->from, sizeof range->from, "%s", prefix);
    (void)snprintf(range->until, sizeof range->until, "%s", prefix);
    if (last == AFTER_THIS_NAME) (void)snprintf(range->until + length, sizeof range->until - length, "%c", last);
    else range->until[length - 1] = last;
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

/* A prefix contains another one or is disjoint from it, so a range is inside an earlier one, or disjoint. */
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

/* Sorts organisations in the byte order of the names in them: "acme-x/" comes before "acme/". */
static int compare_insides(const void *a, const void *b)
{
    const struct tenant_organisation *left = *(const struct tenant_organisation *const *)a;
    const struct tenant_organisation *right = *(const struct tenant_organisation *const *)b;
    char names[2][sizeof left->name + 1];

    (void)snprintf(names[0], sizeof names[0], "%s/", left->name);
    (void)snprintf(names[1], sizeof names[1], "%s/", right->name);
    return strcmp(names[0], names[1]);
}

static bool ends_before(const struct tenant_organisation *organisation, const char *after)
{
    char end[sizeof organisation->name + 1];

    (void)snprintf(end, sizeof end, "%s%c", organisation->name, AFTER_ALL_BELOW);
    return strcmp(end, after) <= 0;
}

/* One request for readable names. */
struct asked {
    const struct snapshot *snapshot;
    const struct principal *principal;
    const char *after;
    int64_t now_ms;
};

static size_t pulls_in(const struct asked *asked, const struct uuid *organisation, const struct authz_binding *bindings_out[])
{
    return authz_snapshot_permitting(asked->snapshot->authz, organisation, asked->principal, ACTION_BLOB_READ, asked->now_ms,
                                     bindings_out);
}

static size_t find_organisations(const struct asked *asked, const struct tenant_organisation *found_out[])
{
    const struct tenancy *tenancy = &asked->snapshot->tenancy;
    const struct authz_binding *bindings[BINDINGS_PER_PRINCIPAL_MAX];
    size_t count = 0;

    for (size_t i = 0; i < tenancy->organisation_count; i++) {
        const struct tenant_organisation *organisation = &tenancy->organisations[i];
        if (!ends_before(organisation, asked->after) && pulls_in(asked, &organisation->id, bindings) > 0)
            found_out[count++] = organisation;
    }
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers */
    qsort(found_out, count, sizeof found_out[0], compare_insides);
    return count;
}

/* Adds as many organisations as fit. A role on the whole registry covers all others. */
static void fill(const struct asked *asked, const struct tenant_organisation *const found[], size_t count,
                 struct name_ranges *ranges)
{
    static const struct uuid registry = {{0}};
    const struct authz_binding *bindings[2 * BINDINGS_PER_PRINCIPAL_MAX];
    size_t have = pulls_in(asked, &registry, bindings);

    for (size_t i = 0; i < count && (have == 0 || bindings[0]->scope != RESOURCE_SYSTEM); i++) {
        const size_t more = pulls_in(asked, &found[i]->id, bindings + have);
        if (have + more > BINDINGS_PER_PRINCIPAL_MAX) {
            ranges->has_more = true;
            (void)snprintf(ranges->next, sizeof ranges->next, "%s/", found[i]->name);
            break;
        }
        have += more;
    }
    tenancy_ranges(&asked->snapshot->tenancy, bindings, have, ranges);
}

struct result decider_readable(struct decider *decider, const struct principal *principal, const char *after, int64_t now_ms,
                               struct name_ranges **ranges_out, struct error *err)
{
    OWNED(snapshot) *snapshot = decider_take(decider);
    OWNED(name_ranges) *ranges = memory_zeroed(1, sizeof *ranges);
    const struct asked asked = {snapshot, principal, after, now_ms};
    const struct tenant_organisation **found =
        memory_zeroed(snapshot->tenancy.organisation_count + 1, sizeof(struct tenant_organisation *));

    if (ranges == NULL || found == NULL) {
        free(found);
        return failure(err, ERROR_NO_MEMORY, "no memory for names");
    }
    if (!decider_is_stale(decider, snapshot)) fill(&asked, found, find_organisations(&asked, found), ranges);
    free(found);
    *ranges_out = GIVE(ranges);
    return SUCCESS;
}

void name_ranges_free(struct name_ranges *ranges)
{
    free(ranges);
}
