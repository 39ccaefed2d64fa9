/*
 * gateway/background/witness_feed_priv.h -- shared by the sources of the feed: its state, and one round.
 */
#pragma once

#include "audit/log_key_list.h"
#include "audit/sequencer.h"
#include "base/thread.h"
#include "gateway/background/witness_call.h"
#include "gateway/background/witness_feed.h"

#define WITNESS_REFRESH_S 300

/* One witness. In a round a thread of its own has it. */
struct witness_lane {
    struct witness_feed *feed;
    const struct policy_witness *witness;
    uint64_t size; /* the log that the witness knows, as far as we know */
    unsigned bad_rounds;
    bool is_reported; /* an event says that the witness refuses */
    struct witness_reply reply;
    struct result result;
    struct error error;
    pthread_t thread;
    bool has_thread;
};

struct witness_feed {
    const struct settings *settings;
    struct keyd_client *keyd;
    struct sequencer *sequencer; /* from the start on, as the next */
    atomic_bool *is_without;
    struct log_key_list log_keys; /* before the start; from then on the sequencer knows them */
    struct buffer file, text;     /* of the policy: as it was configured; what sijil-keyd pins */
    struct witness_policy *policy;
    struct outgoing *outgoing;
    struct pg *pg; /* with the mutex below */
    pthread_mutex_t pg_mutex;
    struct thread thread; /* its mutex protects newest */
    atomic_bool gives_up;
    struct cosigned newest;      /* its note is empty before the first */
    int64_t quorum_ms, round_ms; /* clock_monotonic_ms() of the newest quorum, and of the last round */
    int64_t refresh_s;           /* an idle log is cosigned again, so that its newest cosignatures are not old */
    bool is_late;
    bool keyd_waits;                           /* the log says so */
    const struct signed_checkpoint *submitted; /* of the round */
    struct witness_lane lanes[WITNESS_POLICY_WITNESSES_MAX];
};

/** The keys of the log. */
static inline const struct log_keys *witness_feed_keys(const struct witness_feed *feed)
{
    return feed->sequencer == NULL ? log_key_view(&feed->log_keys) : sequencer_log_keys(feed->sequencer);
}

/** Reads the file: a policy, or the signed envelope of one (keyd/quorum.h). */
RESULT witness_policy_open(struct witness_feed *feed, const char *path, struct error *err);
/** Has sijil-keyd pin the policy, unless it has. */
RESULT witness_policy_pin(struct witness_feed *feed, struct error *err);
/** Has the last checkpoint cosigned if sijil-keyd was started again; keeps whether changes have to wait. */
void witness_keyd_look(struct witness_feed *feed);
/** Shows sijil-keyd what a quorum has cosigned. */
RESULT witness_policy_show(struct witness_feed *feed, const struct cosigned *cosigned, struct error *err);

/** Submits to all witnesses at once, and waits for their answers. Each lane has its reply. */
void witness_round_submit(struct witness_feed *feed, const struct signed_checkpoint *checkpoint);
/** The checkpoint with the cosignatures of the round. ERROR_DENIED: they are no quorum. */
RESULT witness_round_collect(struct witness_feed *feed, struct cosigned *cosigned_out, struct error *err);
/** Names the witnesses that have not cosigned in the round, in the program's log. */
void witness_round_say(struct witness_feed *feed);
