/* What a move of a project's home would do now: each blob is decided as the mover does, in memory, and nothing is recorded. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "registry/copies/copies_priv.h"

struct planning {
    struct move_plan *plan;
    struct decider *decider;
    struct copy_way way;
    char digest[DIGEST_TEXT_SIZE]; /* of the links that are looked at */
    bool is_denied;
    size_t links; /* seen */
};

static struct result ask(struct planning *planning, const struct resource *where, const char *digest, enum action action,
                         struct error *err)
{
    const struct copy_question question = {
        .where = where, .digest = digest, .to = planning->way.to, .action = action, .now_ms = clock_wall_ms()};
    struct move_plan *plan = planning->plan;
    struct store_answer answer;

    TRY(decider_copy_stays(planning->decider, &question, &answer, err));
    if (answer.is_allowed) return SUCCESS;
    if (action == ACTION_MOVE_WRITE) plan->denied_blobs += !planning->is_denied;
    planning->is_denied = true;
    if (plan->denial_count == MOVE_DENIALS_MAX) return SUCCESS;
    struct move_denial *denial = &plan->denials[plan->denial_count++];
    (void)snprintf(denial->digest, sizeof denial->digest, "%s", action == ACTION_MOVE_WRITE ? digest : "");
    (void)snprintf(denial->name, sizeof denial->name, "%s", where->name);
    (void)snprintf(denial->rule, sizeof denial->rule, "%s", answer.rule);
    return SUCCESS;
}

static struct result plan_link(struct planning *planning, const struct home_link *link, struct error *err)
{
    struct move_plan *plan = planning->plan;

    if (strcmp(planning->digest, link->digest) != 0) {
        (void)snprintf(planning->digest, sizeof planning->digest, "%s", link->digest);
        planning->is_denied = false;
        plan->blobs++;
        plan->bytes += link->bytes;
        plan->damaged_blobs += link->is_damaged;
        plan->crowded_blobs += link->links > COPY_LINKS_MAX;
    }
    if (link->links > COPY_LINKS_MAX) return SUCCESS; /* the mover decides it neither */
    const struct copy_link known = {.repository = link->repository};
    struct resource where = copy_where(&planning->way, &known, planning->way.to, link->digest);
    (void)snprintf(where.name, sizeof where.name, "%s", link->name);
    return ask(planning, &where, link->digest, ACTION_MOVE_WRITE, err);
}

static struct result plan_blobs(struct planning *planning, struct pg *pg, struct home_link *page, struct error *err)
{
    struct home_link last = {.bytes = 0};
    size_t count = HOME_PAGE_MAX;

    while (count == HOME_PAGE_MAX && !planning->plan->is_cut) {
        TRY(copy_home_links(pg, &planning->way, &last, page, &count, err));
        for (size_t i = 0; i < count && !planning->plan->is_cut; i++) {
            planning->plan->is_cut = planning->links++ == MOVE_LINKS_MAX ||
                                     (planning->plan->blobs == MOVE_BLOBS_MAX && strcmp(planning->digest, page[i].digest) != 0);
            if (!planning->plan->is_cut) TRY(plan_link(planning, &page[i], err));
        }
        if (count > 0) last = page[count - 1];
    }
    return SUCCESS;
}

static struct result plan_all(struct planning *planning, struct pg *pg, const struct resource *where, struct error *err)
{
    struct move_plan *plan = planning->plan;
    struct home_link *page = memory_zeroed(HOME_PAGE_MAX, sizeof *page);

    if (page == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a plan");
    (void)snprintf(planning->way.from, sizeof planning->way.from, "%s", plan->from);
    struct result result = ask(planning, where, plan->from, ACTION_PROJECT_MOVED, err);
    if (result.ok) result = plan_blobs(planning, pg, page, err);
    free(page);
    return result;
}

struct result move_plan_make(const struct permit *permit, struct decider *decider, struct pg *pg, const char *to,
                             struct move_plan **plan_out, struct error *err)
{
    const struct resource *where = permit_resource(permit, ACTION_PROJECT_READ);
    struct planning planning = {.decider = decider,
                                .plan = memory_zeroed(1, sizeof *planning.plan),
                                .way = {.organisation = where->organisation, .project = where->project, .is_move = true}};

    if (planning.plan == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a plan");
    (void)snprintf(planning.way.to, sizeof planning.way.to, "%s", to);
    (void)snprintf(planning.plan->to, sizeof planning.plan->to, "%s", to);
    struct result result = copy_home_count(pg, &where->project, planning.plan, err);
    if (result.ok && strcmp(planning.plan->from, to) == 0)
        result = failure(err, ERROR_CONFLICT, "%.63s is the project's home region", to);
    if (result.ok) result = plan_all(&planning, pg, where, err);
    if (result.ok) *plan_out = planning.plan;
    else free(planning.plan);
    return result;
}
