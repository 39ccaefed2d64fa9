/*
 * audit/log_patrol.h -- goes through the whole log again and again, beside the service: is it still the one that was signed?
 *
 * Each round takes the newest signed checkpoint, begins at a place drawn at random, and goes round: leaf, hash, tiles, root,
 * what stands beside the leaf, the index of keys, the stored checkpoints. Every two seconds, also while it rests, it looks at the
 * sealed parts of entries that are new, and whether rows stand behind the end. What does not fit stops the service
 * (sequencer_set_forked()). Nothing in the tables makes a round endless, and one that does not come round is told. One thread that gives way to all others, with a connection of its own; it works for at most a tenth
 * of the time, however fast it may go, so that under load it gets slower and not the requests.
 */
#pragma once

#include "audit/sequencer.h"

struct log_patrol;

struct log_patrol_options {
    const char *conninfo; /* PostgreSQL, as the application's role; must outlive the patrol */
    struct sequencer *sequencer;
    unsigned rate;        /* entries a second, at most */
    unsigned rest_s;      /* from the end of a round to the next */
    unsigned patience_s;  /* what a round may take beyond that and ten times its work at that rate, before that is told */
};

RESULT log_patrol_start(const struct log_patrol_options *options, struct log_patrol **patrol_out, struct error *err);
/** Before the sequencer goes. */
void log_patrol_free(struct log_patrol *patrol);
DEFINE_OWNED(log_patrol);
