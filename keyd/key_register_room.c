#include "keyd/key_register_room.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define FREE_FOR_EACH ((uint32_t)(KEY_REGISTER_MAX / 2) / KEY_REGISTER_FEW) /* 32 */

static uint32_t free_for(uint32_t place)
{
    return place <= KEY_REGISTER_FEW ? place * FREE_FOR_EACH : KEY_REGISTER_MAX / 2 + (place - KEY_REGISTER_FEW);
}

bool key_register_has_room(const struct key_register_state *state, uint64_t organisation)
{
    const uint32_t left = KEY_REGISTER_MAX - state->count;
    uint32_t taken = 0;

    if (organisation == 0) return left > 0;
    for (uint32_t i = 0; i < state->count; i++) taken += state->entries[i].organisation == organisation;
    return free_for(taken + 1) <= left;
}

/* ---- what has ended ---- */

struct named {
    const struct key_register_entry *entry; /* entries are in the order in which they were noted */
};

static int compare(const void *one, const void *other)
{
    const struct named *first = one, *second = other;
    const int order = strcmp(first->entry->name, second->entry->name);

    if (order != 0) return order;
    return first->entry < second->entry ? -1 : first->entry > second->entry;
}

static bool has_ended(const struct key_register_entry *entry, int64_t now_ms)
{
    const int64_t kept_ms = (entry->end_hours + KEY_REGISTER_KEPT_DAYS * INT64_C(24)) * KEY_REGISTER_HOUR_MS;

    return (!entry->is_withdrawn || entry->version != 0) && entry->end_hours != 0 && kept_ms < now_ms;
}

/* Of each name those before the first one that has not ended. */
static void mark_ended(const struct key_register_state *state, const struct named *sorted, int64_t now_ms, bool *goes)
{
    for (uint32_t i = 0; i < state->count; i++) {
        const bool is_first = i == 0 || strcmp(sorted[i - 1].entry->name, sorted[i].entry->name) != 0;
        const bool may = is_first || goes[sorted[i - 1].entry - state->entries];
        goes[sorted[i].entry - state->entries] = may && has_ended(sorted[i].entry, now_ms);
    }
}

static void remove_marked(struct key_register_state *state, const bool *goes)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < state->count; i++) {
        if (goes[i]) continue;
        if (kept != i) state->entries[kept] = state->entries[i];
        kept++;
    }
    memset(&state->entries[kept], 0, (state->count - kept) * sizeof state->entries[0]);
    state->count = kept;
}

struct result key_register_forget_ended(struct key_register_state *state, int64_t now_ms, struct error *err)
{
    struct named *sorted = memory_zeroed(KEY_REGISTER_MAX, sizeof *sorted);
    bool *goes = memory_zeroed(KEY_REGISTER_MAX, sizeof *goes);
    const bool has_memory = sorted != NULL && goes != NULL;

    if (has_memory) {
        for (uint32_t i = 0; i < state->count; i++) sorted[i].entry = &state->entries[i];
        qsort(sorted, state->count, sizeof *sorted, compare);
        mark_ended(state, sorted, now_ms, goes);
        remove_marked(state, goes);
    }
    free(sorted);
    free(goes);
    return has_memory ? SUCCESS : failure(err, ERROR_NO_MEMORY, "no memory to make room in the register of keys");
}

/* ---- what is lost ---- */

void key_register_forget_lost(struct key_register_state *state, uint64_t size)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < state->count; i++) {
        struct key_register_entry entry = state->entries[i];
        const bool is_lost = entry.sequence >= size;
        if (is_lost && !entry.is_withdrawn && !entry.is_replaced) continue;
        if (is_lost && !entry.is_withdrawn && entry.sequence != KEY_REGISTER_NO_EVENT) entry.version--; /* once for each loss */
        if (is_lost) entry.sequence = KEY_REGISTER_NO_EVENT; /* another event has its number now */
        state->entries[kept++] = entry;
    }
    memset(&state->entries[kept], 0, (state->count - kept) * sizeof state->entries[0]);
    state->count = kept;
}
