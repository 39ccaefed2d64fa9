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

/* The checkpoints of one look. */
struct removal {
    struct sequencer *sequencer;
    struct pg *pg;
    const struct run_withdrawals *withdrawals; /* NULL: they go for another reason */
    struct due_checkpoint *due;                /* DUE_MAX */
    struct run_round round;
};

static struct result may_go(const struct removal *removal, const struct due_checkpoint *due, bool *may_out, struct error *err)
{
    *may_out = true;
    if (removal->withdrawals == NULL) return SUCCESS;
    return run_withdrawal_applies(removal->pg, removal->withdrawals, &due->run, due->key, may_out, err);
}

static void forget_all(struct removal *removal, size_t count, struct error *err)
{
    for (size_t i = 0; i < count; i++) {
        bool may = false, is_gone = false;
        struct result one = may_go(removal, &removal->due[i], &may, err);
        if (one.ok && may) one = forget_one(removal->sequencer, &removal->due[i], &is_gone, err);
        run_round_note(&removal->round, one, is_gone, err);
    }
}

/* A page of rows that prove nothing, however many an attacker has written, is passed over. */
static struct result forget_doubted(struct removal *removal, struct error *err)
{
    size_t count = DUE_MAX;

    for (size_t skipped = 0; count == DUE_MAX && removal->round.changed == 0; skipped += count) {
        const struct row_window window = {skipped, DUE_MAX};
        TRY(checkpoint_rows_doubted(removal->pg, removal->withdrawals, &window, removal->due, &count, err));
        forget_all(removal, count, err);
    }
    return SUCCESS;
}

static struct result forget_due(struct removal *removal, struct error *err)
{
    size_t count = 0;

    TRY(checkpoint_rows_due(removal->pg, removal->due, DUE_MAX, &count, err));
    forget_all(removal, count, err);
    return SUCCESS;
}

static struct result find_and_forget(struct sequencer *sequencer, struct pg *pg, const struct run_withdrawals *withdrawals,
                                     size_t *count_out, struct error *err)
{
    struct removal removal = {sequencer, pg, withdrawals, memory_zeroed(DUE_MAX, sizeof *removal.due), {.changed = 0}};

    if (removal.due == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for checkpoints that are due");
    const struct result result = withdrawals == NULL ? forget_due(&removal, err) : forget_doubted(&removal, err);
    free(removal.due);
    return result.ok ? run_round_end(&removal.round, count_out, err) : result;
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
