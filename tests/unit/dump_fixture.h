/*
 * tests/unit/dump_fixture.h -- the dump of a log that is made up, and checks of it. For one source file of a program only: it defines what it declares.
 */
#pragma once

#include "tests/support/unit.h"

#include "audit/format/fsck_priv.h"
#include "tests/support/made_dump.h"

#define ENTRIES      9000 /* three blocks; the last one is not full, nor is its last tile */
#define REPOSITORIES 300
#define DUMP_MAX     ((size_t)64 << 20)

static struct made {
    struct buffer bytes, vkey;
} made;

static inline void keep(void *context, struct bytes piece)
{
    struct error err = {0};

    must(buffer_add(context, piece.data, piece.length, &err), &err);
}

static inline int make(void **state)
{
    (void)state;
    made.bytes = BUFFER(DUMP_MAX);
    made_dump(ENTRIES, REPOSITORIES, keep, &made.bytes, &made.vkey);
    return 0;
}

static inline int unmake(void **state)
{
    (void)state;
    buffer_done(&made.bytes);
    buffer_done(&made.vkey);
    return 0;
}

static inline struct fsck *new_check(uint64_t memory)
{
    const struct fsck_options options = {buffer_bytes(&made.vkey), FSCK_MEMORY_DEFAULT, 2};
    struct fsck *fsck = NULL;
    struct error err = {0};

    must(fsck_new(&options, &fsck, &err), &err);
    fsck->options.memory = memory;
    return fsck;
}

/* As sijil-verify does: in pieces, and again from the beginning while that is wanted. */
static inline struct result check(struct fsck *fsck, struct bytes dump, size_t step, struct error *err)
{
    for (bool again = true; again;) {
        for (size_t at = 0; at < dump.length; at += step) {
            const size_t left = dump.length - at;
            TRY(fsck_feed(fsck, (struct bytes){dump.data + at, left < step ? left : step}, err));
        }
        TRY(fsck_end_pass(fsck, &again, err));
    }
    return SUCCESS;
}

/* So that each block is a pass of its own. */
#define SMALL_MEMORY ((uint64_t)2 * FSCK_ENTRY_BYTES * DUMP_BLOCK)
