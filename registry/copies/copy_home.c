/* Another home: the change itself, once all content is there, and what follows in the old home. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "audit/job_permit.h"
#include "base/clock.h"
#include "crypto/aead.h"
#include "registry/copies/copies_priv.h"
#include "registry/recorder.h"
#include "registry/registry_priv.h"
#include "registry/seal_priv.h"

static struct resource project_at(const struct copy_way *way, const char *region, const char *detail)
{
    struct resource where = {.kind = RESOURCE_PROJECT, .organisation = way->organisation, .project = way->project};

    (void)snprintf(where.name, sizeof where.name, "%s", way->name);
    (void)snprintf(where.region, sizeof where.region, "%s", region);
    (void)snprintf(where.detail, sizeof where.detail, "%s", detail);
    return where;
}

/* ---- The change ---- */

struct home_change {
    struct change change;
    const struct copy_way *way;
    struct resource where;
    struct key_record key;
};

static struct result run_home(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct home_change *home = (const struct home_change *)(const void *)change; /* its first member */

    permit_require(permit, ACTION_PROJECT_MOVED, &home->where);
    permit_require_detail(permit, ACTION_PROJECT_MOVED, home->way->from);
    return copy_home_set(pg, home->way, &home->key, err);
}

/* It is stale if a right or a policy has changed since the decision. The next round finds what has come meanwhile. */
static struct result record_home(struct copy_round *round, struct home_change *home, struct decision *decision, struct error *err)
{
    struct record record = {.decision = decision, .change = &home->change};

    sequencer_submit_and_wait(round->registry->sequencer, &record);
    const enum record_status status = record.status;
    const struct error why = record.error;
    record_done(&record);
    if (status == RECORD_DONE) return SUCCESS;
    if (status == RECORD_STALE || (status == RECORD_REFUSED && why.kind == ERROR_CONFLICT)) {
        copy_note(round, COPIES_COPYING, "rights or content have changed meanwhile: the next round goes on");
        return SUCCESS;
    }
    return failure(err, ERROR_UNAVAILABLE, "a new home could not be recorded: %.180s", why.message);
}

static struct result decide_home(struct copy_round *round, uint64_t version, struct error *err)
{
    const struct copy_way *way = &round->claim.way;
    struct home_change home = {
        .change = {.run = run_home, .raises_epoch = true}, .way = way, .where = project_at(way, way->to, way->from)};
    const struct copy_question question = {.where = &home.where,
                                           .digest = way->from,
                                           .from = way->from,
                                           .to = way->to,
                                           .action = ACTION_PROJECT_MOVED,
                                           .now_ms = clock_wall_ms()};
    OWNED(decision) *decision = NULL;

    TRY(project_key_new(round->registry, &home.where, &home.key, err));
    TRY(decider_decide_copy(round->options->decider, &question, &decision, err));
    if (decision_verdict(decision) != VERDICT_ALLOW) {
        const bool is_of_system = strncmp(decision_denial(decision, 0)->rule, "SYS-", 4) == 0;
        copy_note(round, is_of_system ? COPIES_CLOSED : COPIES_DENIED, decision_denial(decision, 0)->rule);
        return SUCCESS;
    }
    if (decider_copies_version(round->options->decider) != version) {
        copy_note(round, COPIES_COPYING, "policies have changed meanwhile: all is decided again");
        return SUCCESS;
    }
    return record_home(round, &home, GIVE(decision), err);
}

static void note_pending(struct copy_round *round, const struct home_pending *pending)
{
    char why[160];

    (void)snprintf(why, sizeof why,
                   "the home stays until these are no more: blobs that have no sound copy there %" PRIu64 ", mounts %" PRIu64
                   ", runs that go on %" PRIu64,
                   pending->blobs, pending->links, pending->runs);
    copy_note(round, COPIES_COPYING, why);
}

/* All blobs are decided at one version of labels and policies, and the change is decided at the same one. It looks for what is pending once more. */
struct result copy_home_change(struct copy_round *round, struct error *err)
{
    const uint64_t version = decider_copies_version(round->options->decider);
    struct home_pending pending;

    TRY(copy_home_pending(round->pg, &round->claim.way, &pending, err));
    if (pending.blobs > 0 || pending.links > 0 || pending.runs > 0) {
        note_pending(round, &pending);
        return SUCCESS;
    }
    TRY(copy_review(round, err));
    return round->is_reviewed && copy_go_on(round) ? decide_home(round, version, err) : SUCCESS;
}

/* ---- Manifests are sealed again ---- */

struct reseal {
    struct change change;
    const struct home_sealed *item;
    struct resource where;
    struct key_record key; /* of the home */
    struct buffer sealed;
};

static struct result run_reseal(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct reseal *reseal = (const struct reseal *)(const void *)change; /* its first member */

    permit_require(permit, ACTION_MOVE_WRITE, &reseal->where);
    permit_require_detail(permit, ACTION_MOVE_WRITE, reseal->item->digest);
    return copy_home_reseal(pg, reseal->item, &reseal->key.id, buffer_bytes(&reseal->sealed), err);
}

static struct result seal_again(struct copy_round *round, struct reseal *reseal, struct buffer *plain, struct error *err)
{
    const struct home_sealed *item = reseal->item;
    const struct copy_way *way = &round->claim.way;
    const struct uuid *run = item->table == SEALED_CHECKPOINTS ? &item->owner : NULL;
    const struct resource from = copy_where(way, &item->link, way->to, item->digest); /* way.to: the old home */
    const struct sealing old = {.where = &from, .digest = item->digest, .key = &item->key, .run = run};
    const struct sealing fresh = {.where = &reseal->where, .digest = item->digest, .key = &reseal->key, .run = run};

    TRY(project_key_current(round->pg, &way->project, &reseal->key, err));
    TRY(manifest_unseal(round->registry, &old, buffer_bytes(&item->sealed), plain, err));
    return manifest_seal(round->registry, &fresh, buffer_bytes(plain), &reseal->sealed, err);
}

static struct result record_reseal(struct copy_round *round, struct reseal *reseal, struct permit *permit, struct error *err)
{
    struct buffer OWNED_BUFFER plain = BUFFER(MANIFEST_SIZE_MAX);
    struct error why = {0};
    struct record record = {.under = permit, .outcome = OUTCOME_COMPLETED, .change = &reseal->change};
    const bool is_sealed = seal_again(round, reseal, &plain, &why).ok, is_damaged = why.kind == ERROR_CORRUPT;

    if (is_sealed) (void)snprintf(record.note, sizeof record.note, "a manifest of %zu bytes", plain.length);
    else {
        record = (struct record){.under = permit, .outcome = OUTCOME_FAILED};
        (void)snprintf(record.note, sizeof record.note, "%s", is_damaged ? "stored bytes do not verify" : "not moved");
        copy_note_failure(round, &why);
    }
    sequencer_submit_and_wait(round->registry->sequencer, &record);
    const enum record_status status = record.status;
    const struct error said = record.error;
    record_done(&record);
    if (status == RECORD_DONE && !is_sealed && !is_damaged)
        return failure(err, why.kind, "%s", why.message); /* so would the others */
    if (status == RECORD_DONE) return SUCCESS;
    if (status == RECORD_STALE || (status == RECORD_REFUSED && said.kind == ERROR_CONFLICT)) {
        copy_note(round, COPIES_COPYING, "a right or a manifest has changed meanwhile: the next round goes on");
        return SUCCESS;
    }
    return failure(err, ERROR_UNAVAILABLE, "a manifest could not be moved: %.180s", said.message);
}

/* In memory: a denial that lasts is not an event of each round. */
static struct result may_move(struct copy_round *round, const struct copy_question *question, bool *may_out, struct error *err)
{
    OWNED(decision) *decision = NULL;
    char why[128];

    TRY(decider_decide_copy(round->options->decider, question, &decision, err));
    *may_out = decision_verdict(decision) == VERDICT_ALLOW;
    if (*may_out) return SUCCESS;
    (void)snprintf(why, sizeof why, "manifests may not move: %s", decision_denial(decision, 0)->rule);
    copy_note(round, COPIES_HELD, why);
    return SUCCESS;
}

/* Decided and recorded before it is opened. */
static struct result move_manifest(struct copy_round *round, const struct home_sealed *item, bool *moved_out, struct error *err)
{
    const struct copy_way *left = &round->claim.way;
    struct copy_way way = *left;

    (void)snprintf(way.from, sizeof way.from, "%s", left->to);
    (void)snprintf(way.to, sizeof way.to, "%s", left->from);
    way.is_move = true;
    struct reseal reseal = {
        .change = {.run = run_reseal, .invalidates = CHANGE_INVALIDATES_REPOSITORY, .repository = item->link.repository},
        .item = item,
        .where = copy_where(&way, &item->link, way.to, item->digest),
        .sealed = BUFFER(MANIFEST_SIZE_MAX + BOX_OVERHEAD)};
    const struct copy_question question = copy_question_of(&way, &reseal.where);
    OWNED(permit) *permit = NULL;
    uint64_t epoch = 0;
    bool may = false;

    *moved_out = false;
    TRY(may_move(round, &question, &may, err));
    if (may) TRY(copy_decide(round, &question, NULL, &permit, &epoch, err));
    if (permit == NULL) return SUCCESS;
    const struct result recorded = record_reseal(round, &reseal, permit, err);
    buffer_done(&reseal.sealed);
    *moved_out = recorded.ok;
    return recorded;
}

/* Those that may not move are counted: they keep the old home. */
static struct result move_table(struct copy_round *round, enum sealed_table table, uint64_t *stay, struct error *err)
{
    struct home_sealed at = {.table = table};
    bool is_found = true;

    while (copy_go_on(round)) {
        struct home_sealed item = {.table = table};
        bool is_moved = false;
        TRY(copy_home_sealed_next(round->pg, &round->claim.way, &at, &item, &is_found, err));
        if (!is_found) return SUCCESS;
        const struct result moved = move_manifest(round, &item, &is_moved, err);
        at = item;
        buffer_done(&at.sealed);
        if (!moved.ok) return moved;
        *stay += !is_moved;
    }
    *stay += is_found; /* the round ends before the table */
    return SUCCESS;
}

/* ---- What keeps an old home ---- */

/* Whether the policies would lack sites or anchors without it. */
static struct result find_demand(struct copy_round *round, bool *is_demanded_out, struct error *err)
{
    struct placed_region regions[COPY_REGIONS_MAX + 1];
    const struct uuid *project = &round->claim.way.project;
    struct placed_query query = {.regions = regions};
    char name[RESOURCE_NAME_MAX + 1] = "";

    *is_demanded_out = false;
    TRY(copy_home_regions(round->pg, project, regions, &query.count, err));
    while (!*is_demanded_out && copy_go_on(round)) {
        struct placed_copies copies;
        TRY(copy_home_repository(round->pg, project, name, name, err));
        if (name[0] == '\0') return SUCCESS;
        query.name = name;
        TRY(decider_placed(round->options->decider, &query, &copies, err));
        *is_demanded_out = copies.sites < copies.min_sites || copies.met < copies.anchors;
    }
    return SUCCESS;
}

static struct result find_keeper(struct copy_round *round, struct error *err)
{
    bool is_demanded = false;
    uint64_t holds = 0;

    TRY(copy_home_holds(round->pg, &round->claim.way.project, &holds, err));
    if (holds > 0) copy_note(round, COPIES_HELD, "a legal hold is in force over the project, or a part of it");
    if (holds == 0) TRY(find_demand(round, &is_demanded, err));
    if (is_demanded) copy_note(round, COPIES_HELD, "policies demand sites or an anchor copy that there are not without it");
    return SUCCESS;
}

struct result copy_home_leave(struct copy_round *round, bool *may_leave_out, struct error *err)
{
    uint64_t stay = 0;

    *may_leave_out = false;
    if (!round->claim.is_home_served) {
        copy_note(round, COPIES_HELD, "no gateway that serves both regions moves the manifests");
        return SUCCESS;
    }
    for (enum sealed_table table = 0; table < SEALED_TABLES; table++) TRY(move_table(round, table, &stay, err));
    if (stay > 0)
        copy_note(round, COPIES_HELD, "manifests have not moved yet, or a policy or a region's state does not let them in");
    if (stay == 0 && round->claim.is_withdrawn) TRY(find_keeper(round, err));
    *may_leave_out = round->state == COPIES_NEW && copy_go_on(round);
    return SUCCESS;
}

/* ---- The end of an old home ---- */

struct leaving {
    struct change change;
    const struct copy_way *way;
    struct resource where;
};

static struct result run_leaving(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct leaving *leaving = (const struct leaving *)(const void *)change; /* its first member */

    permit_require(permit, ACTION_PROJECT_LEFT, &leaving->where);
    return copy_home_forget(pg, leaving->way, err);
}

/* A change that fails is an event, too. */
struct result copy_home_end(struct copy_round *round, struct error *err)
{
    bool is_empty = false;

    const struct copy_way *way = &round->claim.way;
    const struct action_pair pair = {.action = ACTION_PROJECT_LEFT, .resource = project_at(way, way->to, way->from)};
    struct leaving leaving = {
        .change = {.run = run_leaving, .invalidates = CHANGE_INVALIDATES_NOTHING}, .way = way, .where = pair.resource};
    struct record record;

    TRY(copy_home_is_empty(round->pg, way, &is_empty, err));
    if (!is_empty) {
        copy_note(round, COPIES_HELD,
                  "something needs the old home yet: a last sound copy, or manifests of a deleted repository");
        return SUCCESS;
    }
    TRY(record_prepare_for_job(&pair, &leaving.change, &record, err));
    sequencer_submit_and_wait(round->registry->sequencer, &record);
    const enum record_status status = record.status;
    const struct error why = record.error;
    record_done(&record);
    if (status == RECORD_DONE || (status == RECORD_REFUSED && why.kind == ERROR_CONFLICT)) return SUCCESS;
    return failure(err, ERROR_UNAVAILABLE, "the end of an old home could not be recorded: %.180s", why.message);
}
