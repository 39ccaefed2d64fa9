/*
 * policy/replay_export.h -- the decisions of many events, made again: the events with their facts as a registry exports them, one
 * JSON object a line, {"entry": the leaf, "facts": [the facts of each target, or null where they are missing]}. Other members are
 * passed over.
 */
#pragma once

#include "policy/replay.h"

#define REPLAY_LINE_MAX ((size_t)512 * 1024) /* bytes: a leaf, its facts, and what stands beside them */

struct replay_sets {
    size_t count;
    struct policy_set *const *sets;
};

struct replay_tally {
    uint64_t agree, differ, impossible;
    uint64_t old;         /* of the impossible: of version 1 */
    uint64_t lacking_set; /* likewise: its policy set is not at hand */
    uint64_t first;       /* number of the first event that differs */
    char what[256];       /* differs there */
    char set[72];         /* the first policy set that is not at hand */
};

/** Counts one event. ERROR_INVALID: the line is none; ERROR_LIMIT, ERROR_NO_MEMORY. Then *tally is unchanged. */
RESULT replay_export_line(struct bytes line, const struct replay_sets *sets, struct replay_tally *tally, struct error *err);
/** Nothing differs, and no set was missing. */
bool replay_is_sound(const struct replay_tally *tally);

/** Appends what came of it, for a person or as JSON. */
RESULT replay_tally_text(const struct replay_tally *tally, struct buffer *text, struct error *err);
RESULT replay_tally_json(const struct replay_tally *tally, struct buffer *text, struct error *err);
