#include <pthread.h>
#include <string.h>

#include "base/memory.h"
#include "registry/registry_priv.h"
#include "registry/repository_store.h"

#define SLOTS 8192 /* cached names; 2.5 MB */

/* An entry is valid for one version of the names; deleting a repository changes the version (gateway/pipeline/resolve.c). */
struct repository_cache {
    pthread_mutex_t lock;
    struct slot {
        struct uuid project, repository;
        uint64_t version;
        char path[RESOURCE_NAME_MAX + 1];
    } slots[SLOTS];
};

struct result repository_cache_new(struct repository_cache **cache_out, struct error *err)
{
    struct repository_cache *cache = memory_zeroed(1, sizeof *cache);

    if (cache == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for names of repositories");
    (void)pthread_mutex_init(&cache->lock, NULL);
    *cache_out = cache;
    return SUCCESS;
}

void repository_cache_free(struct repository_cache *cache)
{
    if (cache == NULL) return;
    (void)pthread_mutex_destroy(&cache->lock);
    free(cache);
}

static bool cache_get(struct repository_cache *cache, uint64_t version, struct resource *resource, const char *path)
{
    const struct slot *slot = &cache->slots[registry_slot(&resource->project, path, SLOTS)];

    (void)pthread_mutex_lock(&cache->lock);
    const bool found =
        slot->version == version && uuid_equal(&slot->project, &resource->project) && strcmp(slot->path, path) == 0;
    if (found) resource->repository = slot->repository;
    (void)pthread_mutex_unlock(&cache->lock);
    return found;
}

static void cache_put(struct repository_cache *cache, uint64_t version, const struct resource *resource, const char *path)
{
    struct slot *slot = &cache->slots[registry_slot(&resource->project, path, SLOTS)];

    (void)pthread_mutex_lock(&cache->lock);
    slot->project = resource->project;
    slot->repository = resource->repository;
    slot->version = version;
    memcpy(slot->path, path, strlen(path) + 1);
    (void)pthread_mutex_unlock(&cache->lock);
}

bool registry_resolve_cached(struct registry *registry, uint64_t version, struct resource *resource)
{
    const char *path = repository_path(resource->name);

    if (uuid_is_nil(&resource->project) || path[0] == '\0') return true;
    return cache_get(registry->repositories, version, resource, path);
}

struct result registry_resolve(struct registry *registry, struct lookup *lookup, uint64_t version, struct resource *resource,
                               struct error *err)
{
    const char *path = repository_path(resource->name);

    if (registry_resolve_cached(registry, version, resource)) return SUCCESS;
    TRY(repository_find(lookup, &resource->project, path, &resource->repository, err));
    if (!uuid_is_nil(&resource->repository)) cache_put(registry->repositories, version, resource, path);
    return SUCCESS;
}
