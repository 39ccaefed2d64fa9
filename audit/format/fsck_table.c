#include "audit/format/fsck_table_priv.h"

#include <string.h>

#include "audit/format/leaf.h"
#include "base/memory.h"

#define FIRST_ROOM 1024 /* slots */

struct result fsck_table_init(struct fsck_table *table, uint64_t memory, struct error *err)
{
    *table = (struct fsck_table){.memory = memory, .room = FIRST_ROOM, .slots = memory_zeroed(FIRST_ROOM, sizeof *table->slots)};
    return table->slots != NULL ? SUCCESS : failure(err, ERROR_NO_MEMORY, "no memory for tags and bindings");
}

/* Each part has its length before it, so "a", "bc" and "ab", "c" differ. */
uint64_t fsck_table_hash(const uint8_t secret[TABLE_KEY_SIZE], char kind, const struct bytes parts[FSCK_NAME_PARTS])
{
    uint8_t text[1 + FSCK_NAME_PARTS * (2 + LEAF_RESOURCE_MAX)];
    size_t length = 0;

    text[length++] = (uint8_t)kind;
    for (size_t i = 0; i < FSCK_NAME_PARTS; i++) {
        const size_t taken = parts[i].length < LEAF_RESOURCE_MAX ? parts[i].length : LEAF_RESOURCE_MAX;
        store_u16(text + length, (uint16_t)taken);
        length += 2;
        if (taken > 0) memcpy(text + length, parts[i].data, taken);
        length += taken;
    }
    const uint64_t hash = table_hash(secret, (struct bytes){text, length});
    return hash == 0 ? 1 : hash;
}

static struct fsck_slot *look_up(struct fsck_slot *slots, size_t room, uint64_t key)
{
    size_t at = (size_t)key & (room - 1);

    while (slots[at].key != 0 && slots[at].key != key) at = (at + 1) & (room - 1);
    return &slots[at];
}

struct fsck_slot *fsck_table_find(const struct fsck_table *table, uint64_t key)
{
    struct fsck_slot *slot = look_up(table->slots, table->room, key);

    return slot->key == 0 ? NULL : slot;
}

static struct result grow(struct fsck_table *table, struct error *err)
{
    const size_t room = 2 * table->room;

    if (4 * (table->count + 1) < 3 * table->room) return SUCCESS;
    if (room * sizeof *table->slots > table->memory)
        return failure(err, ERROR_LIMIT,
                       "the log is about more than %zu tags, bindings and deletions: more memory is needed for them (--memory)",
                       table->count);
    struct fsck_slot *slots = memory_zeroed(room, sizeof *slots);
    if (slots == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for tags and bindings");
    for (size_t i = 0; i < table->room; i++)
        if (table->slots[i].key != 0) *look_up(slots, room, table->slots[i].key) = table->slots[i];
    free(table->slots);
    table->slots = slots;
    table->room = room;
    return SUCCESS;
}

struct result fsck_table_get(struct fsck_table *table, uint64_t key, struct fsck_slot **slot_out, struct error *err)
{
    TRY(grow(table, err));
    struct fsck_slot *slot = look_up(table->slots, table->room, key);
    table->count += slot->key == 0;
    slot->key = key;
    *slot_out = slot;
    return SUCCESS;
}

uint64_t fsck_rows_hash(const struct fsck_rows *rows, char kind, struct bytes name)
{
    const struct bytes parts[FSCK_NAME_PARTS] = {name};

    return fsck_table_hash(rows->secret, kind, parts);
}
