#include <string.h>

#include "registry/registry_priv.h"
#include "registry/stored_blob_store.h"

/* One object is enough: the listing ends there. */
static struct result found_one(void *context, const struct driver_entry *entry, struct error *err)
{
    (void)entry;
    *(bool *)context = true;
    return failure(err, ERROR_CONFLICT, "one is enough");
}

static struct result check_region(const struct registry_store *place, struct pg *pg, struct error *err)
{
    bool used = false, found = false;

    TRY(blob_store_check(place->blobs, err));
    TRY(blob_rows_in_region(pg, place->id, &used, err));
    if (!used) return SUCCESS;
    const struct result listed = blob_list(place->blobs, found_one, &found, err);
    if (found) return SUCCESS;
    if (!listed.ok) return listed;
    return failure(err, ERROR_UNAVAILABLE,
                   "region %.63s has blobs in the database but its store is empty: is its file system mounted, and the "
                   "location in the configuration right?",
                   place->id);
}

struct result registry_check_region(const struct registry *registry, const char *region, struct pg *pg,
                                    struct error *err)
{
    for (size_t i = 0; i < registry->region_count; i++)
        if (strcmp(registry->regions[i].id, region) == 0) return check_region(&registry->regions[i], pg, err);
    return failure(err, ERROR_UNAVAILABLE, "region %.63s is not served by this gateway", region);
}

struct result registry_check_regions(const struct registry *registry, struct pg *pg, struct error *err)
{
    for (size_t i = 0; i < registry->region_count; i++) TRY(check_region(&registry->regions[i], pg, err));
    return SUCCESS;
}

struct result registry_check_places(const struct registry *registry, struct error *err)
{
    struct result result = SUCCESS;
    struct error later = {0};

    for (size_t i = 0; i < registry->region_count; i++) {
        const struct result checked = blob_store_check(registry->regions[i].blobs, result.ok ? err : &later);
        if (result.ok) result = checked;
    }
    return result;
}
