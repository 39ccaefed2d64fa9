/* The server's own changes of runs: lost attempts, runs that must stop. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "training/run_priv.h"

#define LOST_MAX 100 /* attempts in one round: a second of work */

/* A change by the server itself, with its data. */
struct own_change {
    struct change change;
    struct action_pair pair;
    struct uuid run;
    enum run_state to;
    int64_t attempt;    /* of a lost attempt */
    const char *reason; /* NULL: none */
    const char *why;    /* for the runners of the other nodes */
    const char *key;    /* of a suspended runner */
};

static struct result record(struct sequencer *sequencer, struct own_change *own, struct error *err)
{
    return run_record(sequencer, &own->pair, &own->change, err);
}

static struct result move(struct pg *pg, const struct own_change *own, struct error *err)
{
    const struct run_move step = {&own->run, &own->pair.resource.project, own->pair.action, own->to, own->reason};

    return run_row_move(pg, &step, err);
}

/* ---- lost attempts ---- */

static struct result lose(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct own_change *own = (const struct own_change *)(const void *)change; /* its first member */

    permit_require(permit, own->pair.action, &own->pair.resource);
    TRY(run_attempt_lose(pg, &own->run, own->attempt, own->why, err));
    return move(pg, own, err);
}

static void say_who(const struct lost_attempt *lost, char *why, size_t size)
{
    if (lost->is_incomplete) (void)snprintf(why, size, "not all nodes came: one has no lease");
    else if (lost->nodes == 1) (void)snprintf(why, size, "its runner was silent for %d s", RUN_SILENCE_MS / 1000);
    else (void)snprintf(why, size, "the runner of node %lld was silent for %d s", (long long)lost->node, RUN_SILENCE_MS / 1000);
}

/* ERROR_CONFLICT: a heartbeat or a result came meanwhile. */
static struct result lose_one(struct sequencer *sequencer, const struct lost_attempt *lost, bool *lost_out, struct error *err)
{
    const bool is_last = lost->attempt >= lost->attempts;
    char id[UUID_TEXT_SIZE], reason[RUN_REASON_SIZE], why[128]; /* a sentence with a number */
    struct own_change own = {.change = {.run = lose, .invalidates = CHANGE_INVALIDATES_NOTHING},
                             .pair = {is_last ? ACTION_RUN_END : ACTION_RUN_LOSE, lost->run.where},
                             .run = lost->run.run,
                             .to = is_last ? RUN_STATE_FAILED : RUN_STATE_ORDERED,
                             .attempt = lost->attempt};

    uuid_format(&lost->run.run, id);
    (void)snprintf(own.pair.resource.detail, sizeof own.pair.resource.detail, "%s %lld", id, (long long)lost->attempt);
    say_who(lost, why, sizeof why);
    (void)snprintf(reason, sizeof reason, "attempt %lld, the last that the order allows, was lost: %s", (long long)lost->attempt,
                   why);
    own.why = why;
    if (is_last) own.reason = reason;
    return run_record_once(sequencer, &own.pair, &own.change, lost_out, err);
}

struct result run_lose_due(struct sequencer *sequencer, struct pg *pg, size_t *count_out, struct error *err)
{
    struct lost_attempt *lost = memory_zeroed(LOST_MAX, sizeof *lost);
    struct run_round round = {.changed = 0};
    size_t count = 0;

    if (lost == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for lost attempts");
    const struct result result = run_rows_lost(pg, lost, LOST_MAX, &count, err);
    for (size_t i = 0; i < count && result.ok; i++) {
        bool is_lost = false;
        const struct result one = lose_one(sequencer, &lost[i], &is_lost, err);
        run_round_note(&round, one, is_lost, err);
    }
    free(lost);
    return result.ok ? run_round_end(&round, count_out, err) : result;
}

/* ---- leases that nobody gets ---- */

struct unsigned_lease {
    struct own_change own;
    const struct run_holder *holder;
};

static struct result take_back(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct unsigned_lease *self = (const struct unsigned_lease *)(const void *)change; /* its first member's first member */

    permit_require(permit, self->own.pair.action, &self->own.pair.resource);
    TRY(run_attempt_end(pg, self->holder, "returned", err));
    TRY(run_attempts_end(pg, &self->own.run, "stopped", "another node got no lease", err));
    return move(pg, &self->own, err);
}

struct result run_lease_take_back(const struct permit *permit, struct sequencer *sequencer, const struct run_lease *lease,
                                  const char *why, struct error *err)
{
    const bool is_last = lease->claim.attempt >= lease->claim.attempts;
    char id[UUID_TEXT_SIZE], reason[RUN_REASON_SIZE];
    struct unsigned_lease self = {.own = {.change = {.run = take_back, .invalidates = CHANGE_INVALIDATES_NOTHING},
                                          .pair = {is_last ? ACTION_RUN_END : ACTION_RUN_LOSE, lease->where},
                                          .run = lease->claim.run,
                                          .to = is_last ? RUN_STATE_FAILED : RUN_STATE_ORDERED,
                                          .attempt = lease->claim.attempt},
                                  .holder = &lease->holder};

    permit_require(permit, ACTION_RUN_LEASE, &lease->where);
    uuid_format(&lease->claim.run, id);
    (void)snprintf(self.own.pair.resource.detail, sizeof self.own.pair.resource.detail, "%s %lld", id,
                   (long long)lease->claim.attempt);
    (void)snprintf(reason, sizeof reason, "attempt %lld, the last that the order allows, has no lease: %.160s",
                   (long long)lease->claim.attempt, why);
    if (is_last) self.own.reason = reason;
    return record(sequencer, &self.own, err);
}

/* ---- runs that must stop ---- */

static struct result end(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct own_change *own = (const struct own_change *)(const void *)change; /* its first member */

    permit_require(permit, own->pair.action, &own->pair.resource);
    return move(pg, own, err);
}

/* `of` has the action, the state and the reason. */
static struct result end_run(struct sequencer *sequencer, const struct own_change *of, const struct resource *where,
                             const struct uuid *run, struct error *err)
{
    struct own_change own = *of;

    own.change = (struct change){.run = end, .invalidates = CHANGE_INVALIDATES_NOTHING};
    own.pair.resource = *where;
    own.run = *run;
    uuid_format(run, own.pair.resource.detail);
    return record(sequencer, &own, err);
}

struct result run_stop(struct sequencer *sequencer, const struct resource *where, const struct uuid *run, const char *reason,
                       struct error *err)
{
    const struct own_change failed = {.pair.action = ACTION_RUN_END, .to = RUN_STATE_FAILED, .reason = reason};

    return end_run(sequencer, &failed, where, run, err);
}

struct result run_quarantine(struct sequencer *sequencer, const struct resource *where, const struct uuid *run,
                             const char *reason, struct error *err)
{
    const struct own_change quarantined = {.pair.action = ACTION_RUN_QUARANTINE, .to = RUN_STATE_QUARANTINED, .reason = reason};

    return end_run(sequencer, &quarantined, where, run, err);
}

struct result run_forbid(const struct permit *permit, struct sequencer *sequencer, const struct run_forbidden *forbidden,
                         struct error *err)
{
    assert(forbidden->action == ACTION_RUNNER_ASK || forbidden->action == ACTION_RUN_HEARTBEAT);
    if (forbidden->action == ACTION_RUNNER_ASK) permit_require_above(permit, ACTION_RUNNER_ASK, forbidden->where);
    else run_require_run(permit, ACTION_RUN_HEARTBEAT, forbidden->where, forbidden->run);
    return run_stop(sequencer, forbidden->where, forbidden->run, forbidden->reason, err);
}

/* ---- sessions ---- */

static struct result suspend(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct own_change *own = (const struct own_change *)(const void *)change; /* its first member */

    permit_require(permit, ACTION_RUNNER_SUSPEND, &own->pair.resource);
    return run_session_suspend(pg, own->key, own->reason, err);
}

struct result run_session_begin(const struct permit *permit, struct sequencer *sequencer, struct pg *pg,
                                const struct run_session *session, struct error *err)
{
    const struct resource *where = permit_resource(permit, ACTION_RUNNER_ASK);
    char runner[UUID_TEXT_SIZE], reason[RUN_REASON_SIZE];
    struct own_change own = {.change = {.run = suspend, .invalidates = CHANGE_INVALIDATES_NOTHING},
                             .pair = {ACTION_RUNNER_SUSPEND, *where},
                             .key = session->key,
                             .reason = reason};
    enum run_session_place place = RUN_SESSION_NEW;
    bool is_only = false;

    TRY(run_session_note(pg, session, &is_only, reason, err));
    if (is_only) return SUCCESS;
    TRY(run_session_find(lookup_of(pg), session, &place, err));
    if (place == RUN_SESSION_OVERTAKEN) return SUCCESS;
    if (reason[0] == '\0') {
        uuid_format(&session->runner, runner);
        (void)snprintf(own.pair.resource.detail, sizeof own.pair.resource.detail, "%s %s", runner, session->key);
        (void)snprintf(reason, sizeof reason, "two runners have this key, or its journal is an old copy: generation %lld",
                       (long long)session->generation);
        TRY(record(sequencer, &own, err));
    }
    return failure(err, ERROR_CONFLICT, "the runner's key is suspended: %.160s; enrol the runner anew", reason);
}

/* ---- the end of a run that finished ---- */

static struct result admit(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct run_admit *self = (const struct run_admit *)(const void *)change; /* its first member */
    const struct run_move step = {&self->run, &self->where.project, ACTION_RUN_ADMIT, RUN_STATE_SUCCEEDED, NULL};

    permit_require(permit, ACTION_RUN_ADMIT, &self->where);
    TRY(run_row_move(pg, &step, err));
    TRY(run_row_add_envelope(pg, &self->run, "admission", &self->admission, err));
    return self->store == NULL ? SUCCESS : self->store(permit, self, pg, err);
}

void run_admit_prepare(const struct resource *where, const struct uuid *run, const struct run_signed *admission,
                       struct run_admit *admit_out)
{
    *admit_out = (struct run_admit){.change = {.run = admit}, .where = *where, .run = *run, .admission = *admission};
}
