/* The heads of keys that a gateway has in memory: of all keys in use, and none after another gateway has appended. */
#include <stdio.h>
#include <string.h>

#include "audit/log_cache_priv.h"
#include "tests/support/unit.h"

#define KEYS 2000 /* in use all the time: with one place for each key, hundreds of them would push each other out */

struct keys {
    uint8_t ids[KEYS][LEAF_KEY_ID_SIZE];
    struct bytes views[KEYS];
    int64_t ordinals[KEYS];
    uint32_t missing[KEYS];
    struct audit_heads heads;
};

static void make_keys(struct keys *keys)
{
    char name[32];

    for (size_t i = 0; i < KEYS; i++) {
        (void)snprintf(name, sizeof name, "res:acme/models/m%zu", i);
        leaf_key_id(name, keys->ids[i]);
        keys->views[i] = (struct bytes){keys->ids[i], LEAF_KEY_ID_SIZE};
        keys->ordinals[i] = (int64_t)i + 1;
    }
    keys->heads = (struct audit_heads){KEYS, keys->views, keys->ordinals};
}

static void append(struct log_cache *cache, const struct keys *keys, uint64_t old_size)
{
    const struct audit_append append = {
        .old_size = old_size, .count = 1, .key_count = KEYS, .keys = keys->views, .ordinals = keys->ordinals};
    const struct merkle_frontier frontier = {.size = old_size + 1};

    log_cache_appended(cache, &append, &frontier);
}

static struct log_cache *alone(const struct keys *keys)
{
    const struct audit_state states[] = {{.size = 7}, {.size = 8}};
    struct log_cache *cache = NULL;
    struct error err = {0};

    assert_true(log_cache_new(&cache, &err).ok);
    assert_false(log_cache_read(cache, &states[0], 0)); /* it knew nothing */
    assert_false(log_cache_is_alone(cache));
    append(cache, keys, 7);
    assert_true(log_cache_read(cache, &states[1], 0));
    assert_true(log_cache_is_alone(cache));
    return cache;
}

static void all_keys_in_use_are_kept(void **state)
{
    static struct keys keys;

    (void)state;
    make_keys(&keys);
    OWNED(log_cache) *cache = alone(&keys);
    memset(keys.ordinals, 0, sizeof keys.ordinals);
    assert_int_equal(log_cache_heads(cache, &keys.heads, keys.missing), 0);
    for (size_t i = 0; i < KEYS; i++) assert_int_equal(keys.ordinals[i], i + 1);
}

static void only_unknown_keys_are_missing(void **state)
{
    static struct keys keys;

    (void)state;
    make_keys(&keys);
    OWNED(log_cache) *cache = alone(&keys);
    leaf_key_id("res:acme/models/new", keys.ids[5]);
    leaf_key_id("res:acme/models/newer", keys.ids[KEYS - 1]);
    keys.ordinals[5] = keys.ordinals[6] = -1;
    assert_int_equal(log_cache_heads(cache, &keys.heads, keys.missing), 2);
    assert_int_equal(keys.missing[0], 5);
    assert_int_equal(keys.missing[1], KEYS - 1);
    assert_int_equal(keys.ordinals[5], -1);
    assert_int_equal(keys.ordinals[6], 7);
}

static void no_head_is_left_after_another_gateway(void **state)
{
    static struct keys keys;
    const struct audit_state state_of_other = {.size = 9}, epoch_of_other = {.size = 8, .epoch = 1};

    (void)state;
    make_keys(&keys);
    OWNED(log_cache) *cache = alone(&keys);
    assert_false(log_cache_read(cache, &state_of_other, 0));
    assert_false(log_cache_is_alone(cache));
    assert_int_equal(log_cache_heads(cache, &keys.heads, keys.missing), KEYS);
    OWNED(log_cache) *fenced = alone(&keys);
    assert_false(log_cache_read(fenced, &epoch_of_other, 0));
    assert_int_equal(log_cache_heads(fenced, &keys.heads, keys.missing), KEYS);
}

/* More keys than there is room for: the ones that were used last stay. */
static void the_newest_keys_stay(void **state)
{
    static struct keys keys;
    char name[32];

    (void)state;
    make_keys(&keys);
    OWNED(log_cache) *cache = alone(&keys);
    for (uint64_t round = 0; round < 2 * LOG_CACHE_HEADS / KEYS; round++) {
        for (size_t i = 0; i < KEYS; i++) {
            (void)snprintf(name, sizeof name, "res:%d/%zu", (int)round, i);
            leaf_key_id(name, keys.ids[i]);
        }
        append(cache, &keys, 8 + round);
        assert_true(log_cache_heads(cache, &keys.heads, keys.missing) < KEYS / 50);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_keys_in_use_are_kept),
        cmocka_unit_test(only_unknown_keys_are_missing),
        cmocka_unit_test(no_head_is_left_after_another_gateway),
        cmocka_unit_test(the_newest_keys_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
