/*
 * runner/calls/answers.h -- the answers of the routes for runners (docs/api.md).
 *
 * Unknown members are skipped, so that a newer registry may say more. ERROR_INVALID names the member that is wrong; ERROR_LIMIT,
 * ERROR_NO_MEMORY.
 */
#pragma once

#include "base/bytes.h"

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

/** The member `offset` of a refusal: where the log goes on. */
RESULT answer_read_offset(struct bytes text, uint64_t *offset_out, struct error *err);
/** Whether a refusal has the type `runner-suspended`. False also for a text that is no refusal. */
bool answer_is_suspension(struct bytes text);
