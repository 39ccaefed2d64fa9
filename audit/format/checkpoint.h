/*
 * audit/format/checkpoint.h -- the state of a log as text (docs/formats/audit-log.md section 7; C2SP tlog-checkpoint
 * v1.0.0): origin, size and root, one line each.
 *
 * The signature of a checkpoint is over this text (audit/format/note.h). We write no extension lines, and ignore those of others.
 */
#pragma once

#include "audit/format/merkle.h"

#define CHECKPOINT_ORIGIN_MAX 127
#define CHECKPOINT_TEXT_MAX   4096 /* bytes that are read, extension lines included; our own have fewer than 200 */

struct checkpoint {
    char origin[CHECKPOINT_ORIGIN_MAX + 1];
    uint64_t size;
    struct merkle_hash root;
};

/** Appends the text. ERROR_INVALID for an origin that cannot be the name of a key, or a size over MERKLE_SIZE_MAX. */
RESULT checkpoint_write(const struct checkpoint *checkpoint, struct buffer *text, struct error *err);
/** Reads a text. ERROR_INVALID unless each line has its one canonical spelling. */
RESULT checkpoint_read(struct bytes text, struct checkpoint *checkpoint_out, struct error *err);
