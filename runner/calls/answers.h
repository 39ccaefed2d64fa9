/*
 * runner/calls/answers.h -- the answers of the routes for runners (docs/api.md).
 *
 * Unknown members are skipped, so that a newer registry may say more. ERROR_INVALID names the member that is wrong; ERROR_LIMIT,
 * ERROR_NO_MEMORY.
 */
#pragma once

#include "base/bytes.h"
#include "base/uuid.h"

#define ANSWER_MAX         65536 /* bytes; of a bundle see RUN_BUNDLE_MAX */
#define ANSWER_STATE_SIZE  32    /* the longest name of a state has 17 letters */
#define ANSWER_REASON_SIZE 257   /* docs/formats/run.md: a reason has at most 256 bytes */

struct heartbeat_answer {
    char state[ANSWER_STATE_SIZE];
    bool stop;
    char reason[ANSWER_REASON_SIZE]; /* why it stops; "" */
    int64_t every_ms;                /* until the next heartbeat; 1 s to 60 s */
};
RESULT answer_read_heartbeat(struct bytes text, struct heartbeat_answer *answer_out, struct error *err);

/** Appends the token. It has at most 12 KiB of the characters of RFC 6750; its life is 1 s to 30 days. */
RESULT answer_read_token(struct bytes text, struct buffer *token, int64_t *lifetime_s_out, struct error *err);

/** The state of the run after its result. */
RESULT answer_read_result(struct bytes text, char state_out[ANSWER_STATE_SIZE], struct error *err);

#define QUEUE_RUNS_MAX    256
#define QUEUE_REGIONS_MAX 16
#define QUEUE_TEXT_SIZE   64 /* of a region, or of the type of a device */
#define QUEUE_ANSWER_MAX  (4 << 20)

/** A run that a scheduler knows of: its sizes, and where it may be. */
struct queued_run {
    char run[UUID_TEXT_SIZE];
    int64_t attempt;
    bool is_held; /* runners of nodes have it; else it waits for them */
    int64_t nodes, cpus, memory_bytes, time_s, devices;
    char device_type[QUEUE_TEXT_SIZE]; /* "": none */
    size_t region_count;
    char regions[QUEUE_REGIONS_MAX][QUEUE_TEXT_SIZE];
};
struct queue_answer {
    bool has_more; /* than are in this list */
    size_t count;
    struct queued_run *runs; /* owned */
};
/** Free *answer_out with queue_answer_done(). */
RESULT answer_read_queue(struct bytes text, struct queue_answer *answer_out, struct error *err);
void queue_answer_done(struct queue_answer *answer);

/** The member `offset` of a refusal: where the log goes on. */
RESULT answer_read_offset(struct bytes text, uint64_t *offset_out, struct error *err);
/** Whether a refusal has the type `runner-suspended`. False also for a text that is no refusal. */
bool answer_is_suspension(struct bytes text);
