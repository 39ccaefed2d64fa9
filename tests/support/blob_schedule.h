/*
 * tests/support/blob_schedule.h -- random histories of an upload: checkpoints, lost commits, writers that stall and wake up
 * again, wrong digests. At the end the content must be correct, and no other object may be left.
 */
#pragma once

#include "tests/support/blob.h"

/** One schedule on a store that blob_test_open() or blob_test_use() made. The same seed is the same schedule. */
void blob_schedule_run(struct blob_test *test, uint64_t seed, uint64_t length_max);
