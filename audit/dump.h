/*
 * audit/dump.h -- writes the log of one moment as a stream of records (docs/formats/audit-dump.md).
 *
 * It reads in one snapshot, with a role that needs SELECT only, and holds a page at a time. It checks nothing: audit/format/fsck.h does.
 */
#pragma once

#include "audit/format/dump.h"

struct audit_dump_options {
    const char *conninfo;
    /** Takes the next bytes. */
    struct result (*write)(void *context, struct bytes piece, struct error *err);
    /** Told now and then how many entries of how many are written; may be NULL. */
    void (*progress)(void *context, uint64_t done, uint64_t size);
    void *context;
};
/** Entries that are in the dump with their hash alone: their bytes are in a region (audit/archive.h), which a dump does not read. */
struct audit_dump_released {
    uint64_t count, first, last;
};
/** ERROR_UNAVAILABLE without the database; ERROR_INVALID if the role may not read all of it, or the schema is another. */
RESULT audit_dump(const struct audit_dump_options *options, struct audit_dump_released *released_out, struct error *err)
    __attribute__((nonnull));
