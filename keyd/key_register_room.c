#include "keyd/key_register_room.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "crypto/digest.h"

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

uint64_t key_register_organisation(const struct document *document)
{
    const struct bytes name = {(const uint8_t *)document->scope, strcspn(document->scope, "/")};
    uint8_t digest[DOCUMENT_DIGEST_SIZE];
    uint64_t organisation = 0;

    if (name.length == 0) return 0;
    sha256_of(name, digest);
    for (size_t i = 0; i < 6; i++) organisation = organisation << 8 | digest[i];
    return organisation;
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

/* ---- whose a key is ---- */

static bool is_live(const struct key_register_entry *entry, int64_t now_ms)
{
    return entry->end_hours == 0 || entry->end_hours * KEY_REGISTER_HOUR_MS > now_ms;
}

struct result key_register_has_holder(const struct key_register_state *state, const struct key_register_holder *holder,
                                      struct error *err)
{
    bool is_held = false;

    for (uint32_t i = 0; i < state->count; i++) {
        const struct key_register_entry *entry = &state->entries[i];
        if (holder->thumbprint == NULL && memcmp(entry->owner, holder->owner, sizeof entry->owner) == 0) return SUCCESS;
        if (holder->thumbprint == NULL || strcmp(entry->name, holder->thumbprint) != 0) continue;
        if (entry->is_withdrawn) return failure(err, ERROR_DENIED, "the key %s was withdrawn", holder->thumbprint);
        is_held = is_held || (memcmp(entry->owner, holder->owner, sizeof entry->owner) == 0 && is_live(entry, holder->now_ms));
    }
    if (is_held) return SUCCESS;
    if (holder->thumbprint == NULL) return failure(err, ERROR_DENIED, "sijil-keyd has pinned no key of this person");
    return failure(err, ERROR_DENIED,
                   "sijil-keyd has pinned no document that gives the key %s to this person and has not expired",
                   holder->thumbprint);
}
