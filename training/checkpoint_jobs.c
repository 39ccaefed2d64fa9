#include "training/checkpoint_jobs.h"

#include <stdio.h>

#include "base/memory.h"
#include "training/checkpoint_priv.h"
#include "training/run_priv.h"

#define DUE_MAX 100 /* in one round: a second of work */

struct forgetting {
    struct change change;
    struct action_pair pair;
    const struct due_checkpoint *due;
};

static struct result forget(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct forgetting *self = (const struct forgetting *)(const void *)change; /* its first member */

    permit_require(permit, ACTION_RUN_FORGET, &self->pair.resource);
    return checkpoint_row_forget(pg, &self->due->run, self->due->digest, err);
}

/* ERROR_CONFLICT: another gateway has done it. */
static struct result forget_one(struct sequencer *sequencer, const struct due_checkpoint *due, bool *is_gone_out,
                                struct error *err)
{
    struct forgetting forgetting = {.change = {.run = forget, .invalidates = CHANGE_INVALIDATES_NOTHING},
                                    .pair = {ACTION_RUN_FORGET, due->where},
                                    .due = due};
    char id[UUID_TEXT_SIZE];

    uuid_format(&due->run, id);
    (void)snprintf(forgetting.pair.resource.detail, sizeof forgetting.pair.resource.detail, "%s %.71s", id, due->digest);
    return run_record_once(sequencer, &forgetting.pair, &forgetting.change, is_gone_out, err);
}

static struct result forget_all(struct sequencer *sequencer, const struct due_checkpoint *due, size_t count, size_t *gone_out,
                                struct error *err)
{
    struct run_round round = {.changed = 0};

    for (size_t i = 0; i < count; i++) {
        bool is_gone = false;
        const struct result one = forget_one(sequencer, &due[i], &is_gone, err);
        run_round_note(&round, one, is_gone, err);
    }
    return run_round_end(&round, gone_out, err);
}

static struct result find_and_forget(struct sequencer *sequencer, struct pg *pg, const struct run_withdrawals *withdrawals,
                                     size_t *count_out, struct error *err)
{
    struct due_checkpoint *due = memory_zeroed(DUE_MAX, sizeof *due);
    size_t count = 0;

    if (due == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for checkpoints that are due");
    struct result result = withdrawals == NULL ? checkpoint_rows_due(pg, due, DUE_MAX, &count, err)
                                               : checkpoint_rows_doubted(pg, withdrawals, due, DUE_MAX, &count, err);
    if (result.ok) result = forget_all(sequencer, due, count, count_out, err);
    free(due);
    return result;
}

struct result run_checkpoint_forget_due(struct sequencer *sequencer, struct pg *pg, size_t *count_out, struct error *err)
{
    return find_and_forget(sequencer, pg, NULL, count_out, err);
}

struct result run_checkpoint_forget_doubted(struct sequencer *sequencer, struct pg *pg, const struct run_withdrawals *withdrawals,
                                            size_t *count_out, struct error *err)
{
    return find_and_forget(sequencer, pg, withdrawals, count_out, err);
}
