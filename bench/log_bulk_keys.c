#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "bench/log_bulk.h"

#define SLOTS ((size_t)1 << 20)

static struct bulk_key *find(struct bulk_keys *keys, const uint8_t id[LEAF_KEY_ID_SIZE])
{
    size_t slot = load_u64(id) % SLOTS;

    while (keys->slots[slot].is_used && memcmp(keys->slots[slot].id, id, LEAF_KEY_ID_SIZE) != 0) slot = (slot + 1) % SLOTS;
    struct bulk_key *key = &keys->slots[slot];
    if (key->is_used) return key;
    assert(++keys->count < SLOTS / 2);
    key->is_used = true;
    memcpy(key->id, id, LEAF_KEY_ID_SIZE);
    return key;
}

void bulk_keys_init(struct bulk_keys *keys, struct log_copy *log)
{
    PGresult *heads = log_copy_ask(log, "SELECT key, max(n) FROM audit_run GROUP BY key");

    keys->slots = memory_zeroed(SLOTS, sizeof *keys->slots);
    if (keys->slots == NULL) abort();
    for (int i = 0; i < PQntuples(heads); i++)
        find(keys, (const uint8_t *)PQgetvalue(heads, i, 0))->ordinal =
            (int64_t)load_u64((const uint8_t *)PQgetvalue(heads, i, 1));
    PQclear(heads);
}

void bulk_keys_number(struct bulk_keys *keys, struct leaf *leaf)
{
    uint8_t id[LEAF_KEY_ID_SIZE];

    for (size_t i = 0; i < leaf->key_count; i++) {
        leaf_key_id(leaf->keys[i].name, id);
        struct bulk_key *key = find(keys, id);
        leaf->keys[i].ordinal = (uint64_t)++key->ordinal;
        if (key->uses++ == 0) keys->touched[keys->touched_count++] = key;
        keys->used[keys->sequence_count] = key;
        keys->used_by[keys->sequence_count++] = (int64_t)leaf->sequence;
    }
}

void bulk_keys_write(struct bulk_keys *keys, struct log_copy *runs)
{
    size_t at = 0;

    for (size_t i = 0; i < keys->touched_count; i++) {
        keys->touched[i]->next = at;
        at += keys->touched[i]->uses;
    }
    for (size_t i = 0; i < keys->sequence_count; i++) keys->sequences[keys->used[i]->next++] = keys->used_by[i];
    for (size_t i = 0; i < keys->touched_count; i++) {
        struct bulk_key *key = keys->touched[i];
        log_copy_row(runs, 4);
        log_copy_bytes(runs, key->id, sizeof key->id);
        log_copy_int8(runs, keys->sequences[key->next - 1]);
        log_copy_int8(runs, key->ordinal);
        log_copy_int8_array(runs, &keys->sequences[key->next - key->uses], key->uses);
        key->uses = 0;
    }
    keys->touched_count = keys->sequence_count = 0;
}
