/* Decides copies again, and withdraws what may not stay. A region's state withdraws nothing: a quarantine or a drain ends, and a destroyed key does not come back. */
#include <stdio.h>

#include "audit/job_permit.h"
#include "registry/copies/copies_priv.h"
#include "registry/metrics.h"
#include "registry/recorder.h"
#include "registry/registry_priv.h"

/* What is left in an old home came there by no copy, so it is asked as what a move brings. */
static struct copy_way asked_way(const struct copy_round *round)
{
    struct copy_way way = round->claim.way;

    way.is_move = way.is_move || (round->claim.was_home && round->claim.is_withdrawn);
    return way;
}

/* ---- Withdrawing ---- */

struct withdrawal {
    struct change change;
    struct resource where;
    const struct uuid *copy;
    bool is_left; /* of an old home */
};

/* One may have come since the round has looked, also between the look before and the change. */
static struct result check_holds(const struct withdrawal *withdrawal, struct pg *pg, struct error *err)
{
    uint64_t holds = 0;

    if (withdrawal->is_left) TRY(copy_home_holds(pg, &withdrawal->where.project, &holds, err));
    return holds == 0 ? SUCCESS : failure(err, ERROR_CONFLICT, "a legal hold keeps the old home");
}

static struct result run_withdrawal(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct withdrawal *withdrawal = (const struct withdrawal *)(const void *)change; /* its first member */

    permit_require(permit, ACTION_COPY_WITHDRAW, &withdrawal->where);
    permit_require_detail(permit, ACTION_COPY_WITHDRAW, withdrawal->where.detail);
    TRY(check_holds(withdrawal, pg, err));
    return copy_row_withdraw(pg, withdrawal->copy, err);
}

static struct result withdraw(struct copy_round *round, const struct copy_item *item, const char *why, struct error *err)
{
    const struct copy_way *way = &round->claim.way;
    struct action_pair pair = {
        .action = ACTION_COPY_WITHDRAW,
        .resource = {.kind = RESOURCE_PROJECT, .organisation = way->organisation, .project = way->project}};
    struct record record;

    (void)snprintf(pair.resource.name, sizeof pair.resource.name, "%s", way->name);
    (void)snprintf(pair.resource.region, sizeof pair.resource.region, "%s", way->to);
    (void)snprintf(pair.resource.detail, sizeof pair.resource.detail, "%s", item->digest);
    struct withdrawal withdrawal = {.change = {.run = run_withdrawal, .invalidates = CHANGE_INVALIDATES_NOTHING},
                                    .where = pair.resource,
                                    .copy = &item->row.key.id,
                                    .is_left = round->claim.was_home && round->claim.is_withdrawn};
    const struct result free_of_holds = check_holds(&withdrawal, round->pg, err);
    if (!free_of_holds.ok && err->kind != ERROR_CONFLICT) return free_of_holds;
    if (!free_of_holds.ok) {
        copy_note(round, COPIES_HELD, "a legal hold has come");
        return SUCCESS;
    }
    TRY(record_prepare_for_job(&pair, &withdrawal.change, &record, err));
    (void)snprintf(record.note, sizeof record.note, "%s", why);
    sequencer_submit_and_wait(round->registry->sequencer, &record);
    const enum record_status status = record.status;
    const struct error error = record.error;
    record_done(&record);
    if (status == RECORD_REFUSED && error.kind == ERROR_CONFLICT) return SUCCESS; /* a collection, or a hold, was first */
    if (status != RECORD_DONE)
        return failure(err, ERROR_UNAVAILABLE, "a withdrawal could not be recorded: %.180s", error.message);
    metric_add(&registry_metrics_rows[METRIC_COPIES_WITHDRAWN], 1);
    return SUCCESS;
}

/* The denial is recorded with its facts; then the copy goes. */
static struct result withdraw_denied(struct copy_round *round, const struct copy_item *item, const struct copy_question *question,
                                     const char *rule, struct error *err)
{
    OWNED(permit) *permit = NULL;
    uint64_t epoch = 0;

    TRY(copy_decide(round, question, NULL, &permit, &epoch, err));
    if (permit != NULL) return SUCCESS; /* allowed again: the next review sees it */
    return withdraw(round, item, rule, err);
}

/* ---- One more repository has the blob ---- */

struct linking {
    struct change change;
    const struct copy_round *round;
    const struct copy_item *item;
    const struct copy_link *link;
};

static struct result run_linking(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct linking *linking = (const struct linking *)(const void *)change; /* its first member */
    const struct copy_way way = asked_way(linking->round);
    const struct resource where = copy_where(&way, linking->link, way.to, linking->item->digest);

    permit_require(permit, copy_action(&way), &where);
    return copy_row_link(pg, &linking->item->row.key.id, &way, &linking->link->repository, linking->item->digest, err);
}

static struct result add_link(struct copy_round *round, const struct copy_item *item, const struct copy_link *link,
                              const struct copy_question *question, struct error *err)
{
    struct linking linking = {
        .change = {.run = run_linking, .invalidates = CHANGE_INVALIDATES_NOTHING}, .round = round, .item = item, .link = link};
    OWNED(permit) *permit = NULL;
    struct error why = {0};
    uint64_t epoch = 0;

    if (!copy_decide(round, question, &linking.change, &permit, &epoch, &why).ok && why.kind != ERROR_CONFLICT)
        return failure(err, why.kind, "%s", why.message);
    if (permit == NULL) return SUCCESS;
    struct record record = {.under = permit, .outcome = OUTCOME_COMPLETED, .note = "one more repository has it"};
    sequencer_submit_and_wait(round->registry->sequencer, &record);
    record_done(&record);
    return SUCCESS;
}

/* ---- One copy ---- */

static struct result review_link(struct copy_round *round, const struct copy_item *item, const struct copy_link *link,
                                 bool *stays_out, struct error *err)
{
    const struct copy_way way = asked_way(round);
    const struct resource where = copy_where(&way, link, way.to, item->digest);
    const struct copy_question question = copy_question_of(&way, &where);
    struct store_answer answer;

    TRY(decider_copy_stays(round->options->decider, &question, &answer, err));
    *stays_out = answer.is_allowed;
    if (!answer.is_allowed) return withdraw_denied(round, item, &question, answer.rule, err);
    return link->is_copied ? SUCCESS : add_link(round, item, link, &question, err);
}

/* It makes room for a sound one, if that can be made now. */
static struct result review_damaged(struct copy_round *round, const struct copy_item *item, const struct copy_link *link,
                                    struct error *err)
{
    const struct copy_way *way = &round->claim.way;
    const struct resource where = copy_where(way, link, way->to, item->digest);
    const struct copy_question question = copy_question_of(way, &where);
    OWNED(decision) *decision = NULL;

    const bool is_fetched = round->claim.is_home_reached && !round->claim.is_home_served;

    if (!is_fetched && !registry_region_is_readable(round->registry, way->from)) return SUCCESS;
    TRY(decider_decide_copy(round->options->decider, &question, &decision, err));
    if (decision_verdict(decision) != VERDICT_ALLOW) return SUCCESS;
    return withdraw(round, item, "its bytes do not verify: it is made anew", err);
}

/* A person does not want the copy any more, but nothing else is left of the content. It is decided as any other: a policy still has it withdrawn. */
static bool is_kept(struct copy_round *round, const struct copy_item *item)
{
    if (!item->is_last_sound || round->claim.is_deleted) return false;
    copy_note(round, COPIES_DAMAGED,
              "what is at home is damaged, and this is its last sound copy: it goes when the content at home is repaired");
    return true;
}

static struct result review_copy(struct copy_round *round, const struct copy_item *item, struct error *err)
{
    struct copy_links links;
    bool stays = true;

    if (round->claim.is_withdrawn && !is_kept(round, item))
        return withdraw(round, item, round->claim.was_home ? "the home is another region" : "no copies are wanted there", err);
    TRY(copy_links_find(round->pg, &round->claim.way, item->digest, &links, err));
    if (links.count > COPY_LINKS_MAX) return withdraw(round, item, "it is in too many repositories", err);
    for (size_t i = 0; i < links.count && stays; i++) TRY(review_link(round, item, &links.links[i], &stays, err));
    if (!stays || !item->is_damaged || links.count == 0) return SUCCESS;
    return review_damaged(round, item, &links.links[0], err);
}

/* The version is taken first: what changes meanwhile makes another review. */
struct result copy_review(struct copy_round *round, struct error *err)
{
    const uint64_t version = decider_copies_version(round->options->decider);
    struct copy_item items[COPY_PAGE_MAX];
    char last[DIGEST_TEXT_SIZE] = "";
    size_t count = COPY_PAGE_MAX;

    while (count == COPY_PAGE_MAX) {
        TRY(copy_present(round->pg, &round->claim.way, last, items, &count, err));
        for (size_t i = 0; i < count; i++) {
            if (!copy_go_on(round)) return SUCCESS;
            TRY(review_copy(round, &items[i], err));
            (void)snprintf(last, sizeof last, "%s", items[i].digest);
        }
    }
    round->is_reviewed = true;
    round->review_version = version;
    return SUCCESS;
}
