/* Regions that only the policy set names: opened without a restart, on each gateway that has the place for them. */
#include <stdio.h>
#include <string.h>

#include "policy/decider/decider.h"
#include "policy/set.h"
#include "registry/maintenance.h"
#include "registry/region_scan_priv.h"
#include "registry/registry_priv.h"

static const char *or_empty(const char *text)
{
    return text == NULL ? "" : text;
}

static bool is_open(const struct registry *registry, const char *id)
{
    bool found = false;

    for (size_t i = 0; i < registry->region_count; i++) found = found || strcmp(registry->regions[i].id, id) == 0;
    return found;
}

/* "aws/x" is aws-x below the folder. An id has no dots, so no path leads out of it. */
struct result region_path_below(const char *folder, const char *id, char path_out[REGION_PATH_ROOM], struct error *err)
{
    const int length = snprintf(path_out, REGION_PATH_ROOM, "%s/%s", folder, id);

    if (length < 0 || length >= REGION_PATH_ROOM) return failure(err, ERROR_LIMIT, "the path of region %.63s is too long", id);
    for (char *at = path_out + strlen(folder) + 1; *at != '\0'; at++)
        if (*at == '/') *at = '-';
    return SUCCESS;
}

static struct result open_store(struct registry *registry, const char *id, const json_t *store, bool has_keyd,
                                char path[REGION_PATH_ROOM], struct error *err)
{
    const struct registry_recorded *recorded = &registry->recorded;
    const bool is_bucket = strcmp(json_text_of(store, "driver"), "s3") == 0;
    const char *folder = is_bucket ? recorded->key_folder : recorded->folder;

    if (or_empty(folder)[0] == '\0') return SUCCESS; /* other gateways serve it */
    TRY(region_path_below(folder, id, path, err));
    const struct registry_region region = {.id = id,
                                           .driver = json_text_of(store, "driver"),
                                           .location = is_bucket ? "" : path,
                                           .endpoint = or_empty(json_text_of(store, "endpoint")),
                                           .bucket = or_empty(json_text_of(store, "bucket")),
                                           .bucket_location = or_empty(json_text_of(store, "bucket_location")),
                                           .prefix = or_empty(json_text_of(store, "prefix")),
                                           .access_key_file = path,
                                           .ca_file = or_empty(recorded->ca_file),
                                           .endpoint_networks = or_empty(recorded->networks),
                                           .page_cache_blob_max = recorded->page_cache_blob_max};
    if (has_keyd) TRY(registry_use_keyd(registry, id, err)); /* before the first key */
    return registry_open_region(registry, &region, err);
}

/* The row of a new region has its place, as that of a configured one. */
static void describe(const char *id, const json_t *store, const char *path, struct region *region_out)
{
    const bool is_bucket = strcmp(json_text_of(store, "driver"), "s3") == 0;

    *region_out = (struct region){.driver = is_bucket ? REGION_DRIVER_S3 : REGION_DRIVER_FS};
    (void)snprintf(region_out->id, sizeof region_out->id, "%s", id);
    if (is_bucket)
        (void)snprintf(region_out->location, sizeof region_out->location, "%s/%s/%s", or_empty(json_text_of(store, "endpoint")),
                       or_empty(json_text_of(store, "bucket")), or_empty(json_text_of(store, "prefix")));
    else (void)snprintf(region_out->location, sizeof region_out->location, "%s", path);
}

/* Whether another region of the set has the same place here: a/b-c and a-b/c. */
static bool shares_place(const struct policy_set *set, const char *id)
{
    char own[REGION_PATH_ROOM], other[REGION_PATH_ROOM];
    struct error ignored = {0};
    bool shares = false;

    if (!region_path_below("", id, own, &ignored).ok) return true;
    for (size_t i = 0; i < policy_set_region_count(set); i++) {
        const char *name = policy_set_region_name(set, i);
        if (policy_set_region_store(set, name) == NULL || strcmp(name, id) == 0) continue;
        shares = shares || !region_path_below("", name, other, &ignored).ok || strcmp(own, other) == 0;
    }
    return shares;
}

static struct result open_one(struct registry *registry, struct decider *decider, const struct policy_set *set, const char *id,
                              struct error *err)
{
    const json_t *store = policy_set_region_store(set, id);
    char path[REGION_PATH_ROOM] = "";
    struct region_state state;
    struct region region;

    if (store == NULL || is_open(registry, id) || peers_find(&registry->elsewhere, id) != NULL) return SUCCESS;
    const bool is_known = decider_region_state(decider, id, &state);
    if (is_known && state.is_retired) return SUCCESS;
    if (!is_known && shares_place(set, id))
        return failure(err, ERROR_INVALID, "region %.63s would have the place of another one here, because \"/\" is \"-\" there",
                       id);
    const bool has_keyd = policy_set_region_keyd(set, id) != NULL || (is_known && state.keyd[0] != '\0');
    TRY(open_store(registry, id, store, has_keyd, path, err));
    if (!is_open(registry, id) || decider_region_state(decider, id, &state)) return SUCCESS;
    describe(id, store, path, &region);
    return region_record_opening(registry, &region, err);
}

struct result registry_open_recorded(struct registry *registry, struct decider *decider, struct error *err)
{
    struct policy_set *set = decider_policy_set(decider);
    struct result result = SUCCESS;
    struct error later = {0};

    for (size_t i = 0; set != NULL && i < policy_set_region_count(set); i++) {
        const char *id = policy_set_region_name(set, i);
        const struct result opened = open_one(registry, decider, set, id, result.ok ? err : &later);
        if (result.ok) result = opened;
    }
    policy_set_free(set);
    return result;
}
