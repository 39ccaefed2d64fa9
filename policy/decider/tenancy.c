/* Looks up names of organisations and projects, and computes the labels of names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/compiled_priv.h"
#include "policy/decider/snapshot_priv.h"

bool tenancy_is_spent(const struct tenancy *tenancy, const struct policy_exception *exception)
{
    for (size_t i = 0; i < tenancy->spent_count; i++)
        if (memcmp(tenancy->spent[i], exception->key, sizeof exception->key) == 0) return true;
    return false;
}

static int compare_organisation(const void *name, const void *organisation)
{
    return strcmp(name, ((const struct tenant_organisation *)organisation)->name);
}

static int compare_project(const void *name, const void *project)
{
    return strcmp(name, ((const struct tenant_project *)project)->name);
}

static int compare_repository(const void *name, const void *repository)
{
    return strcmp(name, ((const struct tenant_repository *)repository)->name);
}

/* The first `wanted` segments of a name; false if it has fewer, or they are too long. */
static bool head_of(const char *name, unsigned wanted, char *head_out, size_t size)
{
    size_t length = 0;

    for (unsigned segments = 1; name[length] != '\0'; length++)
        if (name[length] == '/' && segments++ == wanted) break;
    unsigned have = 1;
    for (size_t i = 0; i < length; i++) have += name[i] == '/';
    if (have != wanted || length >= size) return false;
    memcpy(head_out, name, length);
    head_out[length] = '\0';
    return true;
}

const struct tenant_organisation *tenancy_organisation(const struct tenancy *tenancy, const char *name)
{
    char head[sizeof tenancy->organisations->name];

    if (tenancy->organisation_count == 0 || !head_of(name, 1, head, sizeof head)) return NULL;
    return bsearch(head, tenancy->organisations, tenancy->organisation_count, sizeof *tenancy->organisations,
                   compare_organisation);
}

const struct tenant_project *tenancy_project(const struct tenancy *tenancy, const char *name)
{
    char head[sizeof tenancy->projects->name];

    if (tenancy->project_count == 0 || !head_of(name, 2, head, sizeof head)) return NULL;
    return bsearch(head, tenancy->projects, tenancy->project_count, sizeof *tenancy->projects, compare_project);
}

const struct tenant_repository *tenancy_repository(const struct tenancy *tenancy, const char *name)
{
    if (tenancy->repository_count == 0) return NULL;
    return bsearch(name, tenancy->repositories, tenancy->repository_count, sizeof *tenancy->repositories, compare_repository);
}

static int compare_misplaced(const void *name, const void *misplaced)
{
    return strcmp(name, ((const struct tenant_misplaced *)misplaced)->name);
}

const struct tenant_misplaced *tenancy_misplaced(const struct tenancy *tenancy, const char *name)
{
    if (tenancy->misplaced_count == 0) return NULL;
    return bsearch(name, tenancy->misplaced, tenancy->misplaced_count, sizeof *tenancy->misplaced, compare_misplaced);
}

static int compare_id(const void *a, const void *b)
{
    return memcmp(((const struct uuid *)a)->bytes, ((const struct uuid *)b)->bytes, sizeof(struct uuid));
}

bool tenancy_is_deleted(const struct tenancy *tenancy, const struct uuid *repository)
{
    return tenancy->deleted_count > 0 &&
           bsearch(repository, tenancy->deleted, tenancy->deleted_count, sizeof *repository, compare_id) != NULL;
}

/* The index of the first entry of that name, or where it would be. */
static size_t first_stored(const struct tenancy *tenancy, const char *name)
{
    size_t low = 0, high = tenancy->stored_count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (strcmp(tenancy->stored[middle].name, name) < 0) low = middle + 1;
        else high = middle;
    }
    return low;
}

struct result tenancy_stored_label(const struct tenancy *tenancy, const struct policy_set *set, const char *name,
                                   struct label *label_out, bool *is_stored_out, struct error *err)
{
    struct label label = {.class = LABEL_OPEN, .lineage = LINEAGE_ATTESTED};
    bool is_stored = false;

    for (size_t i = first_stored(tenancy, name); i < tenancy->stored_count; i++) {
        const struct tenant_stored *stored = &tenancy->stored[i];
        if (strcmp(stored->name, name) != 0) break;
        if (policy_set_declassifies(set, stored->floor->policy, name)) continue;
        TRY(label_join(&label, &stored->floor->label, err));
        is_stored = true;
    }
    *label_out = label;
    *is_stored_out = is_stored;
    return SUCCESS;
}

const char *tenancy_organisation_name(const struct tenancy *tenancy, const struct uuid *id)
{
    for (size_t i = 0; i < tenancy->organisation_count; i++)
        if (uuid_equal(&tenancy->organisations[i].id, id)) return tenancy->organisations[i].name;
    return NULL;
}

const char *tenancy_project_name(const struct tenancy *tenancy, const struct uuid *id)
{
    for (size_t i = 0; i < tenancy->project_count; i++)
        if (uuid_equal(&tenancy->projects[i].id, id)) return tenancy->projects[i].name;
    return NULL;
}

static enum resource_kind kind_of(const char *name)
{
    const char *slash = strchr(name, '/');

    if (name[0] == '\0') return RESOURCE_SYSTEM;
    if (slash == NULL) return RESOURCE_ORGANISATION;
    return strchr(slash + 1, '/') == NULL ? RESOURCE_PROJECT : RESOURCE_REPOSITORY;
}

void tenancy_resolve(const struct tenancy *tenancy, const char *name, struct resource *resource_out)
{
    const struct tenant_organisation *organisation = tenancy_organisation(tenancy, name);
    const struct tenant_project *project = tenancy_project(tenancy, name);
    struct resource resource = {.kind = kind_of(name)};

    (void)snprintf(resource.name, sizeof resource.name, "%s", name);
    if (organisation != NULL) resource.organisation = organisation->id;
    if (project != NULL) {
        resource.project = project->id;
        (void)snprintf(resource.region, sizeof resource.region, "%s", project->home_region);
    }
    *resource_out = resource;
}

struct joined {
    struct label label;
    bool is_stated, has_lineage;
};

static struct result join_floor(struct joined *joined, const struct floor_label *floor, struct error *err)
{
    if (floor == NULL) return SUCCESS;
    joined->is_stated = true;
    joined->has_lineage |= floor->has_lineage;
    return label_join(&joined->label, &floor->label, err);
}

struct result tenancy_label(const struct tenancy *tenancy, const char *name, const struct asked_label *asked,
                            struct label *label_out, bool *is_stated_out, struct error *err)
{
    const struct tenant_organisation *organisation = tenancy_organisation(tenancy, name);
    const struct tenant_project *project = tenancy_project(tenancy, name);
    const struct tenant_repository *repository = tenancy_repository(tenancy, name);
    struct joined joined = {.label = {.class = LABEL_OPEN, .lineage = LINEAGE_ATTESTED}};

    TRY(join_floor(&joined, organisation == NULL ? NULL : organisation->floor, err));
    TRY(join_floor(&joined, project == NULL ? NULL : project->floor, err));
    TRY(join_floor(&joined, repository == NULL ? NULL : repository->floor, err));
    if (asked != NULL && asked->is_stated) {
        joined.is_stated = true;
        joined.has_lineage |= asked->has_lineage;
        TRY(label_join(&joined.label, &asked->label, err));
    }
    if (!joined.has_lineage) joined.label.lineage = LINEAGE_UNKNOWN;
    *label_out = joined.label;
    *is_stated_out = joined.is_stated;
    return SUCCESS;
}
