/* One round: the checkpoint to each witness, and what they answer. */
#include <stdio.h>
#include <string.h>

#include "audit/cosigned_jobs.h"
#include "audit/format/add_checkpoint.h"
#include "base/log.h"
#include "gateway/background/witness_feed_priv.h"

#define TRIES 2 /* one more with the size that the witness has answered (C2SP tlog-witness) */

/* PostgreSQL's connection is one, so the proofs of a round are made one after the other. */
static struct result make_body(struct witness_lane *lane, struct buffer *body, struct error *err)
{
    struct witness_feed *feed = lane->feed;
    const struct signed_checkpoint *newer = feed->submitted;
    const uint64_t old_size = lane->size < newer->size ? lane->size : newer->size;

    (void)pthread_mutex_lock(&feed->pg_mutex);
    const struct result proven = cosigned_prove(feed->pg, old_size, newer, body, err);
    (void)pthread_mutex_unlock(&feed->pg_mutex);
    return proven;
}

static struct result submit(struct witness_lane *lane, struct error *err)
{
    const struct signed_checkpoint *newer = lane->feed->submitted;

    for (unsigned i = 0; i < TRIES; i++) {
        struct buffer OWNED_BUFFER body = BUFFER(ADD_CHECKPOINT_MAX);
        TRY(make_body(lane, &body, err));
        const struct witness_submission submission = {.outgoing = lane->feed->outgoing,
                                                      .witness = lane->witness,
                                                      .body = buffer_bytes(&body),
                                                      .note = bytes_of_text(newer->note),
                                                      .gives_up = &lane->feed->gives_up};
        TRY(witness_call(&submission, &lane->reply, err));
        if (lane->reply.end == WITNESS_COSIGNED) lane->size = newer->size;
        if (lane->reply.end != WITNESS_KNOWS_OTHER) break;
        lane->size = lane->reply.size;
        if (lane->size > newer->size) break; /* another gateway was faster, or the log is not what it was */
    }
    return SUCCESS;
}

static void *lane_main(void *argument)
{
    struct witness_lane *lane = argument;

    lane->error = (struct error){0};
    lane->result = submit(lane, &lane->error);
    if (lane->result.ok) return NULL;
    lane->reply.end = WITNESS_AWAY;
    (void)snprintf(lane->reply.why, sizeof lane->reply.why, "it was not asked: %.170s", lane->error.message);
    return NULL;
}

void witness_round_submit(struct witness_feed *feed, const struct signed_checkpoint *checkpoint)
{
    feed->submitted = checkpoint;
    for (size_t i = 0; i < feed->policy->witness_count; i++) {
        struct witness_lane *lane = &feed->lanes[i];
        buffer_clear(&lane->reply.line);
        lane->reply.why[0] = '\0';
        lane->reply.end = WITNESS_AWAY;
        lane->has_thread = pthread_create(&lane->thread, NULL, lane_main, lane) == 0;
        if (!lane->has_thread) (void)lane_main(lane); /* slower, and the same */
    }
    for (size_t i = 0; i < feed->policy->witness_count; i++)
        if (feed->lanes[i].has_thread) (void)pthread_join(feed->lanes[i].thread, NULL);
}

struct result witness_round_collect(struct witness_feed *feed, struct cosigned *cosigned_out, struct error *err)
{
    struct buffer OWNED_BUFFER note = BUFFER(SIGNED_NOTE_MAX);

    TRY(buffer_add_text(&note, feed->submitted->note, err));
    for (size_t i = 0; i < feed->policy->witness_count; i++)
        if (feed->lanes[i].reply.end == WITNESS_COSIGNED)
            TRY(buffer_add(&note, feed->lanes[i].reply.line.data, feed->lanes[i].reply.line.length, err));
    return cosigned_read(witness_feed_keys(feed), feed->policy, buffer_bytes(&note), cosigned_out, err);
}

void witness_round_say(struct witness_feed *feed)
{
    for (size_t i = 0; i < feed->policy->witness_count; i++)
        if (feed->lanes[i].reply.why[0] != '\0')
            log_line(LOG_WARNING, "a witness has not cosigned", "witness", feed->lanes[i].witness->member.name, "why",
                     feed->lanes[i].reply.why, NULL);
}
