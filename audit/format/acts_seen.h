/*
 * audit/format/acts_seen.h -- the signed requests of the events that were read, so that one signature does not stand for two requests (docs/formats/audit-log.md, section 19).
 *
 * Rule: events are added in the order of the log. A signature is good for half an hour of the log's times only, so no older one is kept.
 */
#pragma once

#include "audit/format/signed_act.h"

#define ACTS_SEEN_MAX ((size_t)65536) /* in half an hour: 36 a second, and 5 MiB */

struct acts_seen {
    size_t most, first; /* that are compared; of those that are not too old */
    struct buffer each; /* struct act_seen */
};
/** `most`: ACTS_SEEN_MAX, or less. */
void acts_seen_init(struct acts_seen *seen, size_t most);
void acts_seen_done(struct acts_seen *seen);
/**
 * Adds a good signature. *why_out NULL: no other event has it, or only events of the same request, of which one at most was not denied. Else why it is refused; also if so many came in
 * half an hour that they can't be compared. ERROR_NO_MEMORY.
 */
RESULT acts_seen_add(struct acts_seen *seen, const struct leaf *leaf, const struct signed_act_id *id, const char **why_out,
                     struct error *err);
