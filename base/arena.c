#include "base/arena.h"

#include <assert.h>
#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "base/memory.h"

#define CHUNK_SIZE ((size_t)4096) /* bytes; most requests need less than one chunk */

struct chunk {
    struct chunk *next;
    size_t used, size;
    alignas(max_align_t) uint8_t bytes[];
};

struct arena {
    struct chunk *chunks;
    size_t taken, maximum;
};

struct result arena_new(size_t maximum, struct arena **arena_out, struct error *err)
{
    struct arena *arena = memory_zeroed(1, sizeof *arena);

    if (arena == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a request");
    arena->maximum = maximum;
    *arena_out = arena;
    return SUCCESS;
}

static struct chunk *chunk_add(struct arena *arena, size_t size)
{
    const size_t room = size > CHUNK_SIZE ? size : CHUNK_SIZE;
    struct chunk *chunk = memory_resize(NULL, sizeof *chunk + room); /* most of it is never used, so it is not zeroed */

    if (chunk == NULL) return NULL;
    *chunk = (struct chunk){.next = arena->chunks, .size = room};
    arena->chunks = chunk;
    return chunk;
}

static void *room_for(struct arena *arena, size_t size)
{
    const size_t alignment = alignof(max_align_t);

    if (size > arena->maximum || fault_is_due(FAULT_MEMORY)) return NULL;
    size = (size + alignment - 1) / alignment * alignment;
    if (size > arena->maximum - arena->taken) return NULL;

    struct chunk *chunk = arena->chunks;
    if (chunk == NULL || size > chunk->size - chunk->used) chunk = chunk_add(arena, size);
    if (chunk == NULL) return NULL;
    void *memory = chunk->bytes + chunk->used;
    chunk->used += size;
    arena->taken += size;
    return memory;
}

void *arena_take(struct arena *arena, size_t size)
{
    void *memory = room_for(arena, size);

    if (memory != NULL) memset(memory, 0, size);
    return memory;
}

char *arena_copy_text(struct arena *arena, struct bytes text)
{
    char *copy = room_for(arena, text.length + 1);

    if (copy == NULL) return NULL;
    if (text.length > 0) memcpy(copy, text.data, text.length);
    copy[text.length] = '\0';
    return copy;
}

char *arena_format(struct arena *arena, const char *format, ...)
{
    va_list args, again;

    va_start(args, format);
    va_copy(again, args);
    const int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    assert(length >= 0);
    char *text = room_for(arena, (size_t)length + 1);
    if (text != NULL) (void)vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

void arena_free(struct arena *arena)
{
    if (arena == NULL) return;
    for (struct chunk *chunk = arena->chunks, *next; chunk != NULL; chunk = next) {
        next = chunk->next;
        explicit_bzero(chunk->bytes, chunk->used); /* it may hold credentials and new tokens */
        free(chunk);
    }
    free(arena);
}
