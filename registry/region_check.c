#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/metrics.h"
#include "registry/maintenance.h"
#include "registry/registry_priv.h"
#include "registry/stored_blob_store.h"
#include "storage/region_store.h"

/* One object is enough: the listing ends there. */
static struct result stop_at_first(void *context, const struct driver_entry *entry, struct error *err)
{
    (void)entry;
    *(bool *)context = true;
    return failure(err, ERROR_CONFLICT, "one is enough");
}

static struct result check_region(const struct registry_store *store, struct pg *pg, struct error *err)
{
    bool used = false, found = false;

    struct error why = {0};

    if (!blob_store_check(store->blobs, &why).ok) return failure(err, why.kind, "region %.63s: %.180s", store->id, why.message);
    TRY(blob_rows_in_region(pg, store->id, &used, err));
    if (!used) return SUCCESS;
    const struct result listed = blob_list(store->blobs, stop_at_first, &found, err);
    if (found) return SUCCESS;
    if (!listed.ok) return listed;
    return failure(err, ERROR_UNAVAILABLE,
                   "region %.63s has blobs in the database but its store is empty: is its file system mounted, and the "
                   "location in the configuration right?",
                   store->id);
}

struct result registry_check_region(const struct registry *registry, const char *region, struct pg *pg, struct error *err)
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

/* ---- The state of the regions, for /readyz ---- */

enum {
    FAR_EVERY_MS = 600000, /* buckets seldom move, but a wrong location must be found within a day */
    ANSWERS_WITHIN_MS = 30000
};

static bool is_due(const struct registry_store *store)
{
    const bool is_far = strcmp(store->driver, "s3") == 0;

    return !is_far || store->checked_ms == 0 || store->problem[0] != '\0' ||
           clock_monotonic_ms() - store->checked_ms >= FAR_EVERY_MS;
}

static void remember(struct registry *registry, char *kept, size_t size, const char *text)
{
    (void)pthread_mutex_lock(&registry->problem_lock);
    (void)snprintf(kept, size, "%s", text);
    (void)pthread_mutex_unlock(&registry->problem_lock);
}

static void measure(struct registry *registry, struct registry_store *store)
{
    struct driver_room room = {0};
    struct error ignored = {0};
    const bool has_room = blob_store_room(store->blobs, &room, &ignored).ok;

    (void)pthread_mutex_lock(&registry->problem_lock);
    store->has_room = has_room;
    store->room = room;
    (void)pthread_mutex_unlock(&registry->problem_lock);
}

static struct result check_place(struct registry *registry, size_t index, struct error *err)
{
    struct registry_store *store = &registry->regions[index];
    struct error why = {0};

    if (!is_due(store)) return SUCCESS;
    atomic_store(&registry->checked_index, index);
    atomic_store(&registry->check_began_ms, clock_monotonic_ms());
    const struct result checked = blob_store_check(store->blobs, &why);
    measure(registry, store);
    atomic_store(&registry->check_began_ms, 0);
    store->checked_ms = clock_monotonic_ms();
    remember(registry, store->problem, sizeof store->problem, !checked.ok && why.kind == ERROR_INVALID ? why.message : "");
    return checked.ok ? SUCCESS : failure(err, why.kind, "region %.63s: %.180s", store->id, why.message);
}

struct result registry_check_stores(struct registry *registry, struct error *err)
{
    struct result result = SUCCESS;
    struct error later = {0};

    for (size_t i = 0; i < registry->region_count; i++) {
        const struct result checked = check_place(registry, i, result.ok ? err : &later);
        if (result.ok) result = checked;
    }
    return result;
}

struct result registry_check_served(struct registry *registry, struct pg *pg, struct error *err)
{
    const struct peers *elsewhere = &registry->elsewhere;
    struct bytes served[REGISTRY_REGIONS_MAX + PEERS_MAX];
    size_t count = registry->region_count;
    char unserved[REGION_ID_MAX + 1] = "";

    for (size_t i = 0; i < registry->region_count; i++) served[i] = bytes_of_text(registry->regions[i].id);
    for (size_t i = 0; i < elsewhere->count; i++) served[count++] = bytes_of_text(elsewhere->each[i].region);
    TRY(blob_rows_elsewhere(pg, served, count, unserved, err));
    remember(registry, registry->unserved, sizeof registry->unserved, unserved);
    if (unserved[0] == '\0') return SUCCESS;
    return failure(err, ERROR_INVALID, "region %s has blobs in the database and is not in this gateway's configuration: add it",
                   unserved);
}

/* Call it with the lock held. */
static struct result first_problem(const struct registry *registry, struct error *err)
{
    if (registry->unserved[0] != '\0')
        return failure(err, ERROR_UNAVAILABLE, "region %s has blobs and is not in this gateway's configuration",
                       registry->unserved);
    for (size_t i = 0; i < registry->region_count; i++) {
        const struct registry_store *store = &registry->regions[i];
        if (store->problem[0] != '\0')
            return failure(err, ERROR_UNAVAILABLE, "region %.63s can't be used: %.160s", store->id, store->problem);
    }
    return SUCCESS;
}

/* A store whose check has not answered for long; NULL: none. */
static const struct registry_store *unresponsive_store(struct registry *registry)
{
    const int64_t since_ms = atomic_load(&registry->check_began_ms);

    if (since_ms == 0 || clock_monotonic_ms() - since_ms <= ANSWERS_WITHIN_MS) return NULL;
    return &registry->regions[atomic_load(&registry->checked_index)];
}

struct result registry_regions_ready(struct registry *registry, struct error *err)
{
    const struct registry_store *silent = unresponsive_store(registry);

    if (silent != NULL) return failure(err, ERROR_UNAVAILABLE, "region %.63s does not answer", silent->id);
    (void)pthread_mutex_lock(&registry->problem_lock);
    const struct result ready = first_problem(registry, err);
    (void)pthread_mutex_unlock(&registry->problem_lock);
    return ready;
}

bool registry_region_has_problem(struct registry *registry, const char *region)
{
    const struct registry_store *silent = unresponsive_store(registry);
    bool has_problem = false;

    (void)pthread_mutex_lock(&registry->problem_lock);
    for (size_t i = 0; i < registry->region_count; i++) {
        const struct registry_store *store = &registry->regions[i];
        if (strcmp(store->id, region) == 0) has_problem = store->problem[0] != '\0' || store == silent;
    }
    (void)pthread_mutex_unlock(&registry->problem_lock);
    return has_problem;
}

bool registry_region_is_readable(struct registry *registry, const char *region)
{
    struct blob_store *blobs = NULL;
    struct error ignored = {0};

    return registry_blobs(registry, region, &blobs, &ignored).ok && !registry_region_has_problem(registry, region);
}

/* ---- The state of the regions as metrics ---- */

enum {
#define X(constant, name, labels, kind, help) constant,
#include "registry/region_metrics.def"
#undef X
    REGION_METRIC_COUNT
};

#define REGION_LABEL_SIZE (REGION_ID_MAX + sizeof "region=\"\"")

static const struct metric region_metrics[REGION_METRIC_COUNT] = {
#define X(constant, metric_name, metric_labels, metric_kind, metric_help) \
    [constant] = {.name = (metric_name), .labels = (metric_labels), .kind = (metric_kind), .help = (metric_help)},
#include "registry/region_metrics.def"
#undef X
};

static bool has_keys(const struct region_keys *keys)
{
    return keys->is_open && !keys->is_grave && keys->place.is_current;
}

/* Call it with the lock held. */
static const struct region_keys *keys_of(const struct registry *registry, const char *region)
{
    for (size_t i = 0; i < registry->key_count; i++)
        if (strcmp(registry->key_places[i].id, region) == 0) return &registry->key_places[i];
    return NULL;
}

static bool value_of_copies(const struct registry_store *store, int metric, int64_t *value_out)
{
    if (metric == REGION_COPIES_WAITING) *value_out = (int64_t)atomic_load(&store->copies_waiting);
    else if (metric == REGION_COPIES_BYTES) *value_out = (int64_t)atomic_load(&store->copies_waiting_bytes);
    else if (metric == REGION_COPIES_DENIED) *value_out = (int64_t)atomic_load(&store->copies_denied);
    else if (metric == REGION_COPIES_LAG) *value_out = atomic_load(&store->copies_lag_s);
    else return false;
    return true;
}

static bool value_of(const struct registry_store *store, const struct registry_store *silent, int metric, int64_t *value_out)
{
    if (value_of_copies(store, metric, value_out)) return true;
    if (metric == REGION_CLOSED) *value_out = blob_store_is_closed(store->blobs);
    if (metric == REGION_DISAGREES) *value_out = store->disagreement[0] != '\0';
    if (metric == REGION_USABLE) *value_out = store->problem[0] == '\0' && store != silent;
    if (metric == REGION_SIZE) *value_out = (int64_t)store->room.size_bytes;
    if (metric == REGION_FREE) *value_out = (int64_t)store->room.free_bytes;
    return (metric != REGION_SIZE && metric != REGION_FREE) || store->has_room;
}

struct result registry_write_metrics(struct registry *registry, struct buffer *text, struct error *err)
{
    struct metric rows[REGION_METRIC_COUNT * REGISTRY_REGIONS_MAX];
    char labels[REGISTRY_REGIONS_MAX][REGION_LABEL_SIZE];
    const struct registry_store *silent = unresponsive_store(registry);
    struct metric_table table = {.metrics = rows};
    const struct metric_table *const tables[] = {&table};

    (void)pthread_mutex_lock(&registry->problem_lock);
    for (int metric = 0; metric < REGION_METRIC_COUNT; metric++) {
        for (size_t i = 0; i < registry->region_count; i++) {
            int64_t value = 0;
            const struct region_keys *keys = keys_of(registry, registry->regions[i].id);
            if (metric == REGION_KEYS ? keys == NULL : !value_of(&registry->regions[i], silent, metric, &value)) continue;
            if (metric == REGION_KEYS) value = has_keys(keys);
            (void)snprintf(labels[i], sizeof labels[i], "region=\"%s\"", registry->regions[i].id);
            rows[table.count] = region_metrics[metric];
            rows[table.count].labels = labels[i];
            metric_set(&rows[table.count++], value);
        }
    }
    (void)pthread_mutex_unlock(&registry->problem_lock);
    return metrics_write(text, tables, 1, err);
}

static bool lacks_keys(struct registry *registry, const char *region)
{
    (void)pthread_mutex_lock(&registry->problem_lock);
    const struct region_keys *keys = keys_of(registry, region);
    const bool lacks = keys != NULL && !has_keys(keys);
    (void)pthread_mutex_unlock(&registry->problem_lock);
    return lacks;
}

void registry_closed_regions(struct registry *registry, char *text, size_t size)
{
    size_t at = 0;

    text[0] = '\0';
    for (size_t i = 0; i < registry->region_count && at < size; i++) {
        const struct registry_store *store = &registry->regions[i];
        if (!blob_store_is_closed(store->blobs) && !lacks_keys(registry, store->id)) continue;
        const int written = snprintf(text + at, size - at, "%s%s", at == 0 ? "" : ", ", store->id);
        at += written < 0 ? 0 : (size_t)written;
    }
}

/* ---- The list of regions ---- */

static void describe_problem(struct registry *registry, struct region_view *view)
{
    (void)snprintf(view->problem, sizeof view->problem, "it is not in this gateway's configuration");
    for (size_t i = 0; i < registry->region_count; i++) {
        const struct registry_store *store = &registry->regions[i];
        if (strcmp(store->id, view->id) != 0) continue;
        view->is_served = true;
        (void)pthread_mutex_lock(&registry->problem_lock);
        (void)snprintf(view->problem, sizeof view->problem, "%s", store->problem);
        (void)snprintf(view->disagreement, sizeof view->disagreement, "%s", store->disagreement);
        (void)pthread_mutex_unlock(&registry->problem_lock);
    }
}

static void describe_keys(struct registry *registry, struct region_view *view)
{
    struct region_keys keys;

    view->has_keyd = registry_region_keys(registry, view->id, &keys);
    if (!view->has_keyd) return;
    view->has_keys = has_keys(&keys);
    memcpy(view->keyd, keys.key, sizeof view->keyd);
    memcpy(view->keyd_problem, keys.problem, sizeof view->keyd_problem);
    view->keyd_epoch = keys.place.epoch;
    view->keyd_unwraps = keys.place.unwraps;
    view->keyd_current_ms = keys.place.current_ms;
    view->keyd_version = keys.place.key_version;
}

struct result registry_list_regions(const struct permit *permit, struct registry *registry, struct pg *pg,
                                    struct region_view **views_out, size_t *count_out, struct error *err)
{
    struct region *regions = NULL;
    size_t count = 0;

    (void)permit_resource(permit, ACTION_REGION_READ);
    TRY(region_list(pg, &regions, &count, err));
    struct region_view *views = memory_zeroed(count + 1, sizeof *views);
    for (size_t i = 0; views != NULL && i < count; i++) {
        (void)snprintf(views[i].id, sizeof views[i].id, "%s", regions[i].id);
        (void)snprintf(views[i].driver, sizeof views[i].driver, "%s", region_driver_name(regions[i].driver));
        describe_problem(registry, &views[i]);
        describe_keys(registry, &views[i]);
    }
    free(regions);
    if (views == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for %zu regions", count);
    *views_out = views;
    *count_out = count;
    return SUCCESS;
}
