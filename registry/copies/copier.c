#include "registry/copies/copier.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/terminal_text.h"
#include "registry/copies/copies_priv.h"
#include "registry/metrics.h"
#include "registry/registry_priv.h"

enum {
    RENEW_MS = 5000,      /* of a claim of 30 s */
    PAUSE_MS = 10000,     /* between two looks */
    ROUND_MS = 60000,     /* then it is told how far the copies are, and the next round goes on at once */
    REVIEW_EVERY_S = 600, /* also without a change: exceptions and attestations end */
};

void copy_note(struct copy_round *round, enum copy_state state, const char *why)
{
    const bool is_worse = round->state == COPIES_NEW || round->state == COPIES_CURRENT || round->state == COPIES_COPYING;

    if (!is_worse) return;
    round->state = state;
    (void)snprintf(round->why, sizeof round->why, "%s", why);
    terminal_sanitize(round->why);
}

/* Who may read the project sees the sentence, so it names no place of the server: the log of the gateway does. */
void copy_note_failure(struct copy_round *round, const struct error *why)
{
    if (why->kind == ERROR_CORRUPT || why->kind == ERROR_NOT_FOUND || why->kind == ERROR_INVALID)
        copy_note(round, COPIES_DAMAGED, "what is stored of a blob does not verify, or is not there");
    else if (why->kind == ERROR_FULL || why->kind == ERROR_DENIED || why->kind == ERROR_LIMIT)
        copy_note(round, COPIES_FULL, "the project's quota, or a store, has no room for a copy");
    else if (why->kind == ERROR_CONFLICT)
        copy_note(round, COPIES_COPYING, "a blob has changed meanwhile: it is copied in the next round");
    else copy_note(round, COPIES_UNREACHABLE, "a store, sijil-keyd or the log does not answer; the log of a gateway says which");
}

static void renew(struct copy_round *round)
{
    struct error why = {0};

    round->renewed_ms = clock_monotonic_ms();
    round->renewed_epoch = decider_epoch(round->options->decider);
    if (copy_place_renew(round->pg, &round->claim, round->options->instance, &why).ok) return;
    round->is_lost = why.kind == ERROR_CONFLICT || pg_is_broken(round->pg);
}

bool copy_is_late(struct copy_round *round)
{
    round->is_cut = round->is_cut || clock_monotonic_ms() - round->began_ms >= ROUND_MS;
    return round->is_cut;
}

bool copy_go_on(struct copy_round *round)
{
    if (round->is_lost || round->options->is_stopping(round->options->context)) return false;
    if (clock_monotonic_ms() - round->renewed_ms >= RENEW_MS || decider_epoch(round->options->decider) != round->renewed_epoch)
        renew(round);
    return !round->is_lost;
}

static void count_waiting(struct copy_round *round, const struct copy_item *item)
{
    round->waiting_blobs++;
    round->waiting_bytes += item->row.content.length;
    if (round->waiting_since_ms == 0 || item->created_ms < round->waiting_since_ms) round->waiting_since_ms = item->created_ms;
}

/* What a policy keeps out does not wait. */
static struct result copy_item(struct copy_round *round, const struct copy_item *item, struct error *err)
{
    const uint64_t denied = round->denied_blobs;
    bool is_done = false;

    const struct result moved = copy_move(round, item, &is_done, err);
    if (is_done) metric_add(&registry_metrics_rows[METRIC_COPIED], 1);
    if (!is_done && round->denied_blobs == denied) count_waiting(round, item);
    return moved;
}

/* After a failure of a store the others wait for the next round; they are still counted. */
static void copy_page(struct copy_round *round, const struct copy_item *items, size_t count, struct error *problem)
{
    for (size_t i = 0; i < count; i++) {
        if (copy_is_late(round) || problem->kind != ERROR_NONE || !round->claim.is_home_reached || !copy_go_on(round))
            count_waiting(round, &items[i]);
        else if (!copy_item(round, &items[i], problem).ok) copy_note_failure(round, problem);
    }
}

static struct result copy_all(struct copy_round *round, struct error *err)
{
    struct copy_item items[COPY_PAGE_MAX];
    char last[DIGEST_TEXT_SIZE] = "";
    size_t count = COPY_PAGE_MAX;
    struct error problem = {0};

    while (count == COPY_PAGE_MAX && !round->is_lost) {
        TRY(copy_missing(round->pg, &round->claim.way, last, items, &count, err));
        if (count > 0) (void)snprintf(last, sizeof last, "%s", items[count - 1].digest);
        copy_page(round, items, count, &problem);
    }
    return problem.kind == ERROR_NONE ? SUCCESS : failure(err, problem.kind, "%s", problem.message);
}

static bool needs_review(const struct copy_round *round)
{
    const struct copy_claim *claim = &round->claim;

    return claim->is_withdrawn || claim->reviewed_age_s >= REVIEW_EVERY_S ||
           copies_version_has_more(decider_copies_version(round->options->decider), claim->reviewed_version);
}

static struct result withdraw_all(struct copy_round *round, struct error *err)
{
    TRY(copying_delete_all(round->pg, &round->claim.way, err));
    if (round->claim.was_home) return copy_home_end(round, err);
    return copy_place_remove(round->pg, &round->claim.way, err);
}

static struct result work(struct copy_round *round, struct error *err)
{
    bool may_leave = true;

    if (round->claim.was_home) TRY(copy_home_leave(round, &may_leave, err));
    if (!may_leave && round->claim.is_withdrawn) return SUCCESS;
    if (needs_review(round)) TRY(copy_review(round, err));
    if (!copy_go_on(round)) return SUCCESS;
    if (round->claim.is_withdrawn) return withdraw_all(round, err);
    if (!round->claim.is_home_reached)
        copy_note(round, COPIES_UNREACHABLE,
                  round->claim.way.is_move
                      ? "no gateway that serves both regions moves the project"
                      : "no gateway that serves both regions, or fetches from the home region, looks after them");
    TRY(copying_delete_unwanted(round->pg, &round->claim.way, err));
    TRY(copy_all(round, err));
    if (round->state == COPIES_NEW) round->state = round->waiting_blobs > 0 ? COPIES_COPYING : COPIES_CURRENT;
    return round->claim.way.is_move && round->state == COPIES_CURRENT ? copy_home_change(round, err) : SUCCESS;
}

static void list_served(const struct registry *registry, bool fetches, struct copy_served *served)
{
    const struct peers *elsewhere = &registry->elsewhere;

    served->count = served->reached_count = registry->region_count;
    for (size_t i = 0; i < served->count; i++) served->ids[i] = served->reached[i] = bytes_of_text(registry->regions[i].id);
    for (size_t i = 0; fetches && i < elsewhere->count; i++)
        if (elsewhere->each[i].url[0] != '\0')
            served->reached[served->reached_count++] = bytes_of_text(elsewhere->each[i].region);
}

/* A damaged manifest of an old home stays so until somebody pushes it again: each try has two events. */
static unsigned pause_of(const struct copy_round *round)
{
    if (round->is_cut) return 0;
    if (round->claim.was_home && round->state == COPIES_DAMAGED) return REVIEW_EVERY_S * 1000;
    return round->options->pause_ms == 0 ? PAUSE_MS : round->options->pause_ms;
}

struct result copier_work(struct registry *registry, struct pg *pg, const struct copier_options *options, bool *worked_out,
                          struct error *err)
{
    struct copy_round round = {.registry = registry, .pg = pg, .options = options};
    struct copy_served served;
    struct error problem = {0};

    list_served(registry, options->outgoing != NULL, &served);
    TRY(copy_place_claim(pg, &served, options->instance, &round.claim, worked_out, err));
    if (!*worked_out) return SUCCESS;
    round.began_ms = round.renewed_ms = clock_monotonic_ms();
    round.renewed_epoch = decider_epoch(options->decider);
    const struct result worked = work(&round, &problem);
    if (!worked.ok) copy_note_failure(&round, &problem);
    if (pg_is_broken(pg)) TRY(pg_reopen(pg, err));
    TRY(copy_place_release(&round, pause_of(&round), err));
    return worked.ok ? SUCCESS : failure(err, problem.kind, "%s", problem.message);
}

struct result copier_count(struct registry *registry, struct pg *pg, struct error *err)
{
    struct copy_count counts[REGISTRY_REGIONS_MAX * 2];
    size_t count = 0;

    TRY(copy_place_count(pg, counts, sizeof counts / sizeof counts[0], &count, err));
    for (size_t i = 0; i < registry->region_count; i++) {
        struct copy_count none = {.waiting_blobs = 0};
        const struct copy_count *found = &none;
        for (size_t k = 0; k < count; k++)
            if (strcmp(counts[k].region, registry->regions[i].id) == 0) found = &counts[k];
        atomic_store(&registry->regions[i].copies_waiting, found->waiting_blobs);
        atomic_store(&registry->regions[i].copies_waiting_bytes, found->waiting_bytes);
        atomic_store(&registry->regions[i].copies_denied, found->denied_blobs);
        atomic_store(&registry->regions[i].copies_lag_s, found->lag_s);
    }
    return SUCCESS;
}
