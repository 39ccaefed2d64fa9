/*
 * tests/support/driver_contract.h -- tests the contract of storage/driver.h, for any driver whose extents are objects.
 */
#pragma once

#include <stddef.h>

#include "storage/driver.h"

struct driver_contract {
    struct driver *driver; /* two drivers for the same store, as in two processes; may be the same driver */
    struct driver *another;
    size_t unit; /* bytes; if the driver has parts, several units make a part */
};

#define DRIVER_CONTRACT(X)                       \
    X(an_extent_is_read_as_it_was_written)       \
    X(many_syncs_lose_nothing)                   \
    X(another_goes_on_where_a_writer_was_synced) \
    X(one_that_wakes_up_late_changes_nothing)    \
    X(two_may_go_on_from_the_same_place)         \
    X(going_on_twice_is_fine)                    \
    X(discarding_leaves_nothing)                 \
    X(a_finished_extent_may_be_followed)         \
    X(small_objects_are_kept_apart)              \
    X(removing_keeps_what_is_named)              \
    X(what_is_not_there_is_said)

/** Each of these fails the test at once if the contract is broken. */
#define X(name) void contract_##name(const struct driver_contract *contract);
DRIVER_CONTRACT(X)
#undef X
