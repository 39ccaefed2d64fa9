#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/memory.h"
#include "storage/driver_memory_priv.h"

struct result memory_reach(const struct memory_driver *memory, struct error *err)
{
    const struct timespec delay = {memory->delay_ms / 1000, (long)(memory->delay_ms % 1000) * 1000000};

    if (memory->delay_ms > 0) (void)nanosleep(&delay, NULL);
    if (fault_is_due(FAULT_FILE)) return failure(err, ERROR_UNAVAILABLE, "the memory driver fails on demand");
    return SUCCESS;
}

struct object **memory_bucket(struct memory_driver *memory, const struct uuid *blob)
{
    return &memory->buckets[blob->bytes[0]];
}

struct object *memory_find(struct memory_driver *memory, const struct uuid *blob, enum object_kind kind, uint32_t part,
                           const char *name)
{
    for (struct object *object = *memory_bucket(memory, blob); object != NULL; object = object->next)
        if (uuid_equal(&object->entry.blob, blob) && object->kind == kind &&
            (kind != OBJECT_EXTENT || object->entry.part == part) && strcmp(object->entry.name, name) == 0)
            return object;
    return NULL;
}

void memory_unreference(struct memory_driver *memory, struct object *object)
{
    if (--object->references > 0) return;
    memory->used -= object->content.length;
    buffer_done(&object->content);
    free(object);
}

void memory_unlink(struct memory_driver *memory, struct object *unwanted)
{
    for (struct object **link = memory_bucket(memory, &unwanted->entry.blob); *link != NULL; link = &(*link)->next) {
        if (*link != unwanted) continue;
        *link = unwanted->next;
        memory_unreference(memory, unwanted);
        return;
    }
}

struct result memory_create(struct memory_driver *memory, const struct uuid *blob, enum object_kind kind,
                            struct object **object_out, struct error *err)
{
    struct object *object = memory_zeroed(1, sizeof *object);

    if (object == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for an object");
    object->kind = kind;
    object->entry.blob = *blob;
    object->entry.is_extent = kind != OBJECT_SMALL;
    object->entry.modified_ms = clock_wall_ms();
    object->content = BUFFER(SIZE_MAX / 2);
    object->references = 1;
    object->next = *memory_bucket(memory, blob);
    *memory_bucket(memory, blob) = object;
    *object_out = object;
    return SUCCESS;
}

struct result memory_append(struct memory_driver *memory, struct object *object, struct bytes bytes, struct error *err)
{
    if (memory->capacity > 0 && memory->used + bytes.length > memory->capacity)
        return failure(err, ERROR_FULL, "no room: %llu of %llu bytes are used", (unsigned long long)memory->used,
                       (unsigned long long)memory->capacity);
    TRY(buffer_add(&object->content, bytes.data, bytes.length, err));
    memory->used += bytes.length;
    object->entry.modified_ms = clock_wall_ms();
    return SUCCESS;
}
