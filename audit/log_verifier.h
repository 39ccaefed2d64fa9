/*
 * audit/log_verifier.h -- verifies the whole log again and again while the gateway serves: the tables must still hold the
 * signed log.
 *
 * Each round takes the newest signed checkpoint, begins at a random tile and checks everything: leaves, hashes, tiles, root,
 * the columns beside the leaves, the index of keys, the stored checkpoints. Every two seconds, also between rounds, the
 * thread checks the sealed parts of new entries, and whether there are rows beyond the end. A difference stops the service
 * (sequencer_set_forked()). No content of the tables makes a round endless, and a round that does not end is reported.
 *
 * One thread with low priority and a connection of its own. It works for at most a tenth of the time, so under load the
 * verifier gets slower, not the requests.
 */
#pragma once

#include "audit/sequencer.h"

struct log_verifier;

struct log_verifier_options {
    const char *conninfo; /* PostgreSQL, as the application's role; must outlive the verifier */
    struct sequencer *sequencer;
    unsigned rate;       /* entries a second, at most */
    unsigned rest_s;     /* from the end of a round to the next one */
    unsigned patience_s; /* a round is late after this time plus ten times its work at that rate */
};

RESULT log_verifier_start(const struct log_verifier_options *options, struct log_verifier **verifier_out, struct error *err);
/** Call it before sequencer_free(). */
void log_verifier_free(struct log_verifier *verifier);
DEFINE_OWNED(log_verifier);
