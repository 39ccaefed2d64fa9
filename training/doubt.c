#include "training/doubt.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "training/run_priv.h"

#define DOUBTED_MAX 100  /* runs in one round: a second of work */
#define LEASES_MAX  1000 /* of one key for a run and those before it: more than attempts and nodes of a usual run */

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

/* ---- what sijil-keyd has signed ---- */

/* Whether the envelope of a row is the lease of just this run, attempt, node and key. */
static struct result is_lease(const struct pg_rows *rows, size_t row, const struct run_part *asked, bool *is_out,
                              struct error *err)
{
    const struct uuid id = pg_uuid(rows, row, 0);
    OWNED(run_envelope) *lease = NULL;
    struct error why = {0};
    char run[UUID_TEXT_SIZE];

    uuid_format(&id, run);
    *is_out = run_envelope_read(bytes_of_text(pg_text(rows, row, 3)), RUN_LEASE, &lease, &why).ok &&
              run_check_signer(lease, asked->signer, &why).ok && strcmp(run_text(lease, "run"), run) == 0 &&
              run_integer(lease, "attempt") == pg_int8(rows, row, 1) && run_integer(lease, "node") == pg_int8(rows, row, 2) &&
              strcmp(run_text(lease, "runner.key"), asked->key) == 0;
    return why.kind == ERROR_NO_MEMORY ? failure(err, why.kind, "%s", why.message) : SUCCESS;
}

static struct result was_leased(struct pg *pg, const struct run_part *asked, bool *was_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;

    *was_out = false;
    TRY(run_rows_leases_of_key(pg, asked, LEASES_MAX, &rows, err));
    for (size_t i = 0; i < pg_rows_count(rows) && !*was_out; i++) TRY(is_lease(rows, i, asked, was_out, err));
    return SUCCESS;
}

struct result run_was_leased(const struct permit *permit, struct pg *pg, enum action action, const struct run_part *asked,
                             bool *was_out, struct error *err)
{
    (void)run_project_of(permit, action);
    return was_leased(pg, asked, was_out, err);
}

struct result run_withdrawal_applies(struct pg *pg, const struct run_withdrawals *withdrawals, const struct uuid *run,
                                     const char *key, bool *applies_out, struct error *err)
{
    const struct run_withdrawal *withdrawal = find(withdrawals, key);

    *applies_out = false;
    if (withdrawal == NULL) return SUCCESS;
    const struct run_part asked = {run, key, withdrawal->since_ms, withdrawals->signer};
    return was_leased(pg, &asked, applies_out, err);
}

/* ---- a round ---- */

static struct result doubt_one(struct sequencer *sequencer, struct pg *pg, const struct run_withdrawals *withdrawals,
                               const struct doubted_run *run, bool *is_new_out, struct error *err)
{
    struct doubt doubt = {.run = *run, .withdrawal = find(withdrawals, run->key)};
    bool applies = false;

    *is_new_out = false;
    TRY(run_withdrawal_applies(pg, withdrawals, &run->run.run, run->key, &applies, err));
    return applies ? record(sequencer, &doubt, is_new_out, err) : SUCCESS;
}

/* A page of rows that prove nothing, however many an attacker has written, is passed over. */
static struct result doubt_pages(struct sequencer *sequencer, struct pg *pg, const struct run_withdrawals *withdrawals,
                                 struct doubted_run runs[DOUBTED_MAX], struct run_round *round, struct error *err)
{
    size_t count = DOUBTED_MAX;

    for (size_t skipped = 0; count == DOUBTED_MAX && round->changed == 0; skipped += count) {
        TRY(run_rows_doubted(pg, withdrawals, &(struct row_window){skipped, DOUBTED_MAX}, runs, &count, err));
        for (size_t i = 0; i < count; i++) {
            bool is_new = false;
            const struct result one = doubt_one(sequencer, pg, withdrawals, &runs[i], &is_new, err);
            run_round_note(round, one, is_new, err);
        }
    }
    return SUCCESS;
}

struct result run_doubt_due(struct sequencer *sequencer, struct pg *pg, const struct run_withdrawals *withdrawals,
                            size_t *count_out, struct error *err)
{
    struct doubted_run *runs = memory_zeroed(DOUBTED_MAX, sizeof *runs);
    struct run_round round = {.changed = 0};

    if (runs == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for runs in doubt");
    const struct result result = doubt_pages(sequencer, pg, withdrawals, runs, &round, err);
    free(runs);
    return result.ok ? run_round_end(&round, count_out, err) : result;
}
