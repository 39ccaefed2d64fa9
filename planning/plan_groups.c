/* Equal events: an open table of a fixed size, keys in one block. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "crypto/random.h"
#include "planning/plan_priv.h"

#define GROUPS_MAX ((size_t)1 << 17)  /* 10,000 principals with a dozen names each */
#define SLOTS      (4 * GROUPS_MAX)   /* a power of two, mostly empty */
#define KEYS_MAX   ((size_t)48 << 20) /* some 300 bytes each */

struct plan_groups {
    size_t count, key_bytes;
    uint64_t seed;   /* who chooses names does not choose slots */
    uint32_t *slots; /* 0: free; else the number of a group, from 1 */
    uint8_t *keys;
    struct plan_group *each;
};

struct result plan_groups_new(struct plan_groups **groups_out, struct error *err)
{
    OWNED(plan_groups) *groups = memory_zeroed(1, sizeof *groups);

    if (groups == NULL) return planning_no_memory(err);
    random_bytes(&groups->seed, sizeof groups->seed);
    groups->slots = memory_zeroed(SLOTS, sizeof *groups->slots);
    groups->keys = memory_zeroed(KEYS_MAX, 1);
    groups->each = memory_zeroed(GROUPS_MAX, sizeof *groups->each);
    if (groups->slots == NULL || groups->keys == NULL || groups->each == NULL) return planning_no_memory(err);
    *groups_out = GIVE(groups);
    return SUCCESS;
}

void plan_groups_free(struct plan_groups *groups)
{
    if (groups == NULL) return;
    free(groups->slots);
    free(groups->keys);
    free(groups->each);
    free(groups);
}

void plan_groups_clear(struct plan_groups *groups)
{
    memset(groups->slots, 0, SLOTS * sizeof *groups->slots);
    groups->count = groups->key_bytes = 0;
}

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

static uint64_t hash_of(uint64_t seed, struct bytes key)
{
    uint64_t hash = mix(seed, key.length), word = 0;
    size_t at = 0;

    for (; at + sizeof word <= key.length; at += sizeof word) {
        memcpy(&word, key.data + at, sizeof word);
        hash = mix(hash, word);
    }
    word = 0;
    memcpy(&word, key.data + at, key.length - at);
    return mix(hash, word);
}

struct bytes plan_groups_key(const struct plan_groups *groups, const struct plan_group *group)
{
    return (struct bytes){groups->keys + group->key_at, group->key_length};
}

static struct plan_group *find(struct plan_groups *groups, struct bytes key, uint64_t hash, uint32_t **slot_out)
{
    for (size_t at = hash & (SLOTS - 1);; at = (at + 1) & (SLOTS - 1)) {
        *slot_out = &groups->slots[at];
        if (groups->slots[at] == 0) return NULL;
        struct plan_group *group = &groups->each[groups->slots[at] - 1];
        if (group->hash == hash && bytes_equal(plan_groups_key(groups, group), key)) return group;
    }
}

bool plan_groups_add(struct plan_groups *groups, struct bytes key, uint64_t sequence)
{
    const uint64_t hash = hash_of(groups->seed, key);
    uint32_t *slot = NULL;
    struct plan_group *group = find(groups, key, hash, &slot);

    if (group == NULL) {
        if (groups->count == GROUPS_MAX || KEYS_MAX - groups->key_bytes < key.length) return false;
        group = &groups->each[groups->count++];
        *group = (struct plan_group){.hash = hash, .key_at = (uint32_t)groups->key_bytes, .key_length = (uint32_t)key.length};
        memcpy(groups->keys + groups->key_bytes, key.data, key.length);
        groups->key_bytes += key.length;
        *slot = (uint32_t)groups->count;
    }
    if (group->count < PLAN_EXAMPLES) group->examples[group->count] = sequence;
    group->count++;
    return true;
}

static int compare(const void *a, const void *b, void *context)
{
    const struct bytes left = plan_groups_key(context, a), right = plan_groups_key(context, b);
    const int order = memcmp(left.data, right.data, left.length < right.length ? left.length : right.length);

    if (order != 0) return order;
    return left.length < right.length ? -1 : left.length > right.length;
}

const struct plan_group *plan_groups_sort(struct plan_groups *groups, size_t *count_out)
{
    qsort_r(groups->each, groups->count, sizeof *groups->each, compare, groups);
    *count_out = groups->count;
    return groups->each;
}
