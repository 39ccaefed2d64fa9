/* Looks through all repositories whether what they have may rest at its home. The decision about a place is an event with its facts; what follows is another one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/job_permit.h"
#include "base/clock.h"
#include "registry/copies/placement_jobs.h"
#include "registry/copies/placement_priv.h"
#include "registry/metrics.h"
#include "registry/registry_priv.h"

#define TRIES_MAX 5

struct placing {
    struct registry *registry;
    struct pg *pg;
    const struct copier_options *options;
    uint64_t set_epoch;
};

struct place_change {
    struct change change;
    enum action action;
    const struct resource *where;
    const struct place_answer *answer;
    uint64_t set_epoch;
    bool has_nothing; /* there */
};

static struct result run_place(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct place_change *place = (const struct place_change *)(const void *)change; /* its first member */

    permit_require(permit, place->action, place->where);
    if (place->action == ACTION_PLACEMENT_FREE) return misplaced_delete(pg, place->where, err);
    return misplaced_insert(pg, place->where, place->answer, place->set_epoch, err);
}

static struct result check_recorded(const struct record *record, struct error *err)
{
    if (record->status == RECORD_DONE) return SUCCESS;
    return failure(err, ERROR_UNAVAILABLE, "a look at a place could not be recorded: %.180s", record->error.message);
}

/* With the facts. It is made again if a right or a policy has changed meanwhile. */
static struct result record_check(const struct placing *placing, const struct resource *where, struct error *err)
{
    struct decider *decider = placing->options->decider;

    for (int tries = 0; tries < TRIES_MAX; tries++) {
        struct record record = {.change = NULL};
        TRY(decider_decide_place(decider, where, clock_wall_ms(), &record.decision, err));
        sequencer_submit_and_wait(placing->registry->sequencer, &record);
        const bool is_stale = record.status == RECORD_STALE;
        const uint64_t outdated = record.outdated_epoch;
        const struct result recorded = is_stale ? SUCCESS : check_recorded(&record, err);
        record_done(&record);
        if (!is_stale) return recorded;
        TRY(decider_await_newer(decider, outdated, err));
    }
    return failure(err, ERROR_UNAVAILABLE, "rights and policies change too fast: a look at a place waits");
}

/* A set that came since the look began may say otherwise. What comes later still is found by the next look, which begins at once. */
static struct result is_still_so(const struct placing *placing, const struct place_change *place, bool *is_so_out,
                                 struct error *err)
{
    struct place_answer now = {.operation = ""};

    *is_so_out = true;
    if (place->has_nothing) return SUCCESS;
    TRY(decider_place(placing->options->decider, place->where->name, clock_wall_ms(), &now, err));
    *is_so_out = now.is_broken == (place->action == ACTION_PLACEMENT_QUARANTINE);
    return SUCCESS;
}

static struct result record_change(const struct placing *placing, struct place_change *place, const char *note, struct error *err)
{
    const struct action_pair pair = {.action = place->action, .resource = *place->where};
    struct record record;
    bool is_so = false;

    TRY(record_check(placing, place->where, err));
    TRY(is_still_so(placing, place, &is_so, err));
    if (!is_so) return SUCCESS;
    place->change = (struct change){.run = run_place, .raises_epoch = true, .invalidates = CHANGE_INVALIDATES_NOTHING};
    TRY(record_prepare_for_job(&pair, &place->change, &record, err));
    (void)snprintf(record.note, sizeof record.note, "%s", note);
    sequencer_submit_and_wait(placing->registry->sequencer, &record);
    const bool is_late = record.status == RECORD_REFUSED && record.error.kind == ERROR_CONFLICT;
    const struct result recorded = is_late ? SUCCESS : check_recorded(&record, err);
    record_done(&record);
    return recorded;
}

static struct result quarantine(const struct placing *placing, const struct placed_repository *repository,
                                const struct place_answer *answer, struct error *err)
{
    struct place_change place = {
        .action = ACTION_PLACEMENT_QUARANTINE, .where = &repository->where, .answer = answer, .set_epoch = placing->set_epoch};
    char note[200];

    (void)snprintf(note, sizeof note, "%s of %s denies %s", answer->rule, answer->policy, answer->operation);
    return record_change(placing, &place, note, err);
}

static struct result set_free(const struct placing *placing, const struct placed_repository *repository, struct error *err)
{
    struct place_change place = {
        .action = ACTION_PLACEMENT_FREE, .where = &repository->where, .has_nothing = !repository->has_content};

    return record_change(placing, &place, repository->has_content ? "its place allows it" : "nothing is there", err);
}

/* What can't be evaluated is refused by itself, and stays as it was found before. */
static struct result look_at(const struct placing *placing, const struct placed_repository *repository, struct error *err)
{
    struct place_answer answer = {.operation = ""};
    struct error why = {0};

    if (repository->has_content &&
        !decider_place(placing->options->decider, repository->where.name, clock_wall_ms(), &answer, &why).ok)
        return why.kind == ERROR_LIMIT ? SUCCESS : failure(err, why.kind, "%s", why.message);
    if (!answer.is_broken) return repository->is_misplaced ? set_free(placing, repository, err) : SUCCESS;
    const bool is_known = repository->is_misplaced && strcmp(repository->region, repository->where.region) == 0 &&
                          strcmp(repository->operation, answer.operation) == 0 && strcmp(repository->rule, answer.rule) == 0;
    return is_known ? SUCCESS : quarantine(placing, repository, &answer, err);
}

static bool is_stopping(const struct placing *placing)
{
    return placing->options->is_stopping(placing->options->context);
}

/* What is left of a page that takes long is looked at in the next one, so that the claim does not end meanwhile. */
static struct result look_through(const struct placing *placing, const struct placed_repository *page, size_t count,
                                  size_t *done_out, struct error *err)
{
    const int64_t until_ms = clock_monotonic_ms() + 10000;

    *done_out = 0;
    while (*done_out < count && clock_monotonic_ms() < until_ms && !is_stopping(placing)) {
        TRY(look_at(placing, &page[*done_out], err));
        (*done_out)++;
    }
    return SUCCESS;
}

static struct result take_page(const struct placing *placing, const struct uuid *after, struct error *err)
{
    struct placed_repository *page = NULL;
    size_t count = 0, done = 0;

    TRY(placement_page(placing->pg, after, &page, &count, err));
    const struct result looked = look_through(placing, page, count, &done, err);
    const struct uuid last = done > 0 ? page[done - 1].where.repository : *after;
    free(page);
    if (!looked.ok) return looked;
    metric_add(&registry_metrics_rows[METRIC_PLACES_LOOKED], (int64_t)done);
    const bool is_over = done == count && count < PLACEMENT_PAGE_MAX;
    return placement_save(placing->pg, placing->options->instance, is_over ? NULL : &last, err);
}

struct result placement_work(struct registry *registry, struct pg *pg, const struct copier_options *options, bool *worked_out,
                             struct error *err)
{
    const struct place_version version = decider_place_version(options->decider);
    const struct placing placing = {registry, pg, options, version.version >> PLACE_SET_SHIFT};
    struct uuid after;
    struct error why = {0};

    *worked_out = false;
    if (placing.set_epoch == 0) return SUCCESS; /* without a set nothing is allowed */
    TRY(placement_claim(pg, options->instance, &version, &after, worked_out, err));
    if (!*worked_out || take_page(&placing, &after, &why).ok || why.kind == ERROR_CONFLICT) return SUCCESS;
    return failure(err, why.kind, "%s", why.message);
}

struct result placement_count(struct pg *pg, struct error *err)
{
    uint64_t count = 0, version = 0;

    TRY(misplaced_count(pg, &count, &version, err));
    metric_set(&registry_metrics_rows[METRIC_MISPLACED], (int64_t)count);
    metric_set(&registry_metrics_rows[METRIC_PLACES_SET], (int64_t)(version >> PLACE_SET_SHIFT));
    return SUCCESS;
}
