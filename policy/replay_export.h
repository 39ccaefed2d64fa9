/*
 * policy/replay_export.h -- replays the decisions of an export of the log. Each line is a JSON object {"entry": the
 * leaf, "facts": [the facts of each target, or null if they are missing]}. Other members are ignored.
 */
#pragma once

#include "policy/replay.h"

#define REPLAY_LINE_MAX ((size_t)512 * 1024) /* bytes: a leaf, its facts, and other members */

struct replay_sets {
    size_t count;
    struct policy_set *const *sets;
    struct replay_restrictions *restrictions; /* NULL: none is at hand */
};

struct replay_tally {
    uint64_t agree, differ, impossible;
    uint64_t old;           /* impossible because the event is of version 1 */
    uint64_t missing;       /* impossible because facts that the event commits to are gone */
    uint64_t first_missing; /* number of the first such event */
    uint64_t omitted;       /* impossible because the event says that its facts were too large to keep */
    uint64_t lacking_set;   /* impossible because the policy set is missing */
    uint64_t first;         /* number of the first event that differs */
    char what[256];         /* the difference in that event */
    char set[72];           /* the first missing policy set */
    uint64_t
        restricted_at; /* the number of the first event that brought a restriction of an organisation into force; 0: none is seen */
    uint64_t loaded_epoch, loaded_at; /* the newest policy set that an event so far has loaded, and the number of that event */
};

/**
 * Replays and counts the event of one line. ERROR_INVALID for a malformed line; ERROR_LIMIT, ERROR_NO_MEMORY. On
 * failure *tally is unchanged.
 */
RESULT replay_export_line(struct bytes line, const struct replay_sets *sets, struct replay_tally *tally, struct error *err);
/** True if no event differs, and no facts and no set were missing. */
bool replay_is_sound(const struct replay_tally *tally);

/** Appends the result, as text or as JSON. */
RESULT replay_tally_text(const struct replay_tally *tally, struct buffer *text, struct error *err);
RESULT replay_tally_json(const struct replay_tally *tally, struct buffer *text, struct error *err);
