#include <assert.h>
#include <string.h>

#include "base/memory.h"
#include "storage/driver_memory_priv.h"

struct memory_extent {
    struct memory_driver *memory;
    struct object *object;
    struct driver_history history;
    struct driver_piece *pieces; /* owned; history.pieces points to it */
};

struct memory_part {
    struct memory_driver *memory;
    struct object *object;
};

static struct memory_driver *memory_of(struct driver *driver)
{
    return (struct memory_driver *)driver;
}

static struct memory_extent *extent_of(struct driver_extent *extent)
{
    return (struct memory_extent *)extent;
}

static void release_lock(pthread_mutex_t **lock)
{
    (void)pthread_mutex_unlock(*lock);
}
#define LOCKED(memory)                                                                 \
    __attribute__((cleanup(release_lock))) pthread_mutex_t *locked_ = &(memory)->lock; \
    (void)pthread_mutex_lock(locked_)

/* ---- Writing ---- */

static struct result keep_history(struct memory_extent *extent, const struct driver_history *history, struct error *err)
{
    extent->history = *history;
    extent->history.pieces = NULL;
    if (history->count == 0) return SUCCESS;
    extent->pieces = memory_zeroed(history->count, sizeof *extent->pieces);
    if (extent->pieces == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an extent");
    memcpy(extent->pieces, history->pieces, history->count * sizeof *extent->pieces);
    extent->history.pieces = extent->pieces;
    return SUCCESS;
}

static struct result fill_extent(struct memory_driver *memory, const struct uuid *blob, struct memory_extent *extent,
                                 struct error *err)
{
    const struct driver_history *history = &extent->history;
    assert(history->count == 0 || history->pieces != NULL);
    uint32_t part = history->count == 0 ? 0 : history->pieces[history->count - 1].part + 1;

    while (memory_find(memory, blob, OBJECT_EXTENT, part, "") != NULL) part++;
    TRY(memory_create(memory, blob, OBJECT_EXTENT, &extent->object, err));
    extent->object->entry.part = part;
    extent->object->references++;
    return SUCCESS;
}

static struct result memory_extent_create(struct driver *driver, const struct uuid *blob, const struct driver_history *history,
                                          struct driver_extent **extent_out, struct error *err)
{
    struct memory_driver *memory = memory_of(driver);

    TRY(memory_reach(memory, err));
    LOCKED(memory);
    struct memory_extent *extent = memory_zeroed(1, sizeof *extent);
    if (extent == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an extent");
    extent->memory = memory;
    struct result result = keep_history(extent, history, err);
    if (result.ok) result = fill_extent(memory, blob, extent, err);
    if (result.ok) {
        *extent_out = (struct driver_extent *)extent;
    } else {
        free(extent->pieces);
        free(extent);
    }
    return result;
}

static uint32_t memory_extent_part(const struct driver_extent *extent)
{
    return ((const struct memory_extent *)extent)->object->entry.part;
}

static struct result memory_extent_append(struct driver_extent *handle, struct bytes bytes, struct error *err)
{
    struct memory_extent *extent = extent_of(handle);

    TRY(memory_reach(extent->memory, err));
    LOCKED(extent->memory);
    return memory_append(extent->memory, extent->object, bytes, err);
}

static struct result memory_extent_sync(struct driver_extent *handle, struct error *err)
{
    struct memory_extent *extent = extent_of(handle);

    TRY(memory_reach(extent->memory, err));
    LOCKED(extent->memory);
    extent->object->synced = extent->object->content.length;
    extent->object->was_synced = true;
    return SUCCESS;
}

/* Appends piece `index` to the whole. The piece ends where the next one begins. */
static struct result append_piece(struct memory_extent *extent, struct object *whole, size_t index, struct error *err)
{
    const struct driver_history *history = &extent->history;
    const struct driver_piece *piece = &history->pieces[index];
    const uint64_t end = index + 1 < history->count ? piece[1].offset : history->offset;
    const struct object *object = memory_find(extent->memory, &whole->entry.blob, OBJECT_EXTENT, piece->part, "");

    if (object == NULL || object->content.length < end - piece->offset)
        return failure(err, ERROR_CORRUPT, "extent %u is gone or cut", piece->part);
    return memory_append(extent->memory, whole, (struct bytes){object->content.data, (size_t)(end - piece->offset)}, err);
}

static struct result put_together(struct memory_extent *extent, struct error *err)
{
    const struct uuid *blob = &extent->object->entry.blob;
    struct object *whole = NULL;

    if (memory_find(extent->memory, blob, OBJECT_WHOLE, 0, "") != NULL)
        return failure(err, ERROR_CONFLICT, "another writer has finished this blob");
    TRY(memory_create(extent->memory, blob, OBJECT_WHOLE, &whole, err));
    struct result result = SUCCESS;
    for (size_t i = 0; result.ok && i < extent->history.count; i++) result = append_piece(extent, whole, i, err);
    if (result.ok) result = memory_append(extent->memory, whole, buffer_bytes(&extent->object->content), err);
    whole->was_synced = true;
    whole->synced = whole->content.length;
    if (!result.ok) memory_unlink(extent->memory, whole);
    return result;
}

static struct result memory_extent_finish(struct driver_extent *handle, struct error *err)
{
    struct memory_extent *extent = extent_of(handle);

    TRY(memory_extent_sync(handle, err));
    LOCKED(extent->memory);
    return extent->memory->driver.operations->is_flat ? put_together(extent, err) : SUCCESS;
}

static void memory_extent_close(struct driver_extent *handle)
{
    struct memory_extent *extent = extent_of(handle);

    if (extent == NULL) return;
    LOCKED(extent->memory);
    memory_unreference(extent->memory, extent->object);
    free(extent->pieces);
    free(extent);
}

static void memory_extent_discard(struct driver_extent *handle)
{
    struct memory_extent *extent = extent_of(handle);

    if (extent == NULL) return;
    (void)pthread_mutex_lock(&extent->memory->lock);
    memory_unlink(extent->memory, extent->object);
    (void)pthread_mutex_unlock(&extent->memory->lock);
    memory_extent_close(handle);
}

/* ---- Reading ---- */

static struct result memory_part_open(struct driver *driver, const struct uuid *blob, uint32_t part,
                                      struct driver_part **part_out, struct error *err)
{
    struct memory_driver *memory = memory_of(driver);

    TRY(memory_reach(memory, err));
    LOCKED(memory);
    struct object *object = memory_find(memory, blob, driver->operations->is_flat ? OBJECT_WHOLE : OBJECT_EXTENT, part, "");
    if (object == NULL) return failure(err, ERROR_NOT_FOUND, "extent %u is not there", part);
    struct memory_part *opened = memory_zeroed(1, sizeof *opened);
    if (opened == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a part");
    *opened = (struct memory_part){.memory = memory, .object = object};
    object->references++;
    *part_out = (struct driver_part *)opened;
    return SUCCESS;
}

static uint64_t memory_part_size(const struct driver_part *handle)
{
    const struct memory_part *part = (const struct memory_part *)handle;

    LOCKED(part->memory);
    return part->object->content.length;
}

static bool copy_part(const struct memory_part *part, uint64_t offset, uint8_t *into, size_t length)
{
    const struct buffer *content = &part->object->content;

    LOCKED(part->memory);
    if (offset > content->length || length > content->length - offset) return false;
    if (length > 0) memcpy(into, content->data + offset, length);
    return true;
}

static struct result memory_part_read(struct driver_part *handle, uint64_t offset, uint8_t *into, size_t length,
                                      struct error *err)
{
    const struct memory_part *part = (const struct memory_part *)handle;

    TRY(memory_reach(part->memory, err));
    if (!copy_part(part, offset, into, length)) return failure(err, ERROR_CORRUPT, "an object ends too early");
    return SUCCESS;
}

static bool memory_part_read_cached(struct driver_part *handle, uint64_t offset, uint8_t *into, size_t length)
{
    const struct memory_part *part = (const struct memory_part *)handle;

    return part->memory->delay_ms == 0 && copy_part(part, offset, into, length);
}

static void memory_part_hint(struct driver_part *part, uint64_t offset, uint64_t length)
{
    (void)part, (void)offset, (void)length; /* memory needs no read-ahead, and has no cache to drop */
}

static void memory_part_close(struct driver_part *handle)
{
    struct memory_part *part = (struct memory_part *)handle;

    if (part == NULL) return;
    LOCKED(part->memory);
    memory_unreference(part->memory, part->object);
    free(part);
}

/* ---- Small objects ---- */

static struct result memory_small_put(struct driver *driver, const struct uuid *blob, const char *name, struct bytes content,
                                      struct error *err)
{
    struct memory_driver *memory = memory_of(driver);
    struct object *object = NULL;

    TRY(memory_reach(memory, err));
    LOCKED(memory);
    if (memory_find(memory, blob, OBJECT_SMALL, 0, name) != NULL)
        return failure(err, ERROR_CONFLICT, "the name %s is taken", name);
    TRY(memory_create(memory, blob, OBJECT_SMALL, &object, err));
    memcpy(object->entry.name, name, strnlen(name, DRIVER_NAME_MAX));
    const struct result result = memory_append(memory, object, content, err);
    object->was_synced = true;
    object->synced = object->content.length;
    if (!result.ok) memory_unlink(memory, object);
    return result;
}

static struct result memory_small_get(struct driver *driver, const struct uuid *blob, const char *name, struct buffer *content,
                                      struct error *err)
{
    struct memory_driver *memory = memory_of(driver);

    TRY(memory_reach(memory, err));
    LOCKED(memory);
    const struct object *object = memory_find(memory, blob, OBJECT_SMALL, 0, name);
    if (object == NULL) return failure(err, ERROR_NOT_FOUND, "%s is not there", name);
    return buffer_add(content, object->content.data, object->content.length, err);
}

static struct result memory_small_remove(struct driver *driver, const struct uuid *blob, const char *name, struct error *err)
{
    struct memory_driver *memory = memory_of(driver);

    TRY(memory_reach(memory, err));
    LOCKED(memory);
    struct object *object = memory_find(memory, blob, OBJECT_SMALL, 0, name);
    if (object != NULL) memory_unlink(memory, object);
    return SUCCESS;
}

/* ---- Listing and removing ---- */

static bool is_kept(const struct object *object, const uint32_t *kept, size_t count)
{
    if (object->kind == OBJECT_WHOLE) return count > 0;
    for (size_t i = 0; object->kind == OBJECT_EXTENT && i < count; i++)
        if (kept[i] == object->entry.part) return true;
    return false;
}

static struct result memory_remove(struct driver *driver, const struct uuid *blob, const uint32_t *kept_parts, size_t kept_count,
                                   struct error *err)
{
    struct memory_driver *memory = memory_of(driver);
    struct object *next = NULL;

    TRY(memory_reach(memory, err));
    LOCKED(memory);
    for (struct object *object = *memory_bucket(memory, blob); object != NULL; object = next) {
        next = object->next;
        if (uuid_equal(&object->entry.blob, blob) && !is_kept(object, kept_parts, kept_count)) memory_unlink(memory, object);
    }
    return SUCCESS;
}

/* A listing shows each object in its state at the moment of the visit. `visit` runs without the lock, so it may
 * remove objects. */
static struct result copy_bucket(struct memory_driver *memory, size_t bucket, struct buffer *entries, struct error *err)
{
    LOCKED(memory);
    for (const struct object *object = memory->buckets[bucket]; object != NULL; object = object->next) {
        struct driver_entry entry = object->entry;
        entry.size_bytes = object->content.length;
        TRY(buffer_add(entries, &entry, sizeof entry, err));
    }
    return SUCCESS;
}

static struct result list_bucket(struct memory_driver *memory, size_t bucket, driver_visit *visit, void *context,
                                 struct error *err)
{
    struct buffer OWNED_BUFFER entries = BUFFER(SIZE_MAX / 2);
    struct driver_entry entry;

    TRY(copy_bucket(memory, bucket, &entries, err));
    for (size_t at = 0; at < entries.length; at += sizeof entry) {
        memcpy(&entry, entries.data + at, sizeof entry);
        TRY(visit(context, &entry, err));
    }
    return SUCCESS;
}

static struct result memory_list(struct driver *driver, driver_visit *visit, void *context, struct error *err)
{
    TRY(memory_reach(memory_of(driver), err));
    for (size_t bucket = 0; bucket < BUCKETS; bucket++) TRY(list_bucket(memory_of(driver), bucket, visit, context, err));
    return SUCCESS;
}

/* ---- The driver itself ---- */

void driver_memory_lose_unsynced(struct driver *driver)
{
    struct memory_driver *memory = memory_of(driver);

    LOCKED(memory);
    for (size_t bucket = 0; bucket < BUCKETS; bucket++) {
        struct object *next = NULL;
        for (struct object *object = memory->buckets[bucket]; object != NULL; object = next) {
            next = object->next;
            memory->used -= object->content.length - object->synced;
            object->content.length = object->synced;
            if (!object->was_synced) memory_unlink(memory, object);
        }
    }
}

void driver_memory_set_capacity(struct driver *driver, uint64_t capacity_bytes)
{
    struct memory_driver *memory = memory_of(driver);

    LOCKED(memory);
    memory->capacity = capacity_bytes;
}

static void memory_close(struct driver *driver)
{
    struct memory_driver *memory = memory_of(driver);

    for (size_t bucket = 0; bucket < BUCKETS; bucket++)
        while (memory->buckets[bucket] != NULL) memory_unlink(memory, memory->buckets[bucket]);
    (void)pthread_mutex_destroy(&memory->lock);
    free(memory);
}

static const struct driver_operations memory_operations = {
    .kind = "memory",
    .extent_create = memory_extent_create,
    .extent_part = memory_extent_part,
    .extent_append = memory_extent_append,
    .extent_sync = memory_extent_sync,
    .extent_finish = memory_extent_finish,
    .extent_discard = memory_extent_discard,
    .extent_close = memory_extent_close,
    .part_open = memory_part_open,
    .part_size = memory_part_size,
    .part_read = memory_part_read,
    .part_read_cached = memory_part_read_cached,
    .part_ahead = memory_part_hint,
    .part_forget = memory_part_hint,
    .part_close = memory_part_close,
    .small_put = memory_small_put,
    .small_get = memory_small_get,
    .small_remove = memory_small_remove,
    .remove = memory_remove,
    .list = memory_list,
    .close = memory_close,
};

NO_LEAK_BEGIN /* the caller owns the struct through a member; memory_close() frees it */
    struct result
    driver_memory_open(const struct driver_memory_options *options, struct driver **driver_out, struct error *err)
{
    struct memory_driver *memory = memory_zeroed(1, sizeof *memory);

    if (memory == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a driver");
    memory->operations = memory_operations;
    memory->driver.operations = &memory->operations;
    if (options != NULL) {
        memory->operations.is_flat = options->is_flat;
        memory->capacity = options->capacity_bytes;
        memory->delay_ms = options->delay_ms;
    }
    (void)pthread_mutex_init(&memory->lock, NULL);
    *driver_out = &memory->driver;
    return SUCCESS;
}
NO_LEAK_END
