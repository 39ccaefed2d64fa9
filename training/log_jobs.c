#include "training/log_jobs.h"

#include <stdio.h>

#include "base/memory.h"
#include "training/log_priv.h"
#include "training/run_priv.h"

#define DUE_MAX 100 /* runs in one round */

struct forgetting {
    struct change change;
    struct action_pair pair;
    struct uuid run;
};

static struct result forget(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct forgetting *forgetting = (const struct forgetting *)(const void *)change; /* its first member */

    permit_require(permit, ACTION_RUN_FORGET, &forgetting->pair.resource);
    return log_row_forget(pg, &forgetting->run, err);
}

/* ERROR_CONFLICT: another gateway has done it. */
static struct result forget_one(struct sequencer *sequencer, const struct due_log *due, bool *is_gone_out, struct error *err)
{
    struct forgetting forgetting = {.change = {.run = forget, .invalidates = CHANGE_INVALIDATES_NOTHING},
                                    .pair = {ACTION_RUN_FORGET, due->where},
                                    .run = due->run};
    char id[UUID_TEXT_SIZE];

    uuid_format(&due->run, id);
    (void)snprintf(forgetting.pair.resource.detail, sizeof forgetting.pair.resource.detail, "%s", id);
    return run_record_once(sequencer, &forgetting.pair, &forgetting.change, is_gone_out, err);
}

struct result run_log_forget_due(struct sequencer *sequencer, struct pg *pg, size_t *count_out, struct error *err)
{
    struct due_log *due = memory_zeroed(DUE_MAX, sizeof *due);
    struct run_round round = {.changed = 0};
    size_t count = 0;

    if (due == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for logs that are due");
    const struct result result = log_rows_due(pg, due, DUE_MAX, &count, err);
    for (size_t i = 0; i < count && result.ok; i++) {
        bool is_gone = false;
        const struct result one = forget_one(sequencer, &due[i], &is_gone, err);
        run_round_note(&round, one, is_gone, err);
    }
    free(due);
    return result.ok ? run_round_end(&round, count_out, err) : result;
}
