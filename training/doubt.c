#include "training/doubt.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "training/run_priv.h"

#define DOUBTED_MAX 100 /* runs in one round: a second of work */

/* A doubt, as a change by the server itself. */
struct doubt {
    struct change change;
    struct action_pair pair;
    struct doubted_run run;
    const struct run_withdrawal *withdrawal;
    char reason[RUN_REASON_SIZE];
};

static struct result add(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct doubt *doubt = (const struct doubt *)(const void *)change; /* its first member */
    const struct run_move move = {&doubt->run.run.run, &doubt->pair.resource.project, ACTION_RUN_QUARANTINE,
                                  RUN_STATE_QUARANTINED, doubt->reason};

    permit_require(permit, doubt->pair.action, &doubt->pair.resource);
    if (doubt->pair.action == ACTION_RUN_QUARANTINE) return run_row_move(pg, &move, err);
    return run_row_doubt(pg, &doubt->run.run.run, doubt->withdrawal, err);
}

/* ERROR_CONFLICT: the run has ended meanwhile, and is looked at again in the next round. */
static struct result record(struct sequencer *sequencer, struct doubt *doubt, bool *is_new_out, struct error *err)
{
    const bool is_open = doubt->run.state == RUN_STATE_FINISHING;

    doubt->change = (struct change){.run = add, .invalidates = CHANGE_INVALIDATES_NOTHING};
    doubt->pair = (struct action_pair){is_open ? ACTION_RUN_QUARANTINE : ACTION_RUN_DOUBT, doubt->run.run.where};
    uuid_format(&doubt->run.run.run, doubt->pair.resource.detail);
    (void)snprintf(doubt->reason, sizeof doubt->reason, "its runner was withdrawn, and its results don't count: %.180s",
                   doubt->withdrawal->reason);
    return run_record_once(sequencer, &doubt->pair, &doubt->change, is_new_out, err);
}

static const struct run_withdrawal *find(const struct run_withdrawals *withdrawals, const char *key)
{
    for (size_t i = 0; i < withdrawals->count; i++)
        if (bytes_equal(withdrawals->each[i].key, bytes_of_text(key))) return &withdrawals->each[i];
    return NULL;
}

struct result run_doubt_due(struct sequencer *sequencer, struct pg *pg, const struct run_withdrawals *withdrawals,
                            size_t *count_out, struct error *err)
{
    struct doubted_run *runs = memory_zeroed(DOUBTED_MAX, sizeof *runs);
    struct run_round round = {.changed = 0};
    size_t run_count = 0;

    if (runs == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for runs in doubt");
    const struct result result = run_rows_doubted(pg, withdrawals, runs, DOUBTED_MAX, &run_count, err);
    for (size_t i = 0; i < run_count && result.ok; i++) {
        struct doubt doubt = {.run = runs[i], .withdrawal = find(withdrawals, runs[i].key)};
        bool is_new = false;
        if (doubt.withdrawal == NULL) continue;
        const struct result one = record(sequencer, &doubt, &is_new, err);
        run_round_note(&round, one, is_new, err);
    }
    free(runs);
    return result.ok ? run_round_end(&round, count_out, err) : result;
}
