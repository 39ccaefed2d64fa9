/* The table over the keys of a group of events. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#include "audit/format/leaf.h"
#include "audit/sequencer_priv.h"
#include "base/bytes.h"
#include "base/memory.h"

#define KEYS 3000

static const char *name_of(unsigned number)
{
    static char name[32];

    (void)snprintf(name, sizeof name, "main/models-%u", number);
    return name;
}

static uint32_t slot_of(unsigned number)
{
    uint8_t id[LEAF_KEY_ID_SIZE];

    leaf_key_id(name_of(number), id);
    return load_u32(id) % GROUP_SLOTS;
}

/* The number of names whose slot an earlier name has. */
static size_t count_collisions(void)
{
    static bool is_taken[GROUP_SLOTS];
    size_t collisions = 0;

    memset(is_taken, 0, sizeof is_taken);
    for (unsigned i = 0; i < KEYS; i++) {
        collisions += is_taken[slot_of(i)] ? 1 : 0;
        is_taken[slot_of(i)] = true;
    }
    return collisions;
}

static void each_key_has_one_place(void **state)
{
    struct group *group = memory_zeroed(1, sizeof *group);

    (void)state;
    assert_non_null(group);
    assert_true(count_collisions() > 50);
    for (int round = 0; round < 2; round++) {
        group_clear_keys(group);
        for (int turn = 0; turn < 2; turn++)
            for (unsigned i = 0; i < KEYS; i++) assert_int_equal(group_key_index(group, name_of(i)), i);
        assert_int_equal(group->key_count, KEYS);
    }
    free(group);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_key_has_one_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
