/* Who may report about a lease: its holder, by the lease that sijil-keyd has signed, in the newest session of its key; and two results of one lease. */
#include <stdio.h>
#include <string.h>

#include "training/format/certificate.h"
#include "training/format/chain.h"
#include "training/result_priv.h"
#include "training/run_priv.h"

/* ---- who reports ---- */

struct result run_held_check(const struct run_held *held, const uint8_t session[RUN_SESSION_SIZE], enum run_reporter reporter,
                             struct error *err)
{
    const bool is_newest = memcmp(session, held->newest, RUN_SESSION_SIZE) == 0;

    if (held->suspended[0] != '\0')
        return failure(err, ERROR_CONFLICT, "the runner's key is suspended: %.160s; enrol the runner anew", held->suspended);
    if (!is_newest) return failure(err, ERROR_CONFLICT, "this is not the newest session of the runner's key: ask for work first");
    if (reporter == RUN_REPORTER_NEWEST || memcmp(session, held->session, RUN_SESSION_SIZE) == 0) return SUCCESS;
    return failure(err, ERROR_CONFLICT,
                   "another session of this runner has the lease: it was started again since, and sends only a result");
}

/* ---- the signed lease ---- */

static bool is_of_holder(const struct run_envelope *lease, const struct run_holder *holder)
{
    char run[UUID_TEXT_SIZE];

    uuid_format(&holder->run, run);
    return strcmp(run_text(lease, "run"), run) == 0 && run_integer(lease, "attempt") == holder->attempt &&
           run_integer(lease, "node") == holder->node && strcmp(run_text(lease, "runner.key"), holder->key) == 0;
}

struct result run_lease_check(const struct run_envelope *lease, const struct run_envelope *order, const struct run_holder *holder,
                              int64_t now_ms, struct error *err)
{
    if (!is_of_holder(lease, holder)) return failure(err, ERROR_DENIED, "the lease is for another runner, run, attempt or node");
    if (strcmp(run_text(lease, "order"), order->digest) != 0) return failure(err, ERROR_DENIED, "the lease is of another order");
    if (run_time(lease, "not_before") <= now_ms + RUN_CLOCK_SKEW_MS && now_ms < run_time(lease, "expires")) return SUCCESS;
    return failure(err, ERROR_DENIED, "the lease has ended, or has not begun");
}

/* ---- two results ---- */

/* A change by the server itself: the key is suspended, or a run is in doubt. */
struct second_change {
    struct change change;
    struct action_pair pair;
    const struct run_second *second;
};

static struct result suspend(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct second_change *self = (const struct second_change *)(const void *)change; /* its first member */

    permit_require(permit, ACTION_RUNNER_SUSPEND, &self->pair.resource);
    return run_session_suspend(pg, self->second->holder->key, RUN_SECOND_REASON, err);
}

static struct result doubt(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct second_change *self = (const struct second_change *)(const void *)change; /* its first member */
    const struct run_second *second = self->second;
    const struct run_withdrawal withdrawal = {.key = bytes_of_text(second->holder->key),
                                              .runner = second->held->runner,
                                              .since_ms = second->held->leased_ms,
                                              .reason = RUN_SECOND_REASON};

    permit_require(permit, ACTION_RUN_DOUBT, &self->pair.resource);
    return run_row_doubt(pg, &second->holder->run, &withdrawal, err);
}

static struct result record(struct sequencer *sequencer, struct second_change *change, struct error *err)
{
    bool is_new = false;

    return run_record_once(sequencer, &change->pair, &change->change, &is_new, err);
}

static struct result suspend_key(struct sequencer *sequencer, const struct run_second *second, struct error *err)
{
    struct second_change change = {.change = {.run = suspend, .invalidates = CHANGE_INVALIDATES_NOTHING},
                                   .pair = {ACTION_RUNNER_SUSPEND, second->held->where},
                                   .second = second};
    char runner[UUID_TEXT_SIZE];

    uuid_format(&second->held->runner, runner);
    (void)snprintf(change.pair.resource.detail, sizeof change.pair.resource.detail, "%s %s", runner, second->holder->key);
    return record(sequencer, &change, err);
}

static struct result doubt_run(struct sequencer *sequencer, const struct run_second *second, struct error *err)
{
    struct second_change change = {.change = {.run = doubt, .invalidates = CHANGE_INVALIDATES_NOTHING},
                                   .pair = {ACTION_RUN_DOUBT, second->held->where},
                                   .second = second};

    uuid_format(&second->holder->run, change.pair.resource.detail);
    return record(sequencer, &change, err);
}

/* A run that waits for its admission is quarantined by it, because the key is suspended. */
struct result run_second_result(const struct permit *permit, struct sequencer *sequencer, struct pg *pg,
                                const struct run_second *second, struct error *err)
{
    struct run_held now;

    run_require_lease(permit, ACTION_RUN_FINISH, second->holder);
    permit_require(permit, ACTION_RUN_FINISH, &second->held->where);
    TRY(run_held_find(lookup_of(pg), second->holder, &now, err)); /* only the key of this lease is suspended */
    TRY(suspend_key(sequencer, second, err));
    TRY(run_held_find(lookup_of(pg), second->holder, &now, err));
    return now.state == RUN_STATE_SUCCEEDED ? doubt_run(sequencer, second, err) : SUCCESS;
}

/* ---- what is stored ---- */

static bool is_of_lease(const struct run_envelope *one, const struct run_envelope *other)
{
    static const char lease[] = "predicate.buildDefinition.externalParameters.lease";

    return strcmp(run_text(one, lease), run_text(other, lease)) == 0;
}

/* A row alone suspends nobody: what it has must be signed with the key of the attempt. */
static bool is_other(const char *text, const struct run_second *second)
{
    OWNED(run_envelope) *stored = NULL;
    struct error ignored = {0};

    return run_envelope_read(bytes_of_text(text), RUN_RESULT, &stored, &ignored).ok && is_of_lease(stored, second->result) &&
           strcmp(stored->digest, second->result->digest) != 0 &&
           certificate_check_result(second->certificate, stored, &ignored).ok;
}

struct result run_result_is_second(const struct permit *permit, struct pg *pg, const struct run_second *second,
                                   bool *is_second_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    bool is_second = false;

    run_require_lease(permit, ACTION_RUN_FINISH, second->holder);
    TRY(run_rows_results(pg, &second->holder->run, second->principal, &rows, err));
    for (size_t i = 0; i < pg_rows_count(rows) && !is_second; i++) is_second = is_other(pg_text(rows, i, 0), second);
    *is_second_out = is_second;
    return SUCCESS;
}
