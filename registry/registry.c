#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/text.h"
#include "registry/maintenance.h"
#include "registry/manifest_cache_priv.h"
#include "registry/manifest_use_priv.h"
#include "registry/metrics.h"
#include "registry/registry_priv.h"
#include "registry/upload_table.h"
#include "storage/driver_s3.h"

#define LEASE_DEFAULT_S 86400

static struct result open_bucket(const char *database, const struct registry_region *region, struct driver **driver_out,
                                 struct error *err)
{
    const struct driver_s3_options options = {.s3 = {.endpoint = region->endpoint,
                                                     .bucket = region->bucket,
                                                     .location = region->bucket_location,
                                                     .access_key_file = region->access_key_file,
                                                     .ca_file = region->ca_file,
                                                     .networks = region->endpoint_networks},
                                              .region = region->id,
                                              .prefix = region->prefix,
                                              .database = database};

    return driver_s3_open(&options, driver_out, err);
}

static struct result open_driver(const char *database, const struct registry_region *region, struct driver **driver_out,
                                 struct error *err)
{
    if (strcmp(region->driver, "fs") == 0) return driver_fs_open(region->location, region->page_cache_blob_max, driver_out, err);
    if (strcmp(region->driver, "s3") == 0) return open_bucket(database, region, driver_out, err);
    if (strcmp(region->driver, "memory") == 0) return driver_memory_open(NULL, driver_out, err);
    return failure(err, ERROR_INVALID, "there is no driver %.20s", region->driver);
}

static void copy_if_stated(char *text, size_t size, const char *stated)
{
    (void)snprintf(text, size, "%s", stated == NULL ? "" : stated);
}

/* For the comparison with the region's record. */
static void keep_place(struct registry_store *store, const struct registry_region *region)
{
    copy_if_stated(store->endpoint, sizeof store->endpoint, region->endpoint);
    copy_if_stated(store->bucket, sizeof store->bucket, region->bucket);
    copy_if_stated(store->bucket_location, sizeof store->bucket_location, region->bucket_location);
    copy_if_stated(store->prefix, sizeof store->prefix, region->prefix);
}

struct result registry_open_region(struct registry *registry, const struct registry_region *region, struct error *err)
{
    if (registry->region_count == REGISTRY_REGIONS_MAX)
        return failure(err, ERROR_LIMIT, "a gateway serves at most %d regions", REGISTRY_REGIONS_MAX);
    struct registry_store *store = &registry->regions[registry->region_count];
    if (strlen(region->id) > REGION_ID_MAX)
        return failure(err, ERROR_INVALID, "the region id %.80s is longer than %d letters", region->id, REGION_ID_MAX);
    if (!text_consists_of(bytes_of_text(region->id), "abcdefghijklmnopqrstuvwxyz0123456789-/"))
        return failure(err, ERROR_INVALID, "the region id %.80s has other letters than a to z, 0 to 9, - and /", region->id);
    OWNED(driver) *driver = NULL;
    struct error why = {0};
    if (!open_driver(registry->database, region, &driver, &why).ok)
        return failure(err, why.kind, "region %.63s: %.180s", region->id, why.message);
    store->driver = driver->operations->kind;
    TRY(blob_store_new(driver, region->id, NULL, &store->blobs, err));
    driver = NULL; /* the store owns it now */
    (void)snprintf(store->id, sizeof store->id, "%s", region->id);
    keep_place(store, region);
    registry->region_count++;
    return SUCCESS;
}

static unsigned given_or(unsigned given, unsigned otherwise)
{
    return given == 0 ? otherwise : given;
}

static struct session_limits session_limits_of(const struct session_limits *given)
{
    return (struct session_limits){.per_project = given_or(given->per_project, UPLOAD_SESSIONS_PER_PROJECT),
                                   .per_client = given_or(given->per_client, UPLOAD_SESSIONS_PER_OWNER),
                                   .per_organisation = given_or(given->per_organisation, UPLOAD_SESSIONS_PER_ORGANISATION),
                                   .idle_s = given_or(given->idle_s, UPLOAD_IDLE_S)};
}

struct result registry_new(const struct registry_options *options, struct registry **registry_out, struct error *err)
{
    const unsigned idle_max = options->uploads_idle_max;
    const struct upload_limits limits = {.writers_max = options->uploads_max,
                                         .idle_max = idle_max < options->uploads_max ? idle_max : options->uploads_max};

    if (options->region_count > REGISTRY_REGIONS_MAX)
        return failure(err, ERROR_LIMIT, "%zu regions; a gateway serves at most %d", options->region_count, REGISTRY_REGIONS_MAX);
    OWNED(registry) *registry = memory_zeroed(1, sizeof *registry);
    if (registry == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the registry");
    (void)pthread_mutex_init(&registry->problem_lock, NULL);
    registry->keyd = options->keyd;
    registry->sequencer = options->sequencer;
    registry->database = options->database;
    registry->recorded = options->recorded;
    registry->elsewhere = options->elsewhere;
    registry->uploads_open = session_limits_of(&options->uploads_open);
    registry->namespaces =
        (struct namespace_limits){given_or(options->namespaces.projects_per_organisation, PROJECTS_PER_ORGANISATION),
                                  given_or(options->namespaces.repositories_per_project, REPOSITORIES_PER_PROJECT)};
    registry->lease_s = options->lease_s == 0 ? LEASE_DEFAULT_S : options->lease_s;
    TRY(key_cache_new(options->key_count, options->key_lifetime_ms, &registry->keys, err));
    TRY(repository_cache_new(&registry->repositories, err));
    TRY(manifest_cache_new(&registry->manifests, err));
    TRY(manifest_uses_new(&registry->uses, err));
    TRY(upload_table_new(&limits, &registry->uploads, err));
    for (size_t i = 0; i < options->region_count; i++) TRY(registry_open_region(registry, &options->regions[i], err));
    *registry_out = GIVE(registry);
    return SUCCESS;
}

void registry_forget_old_keys(struct registry *registry)
{
    (void)key_cache_expire(registry->keys);
}

void registry_forget_keys(struct registry *registry)
{
    key_cache_clear(registry->keys);
}

struct result registry_write_notes(struct registry *registry, struct pg *pg, struct error *err)
{
    return manifest_uses_write(registry->uses, pg, err);
}

bool registry_notes_are_many(struct registry *registry)
{
    return manifest_uses_are_many(registry->uses);
}

void registry_free(struct registry *registry)
{
    if (registry == NULL) return;
    upload_table_free(registry->uploads); /* its writers use the regions */
    for (size_t i = 0; i < registry->region_count; i++) blob_store_free(registry->regions[i].blobs);
    repository_cache_free(registry->repositories);
    manifest_cache_free(registry->manifests);
    manifest_uses_free(registry->uses);
    key_cache_free(registry->keys);
    (void)pthread_mutex_destroy(&registry->problem_lock);
    free(registry);
}

size_t registry_slot(const struct uuid *owner, const char *name, size_t slots)
{
    return (size_t)hash_bucket(hash_add(HASH_BEGIN ^ load_u64(owner->bytes), name), slots);
}

void registry_count_rescued(void)
{
    metric_add(&registry_metrics_rows[METRIC_RESCUED], 1);
}

bool registry_is_elsewhere(const struct registry *registry, const char *region, char host_out[REGISTRY_HOST_SIZE])
{
    const struct peer *peer = peers_find(&registry->elsewhere, region);

    if (peer == NULL) return false;
    peer_host(peer, host_out);
    return true;
}

static struct result not_served(const struct registry *registry, const char *region, struct error *err)
{
    char host[REGISTRY_HOST_SIZE];

    if (registry_is_elsewhere(registry, region, host))
        return failure(err, ERROR_UNAVAILABLE, "region %.63s is served by another gateway%s%.150s", region,
                       host[0] == '\0' ? "" : ", ", host);
    return failure(err, ERROR_UNAVAILABLE, "region %.63s is not served by this gateway: add it to its configuration", region);
}

struct result registry_blobs(const struct registry *registry, const char *region, struct blob_store **blobs_out,
                             struct error *err)
{
    for (size_t i = 0; i < registry->region_count; i++) {
        if (strcmp(registry->regions[i].id, region) != 0) continue;
        if (blob_store_is_closed(registry->regions[i].blobs))
            return failure(err, ERROR_UNAVAILABLE, "region %.63s is quarantined or retired: nothing is read or written there",
                           region);
        *blobs_out = registry->regions[i].blobs;
        return SUCCESS;
    }
    return not_served(registry, region, err);
}

struct key_scope registry_key_scope(const struct resource *where)
{
    struct key_scope scope = {.organisation = where->organisation, .project = where->project};

    (void)snprintf(scope.region, sizeof scope.region, "%s", where->region);
    return scope;
}

bool registry_key_cached(struct registry *registry, const struct resource *where, const struct key_record *record,
                         struct secret **key_out)
{
    const struct key_scope scope = registry_key_scope(where);
    uint8_t name[KEY_CACHE_NAME_SIZE];
    struct error ignored = {0};

    OWNED(secret) *key = NULL;
    if (!secret_new(DATA_KEY_SIZE, &key, &ignored).ok) return false;
    key_cache_name(&scope, record, name);
    if (!key_cache_get(registry->keys, name, key->bytes)) return false;
    *key_out = GIVE(key);
    return true;
}

struct result registry_unwrap(struct registry *registry, const struct resource *where, const struct key_record *record,
                              struct secret **key_out, struct error *err)
{
    const struct key_scope scope = registry_key_scope(where);
    const struct key_binding binding = key_binding_of(&scope, &record->id, record->commitment);

    if (registry_key_cached(registry, where, record, key_out)) return SUCCESS;
    TRY(keyd_unwrap(registry->keyd, &binding, &record->wrapped, key_out, err));
    registry_remember_key(registry, where, record, *key_out);
    return SUCCESS;
}

void registry_remember_key(struct registry *registry, const struct resource *where, const struct key_record *record,
                           const struct secret *key)
{
    const struct key_scope scope = registry_key_scope(where);
    uint8_t name[KEY_CACHE_NAME_SIZE];

    key_cache_name(&scope, record, name);
    key_cache_put(registry->keys, name, &record->id, key->bytes);
}

struct result key_record_read(const struct pg_rows *rows, size_t row, size_t first_column, struct key_record *record,
                              struct error *err)
{
    const struct bytes wrapped = pg_bytes(rows, row, first_column + 1);
    const struct bytes commitment = pg_bytes(rows, row, first_column + 2);

    if (wrapped.length == 0 || wrapped.length > WRAPPED_KEY_MAX || commitment.length != sizeof record->commitment)
        return failure(err, ERROR_CORRUPT, "a row holds a wrapped key of %zu and a commitment of %zu bytes", wrapped.length,
                       commitment.length);
    record->wrapped.version = (uint32_t)pg_int8(rows, row, first_column);
    record->wrapped.length = wrapped.length;
    memcpy(record->wrapped.bytes, wrapped.data, wrapped.length);
    memcpy(record->commitment, commitment.data, commitment.length);
    return SUCCESS;
}

void key_record_add(struct pg_arguments *arguments, const struct key_record *record)
{
    pg_add_int4(arguments, (int32_t)record->wrapped.version);
    pg_add_bytes(arguments, (struct bytes){record->wrapped.bytes, record->wrapped.length});
    pg_add_bytes(arguments, (struct bytes){record->commitment, sizeof record->commitment});
}

/* ---- What was found of the sijil-keyd of regions (registry/region_keys.c) ---- */

bool registry_region_keys(struct registry *registry, const char *region, struct region_keys *keys_out)
{
    bool found = false;

    (void)pthread_mutex_lock(&registry->problem_lock);
    for (size_t i = 0; i < registry->key_count && !found; i++) {
        found = strcmp(registry->key_places[i].id, region) == 0;
        if (found) *keys_out = registry->key_places[i];
    }
    (void)pthread_mutex_unlock(&registry->problem_lock);
    return found;
}

bool registry_region_keys_at(struct registry *registry, size_t index, struct region_keys *keys_out)
{
    (void)pthread_mutex_lock(&registry->problem_lock);
    const bool is_there = index < registry->key_count;
    if (is_there) *keys_out = registry->key_places[index];
    (void)pthread_mutex_unlock(&registry->problem_lock);
    return is_there;
}
