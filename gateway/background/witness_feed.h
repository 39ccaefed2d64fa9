/*
 * gateway/background/witness_feed.h -- submits our checkpoints to the witnesses of the policy, and keeps what they have cosigned.
 *
 * Rule: a checkpoint counts as cosigned when the policy's quorum has cosigned it. The policy comes from the configuration alone.
 * NULL instead of a feed: no policy is configured.
 */
#pragma once

#include <stdatomic.h>

#include "audit/cosigned.h"
#include "base/owned.h"

struct sequencer;
struct settings;
struct witness_feed;

struct witness_feed_options {
    const struct settings *settings;
    struct keyd_client *keyd;
    const struct keyd_identity *identity; /* of `keyd` */
};
/**
 * Reads the policy of the settings, and has it pinned by sijil-keyd. *feed_out is NULL if there is none. ERROR_INVALID: the policy is about
 * another log, a witness has no URL, or sijil-keyd has pinned a policy and the settings have none. ERROR_DENIED: sijil-keyd has pinned another
 * one.
 */
RESULT witness_feed_new(const struct witness_feed_options *options, struct witness_feed **feed_out, struct error *err);
/** After a start of sijil-keyd: has the last checkpoint cosigned, so that sijil-keyd signs again. Tries for a minute: ERROR_UNAVAILABLE. */
RESULT witness_feed_open_keyd(struct witness_feed *feed, struct error *err);
/** Both, for a program that signs and serves nothing else: the making of a new registry. */
RESULT witness_feed_ask_once(const struct witness_feed_options *options, struct error *err);
/** Begins to submit. `is_without_out` is set while changes have to wait because no quorum has cosigned the log for too long. */
RESULT witness_feed_start(struct witness_feed *feed, struct sequencer *sequencer, atomic_bool *is_without_out, struct error *err);
void witness_feed_free(struct witness_feed *feed);
DEFINE_OWNED(witness_feed);

/** The newest cosigned checkpoint, from memory. ERROR_UNAVAILABLE: there is none yet. Thread-safe. */
RESULT witness_feed_newest(struct witness_feed *feed, struct cosigned *cosigned_out, struct error *err);
/** The text of the policy, as sijil-keyd pins it. */
struct bytes witness_feed_text(const struct witness_feed *feed);
const struct witness_policy *witness_feed_policy(const struct witness_feed *feed);
