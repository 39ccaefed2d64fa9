/* Moves one blob: it is decided for each repository that has it, recorded, read at one end and written at the other, and committed under the epoch. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "audit/job_permit.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "policy/set.h"
#include "registry/copies/copies_priv.h"
#include "registry/copies/copy_fetch.h"
#include "registry/copies/copy_source.h"
#include "registry/copies/copy_target.h"
#include "registry/metrics.h"
#include "registry/registry_priv.h"

#define LEASE_BYTES ((uint64_t)64 << 20)
#define LEASE_MS    10000
#define TRIES_MAX   5 /* of a decision, while rights change */

/* A blob on its way. */
struct moving {
    struct copy_round *round;
    const struct copy_item *item;
    struct copy_links links;
    struct permit *permits[COPY_LINKS_MAX]; /* one for each link, all of one epoch */
    uint64_t epoch;
    /* The lease: what was moved, and when, since it was decided last. */
    uint64_t asked_at_bytes, asked_epoch;
    int64_t asked_ms;
    bool is_denied;
    char rule[72];
};

struct resource copy_where(const struct copy_way *way, const struct copy_link *link, const char *region, const char *digest)
{
    struct resource where = {
        .kind = RESOURCE_REPOSITORY, .organisation = way->organisation, .project = way->project, .repository = link->repository};

    (void)snprintf(where.name, sizeof where.name, "%s", link->name);
    (void)snprintf(where.region, sizeof where.region, "%s", region);
    (void)snprintf(where.detail, sizeof where.detail, "%s", digest);
    return where;
}

enum action copy_action(const struct copy_way *way)
{
    return way->is_move ? ACTION_MOVE_WRITE : ACTION_COPY_WRITE;
}

struct copy_question copy_question_of(const struct copy_way *way, const struct resource *where)
{
    return (struct copy_question){.where = where,
                                  .digest = where->detail,
                                  .from = way->from,
                                  .to = way->to,
                                  .action = copy_action(way),
                                  .now_ms = clock_wall_ms()};
}

/* ---- Deciding ---- */

struct result copy_decide(struct copy_round *round, const struct copy_question *question, struct change *change,
                          struct permit **permit_out, uint64_t *epoch_out, struct error *err)
{
    struct decider *decider = round->options->decider;

    for (int tries = 0; tries < TRIES_MAX; tries++) {
        struct record record = {.change = change};
        TRY(decider_decide_copy(decider, question, &record.decision, err));
        *epoch_out = decision_epoch(record.decision);
        sequencer_submit_and_wait(round->registry->sequencer, &record);
        const enum record_status status = record.status;
        const struct error why = record.error;
        const uint64_t outdated = record.outdated_epoch;
        if (status == RECORD_DONE) *permit_out = GIVE(record.permit);
        record_done(&record);
        if (status == RECORD_DONE) return SUCCESS;
        if (status == RECORD_REFUSED) return failure(err, why.kind, "%s", why.message);
        if (status != RECORD_STALE) return failure(err, ERROR_UNAVAILABLE, "a copy could not be recorded: %.180s", why.message);
        TRY(decider_await_newer(decider, outdated, err));
    }
    return failure(err, ERROR_UNAVAILABLE, "rights and policies change too fast: a copy waits");
}

static void drop_permits(struct moving *moving)
{
    for (size_t i = 0; i < moving->links.count && i < COPY_LINKS_MAX; i++) permit_free(GIVE(moving->permits[i]));
}

/* In memory, without a record. Denials of a policy are told from those of a region's state. */
static struct result ask(struct moving *moving, struct error *err)
{
    const struct copy_way *way = &moving->round->claim.way;

    moving->is_denied = false;
    for (size_t i = 0; i < moving->links.count && !moving->is_denied; i++) {
        const struct resource where = copy_where(way, &moving->links.links[i], way->to, moving->item->digest);
        const struct copy_question question = copy_question_of(way, &where);
        OWNED(decision) *decision = NULL;
        TRY(decider_decide_copy(moving->round->options->decider, &question, &decision, err));
        moving->asked_epoch = decision_epoch(decision);
        moving->is_denied = decision_verdict(decision) != VERDICT_ALLOW;
        if (moving->is_denied) (void)snprintf(moving->rule, sizeof moving->rule, "%s", decision_denial(decision, 0)->rule);
    }
    moving->asked_ms = clock_monotonic_ms();
    return SUCCESS;
}

/* Rules of the system are about regions, and about what this gateway knows: the copy may be made later. */
static bool is_denied_by_policy(const struct moving *moving)
{
    return moving->is_denied && (strncmp(moving->rule, "SYS-", 4) != 0 || strcmp(moving->rule, "SYS-PIN-MISSING") == 0);
}

static void note_denial(struct moving *moving)
{
    const bool is_of_system = !is_denied_by_policy(moving);

    if (!is_of_system) moving->round->denied_blobs++;
    copy_note(moving->round, is_of_system ? COPIES_CLOSED : COPIES_DENIED, moving->rule);
}

/* Each repository has its own event. All are decided at one epoch, which the commit then stands under. */
static struct result record_all(struct moving *moving, struct error *err)
{
    const struct copy_way *way = &moving->round->claim.way;

    for (size_t i = 0; i < moving->links.count; i++) {
        const struct resource where = copy_where(way, &moving->links.links[i], way->to, moving->item->digest);
        const struct copy_question question = copy_question_of(way, &where);
        uint64_t epoch = 0;
        TRY(copy_decide(moving->round, &question, NULL, &moving->permits[i], &epoch, err));
        if (moving->permits[i] == NULL) moving->is_denied = true;
        if (i > 0 && epoch != moving->epoch) return failure(err, ERROR_CONFLICT, "rights have changed between two decisions");
        moving->epoch = epoch;
        if (moving->is_denied) return SUCCESS;
    }
    return SUCCESS;
}

static struct result decide_all(struct moving *moving, struct error *err)
{
    for (int tries = 0; tries < TRIES_MAX; tries++) {
        drop_permits(moving);
        TRY(ask(moving, err));
        if (moving->is_denied) return SUCCESS;
        const struct result recorded = record_all(moving, err);
        if (recorded.ok && !moving->is_denied) return SUCCESS;
        if (!recorded.ok && err->kind != ERROR_CONFLICT) return recorded;
    }
    return failure(err, ERROR_UNAVAILABLE, "rights and policies change too fast: a copy waits");
}

/* ---- Recording what came of it ---- */

/* A later event of one link's decision. */
struct last_word {
    size_t link;
    enum outcome outcome;
    const char *note;
    struct change *change;   /* or NULL */
    bool is_stale;           /* set: nothing was recorded, because rights or policies have changed */
    uint64_t outdated_epoch; /* set with is_stale */
};

static struct result say(struct moving *moving, struct last_word *word, struct error *err)
{
    struct record record = {.under = moving->permits[word->link], .outcome = word->outcome, .change = word->change};

    (void)snprintf(record.note, sizeof record.note, "%s", word->note);
    sequencer_submit_and_wait(moving->round->registry->sequencer, &record);
    const struct error why = record.error;
    const enum record_status status = record.status;
    word->is_stale = status == RECORD_STALE;
    word->outdated_epoch = record.outdated_epoch;
    record_done(&record);
    if (status == RECORD_DONE || status == RECORD_STALE) return SUCCESS;
    return failure(err, why.kind == ERROR_NONE ? ERROR_UNAVAILABLE : why.kind, "%s", why.message);
}

static void record_failure(struct moving *moving, const char *note)
{
    struct error ignored = {0}; /* the decision is in the log, and no copy */

    for (size_t i = 0; i < moving->links.count && moving->permits[i] != NULL; i++)
        (void)say(moving, &(struct last_word){.link = i, .outcome = OUTCOME_FAILED, .note = note}, &ignored).ok;
}

struct commit_change {
    struct change change;
    const struct resource *where;
    enum action action;
    struct copy_commit commit;
};

static struct result run_commit(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct commit_change *commit = (const struct commit_change *)(const void *)change; /* its first member */

    permit_require(permit, commit->action, commit->where);
    permit_require_detail(permit, commit->action, commit->where->detail);
    return copy_row_commit(pg, &commit->commit, err);
}

/* Rights or policies have changed since the decision: the bytes are there, and not yet a copy. */
static struct result decide_again(struct moving *moving, uint64_t outdated_epoch, struct error *err)
{
    TRY(decider_await_newer(moving->round->options->decider, outdated_epoch, err));
    TRY(ask(moving, err));
    if (moving->is_denied) return SUCCESS;
    record_failure(moving, "decided again");
    return decide_all(moving, err);
}

static struct result commit(struct moving *moving, struct copy_target *target, const char *note, struct error *err)
{
    const struct copy_way *way = &moving->round->claim.way;
    const struct resource where = copy_where(way, &moving->links.links[0], way->to, moving->item->digest);
    struct commit_change change = {
        .change = {.run = run_commit, .invalidates = CHANGE_INVALIDATES_NOTHING},
        .where = &where,
        .action = copy_action(way),
        .commit = {.source = moving->item->row.key.id, .links = &moving->links, .is_move = way->is_move}};
    struct last_word word = {.outcome = OUTCOME_COMPLETED, .note = note, .change = &change.change, .is_stale = true};

    for (int tries = 0; tries < TRIES_MAX && word.is_stale; tries++) {
        TRY(copy_target_commit(target, &change.commit, err)); /* each time: what has changed may be where the keys are */
        TRY(say(moving, &word, err));
        if (word.is_stale) TRY(decide_again(moving, word.outdated_epoch, err));
        if (moving->is_denied) return SUCCESS;
    }
    if (word.is_stale) return failure(err, ERROR_UNAVAILABLE, "rights and policies change too fast: a copy waits");
    copy_target_committed(target);
    for (size_t i = 1; i < moving->links.count; i++)
        TRY(say(moving, &(struct last_word){.link = i, .outcome = OUTCOME_COMPLETED, .note = note}, err));
    return SUCCESS;
}

/* ---- Moving ---- */

/* The lease: after 64 MiB or 10 s, and whenever rights or policies have changed, the copy is decided again. */
static struct result may_go_on(struct moving *moving, uint64_t offset, struct error *err)
{
    const struct copier_options *options = moving->round->options;
    const uint64_t lease = options->lease_bytes == 0 ? LEASE_BYTES : options->lease_bytes;
    const int64_t lease_ms = options->lease_ms == 0 ? LEASE_MS : options->lease_ms;

    if (decider_epoch(options->decider) == moving->asked_epoch && offset - moving->asked_at_bytes < lease &&
        clock_monotonic_ms() - moving->asked_ms < lease_ms)
        return SUCCESS;
    moving->asked_at_bytes = offset;
    return ask(moving, err);
}

/* Stops without an error if it is denied, or if the round must stop: then the offset is before the end. */
static struct result stream(struct moving *moving, struct copy_source *source, struct copy_target *target, uint8_t *piece,
                            struct error *err)
{
    const uint64_t length = copy_source_length(source);

    moving->asked_at_bytes = copy_target_offset(target);
    for (uint64_t at = copy_target_offset(target); at < length;) {
        const size_t size = length - at < BLOB_READ_SIZE ? (size_t)(length - at) : BLOB_READ_SIZE;
        TRY(may_go_on(moving, at, err));
        if (moving->is_denied || !copy_go_on(moving->round)) return SUCCESS;
        TRY(copy_source_read(source, at, piece, size, err));
        TRY(copy_target_write(target, moving->round->pg, (struct bytes){piece, size}, err));
        metric_add(&registry_metrics_rows[METRIC_COPIED_BYTES], (int64_t)size);
        at += size;
    }
    return SUCCESS;
}

static struct result move_bytes(struct moving *moving, struct copy_source *source, struct copy_target *target, struct error *err)
{
    uint8_t *piece = memory_resize(NULL, BLOB_READ_SIZE);

    if (piece == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a copy");
    const struct result moved = stream(moving, source, target, piece, err);
    secret_wipe(piece, BLOB_READ_SIZE);
    free(piece);
    return moved;
}

/* ---- From a region that another gateway serves ---- */

struct fetched {
    struct moving *moving;
    struct copy_target *target;
    bool is_stopped; /* it is denied now, or the round ends: a slow gateway delays no withdrawal of another project for longer */
};

static struct result take_piece(void *context, struct bytes piece, struct error *err)
{
    struct fetched *fetched = context;
    struct moving *moving = fetched->moving;

    TRY(may_go_on(moving, copy_target_offset(fetched->target), err));
    fetched->is_stopped = moving->is_denied || copy_is_late(moving->round) || !copy_go_on(moving->round);
    if (fetched->is_stopped) return failure(err, ERROR_UNAVAILABLE, "the copy stops here");
    TRY(copy_target_write(fetched->target, moving->round->pg, piece, err));
    metric_add(&registry_metrics_rows[METRIC_COPIED_BYTES], (int64_t)piece.length);
    return SUCCESS;
}

static struct result request_of(const struct moving *moving, struct copy_request *request, struct error *err)
{
    const struct copy_way *way = &moving->round->claim.way;
    OWNED(policy_set) *set = decider_policy_set(moving->round->options->decider);

    if (set == NULL) return failure(err, ERROR_UNAVAILABLE, "no policy set is in force");
    *request = (struct copy_request){.project = way->project, .epoch = policy_set_epoch(set)};
    (void)snprintf(request->digest, sizeof request->digest, "%s", moving->item->digest);
    (void)snprintf(request->set, sizeof request->set, "%s", policy_set_digest(set));
    (void)snprintf(request->to, sizeof request->to, "%s", way->to);
    return SUCCESS;
}

/* What came before the other gateway ended, or refused to go on, is kept for the next round. */
static struct result fetch_bytes(struct moving *moving, struct copy_target *target, struct error *err)
{
    struct copy_round *round = moving->round;
    struct fetched fetched = {.moving = moving, .target = target};
    struct copy_fetch fetch = {.outgoing = round->options->outgoing,
                               .gives_up = round->options->gives_up,
                               .peer = peers_find(&round->registry->elsewhere, round->claim.way.from),
                               .offset = copy_target_offset(target),
                               .length = moving->item->row.content.length,
                               .take = take_piece,
                               .context = &fetched};
    struct copy_request request;
    struct error ignored = {0};

    if (fetch.offset >= fetch.length) return SUCCESS;
    if (fetch.peer == NULL || fetch.outgoing == NULL) return failure(err, ERROR_UNAVAILABLE, "nothing is fetched from there");
    TRY(request_of(moving, &request, err));
    fetch.request = &request;
    moving->asked_at_bytes = fetch.offset;
    const struct result result = copy_fetch(&fetch, err);
    if (result.ok || fetched.is_stopped) return SUCCESS;
    if (err->kind == ERROR_UNAVAILABLE) (void)copy_target_save(target, round->pg, &ignored).ok;
    if (fetch.refusal != NULL && err->kind == ERROR_UNAVAILABLE) copy_note(round, COPIES_CLOSED, err->message);
    return result;
}

/* What was denied leaves nothing behind; what was interrupted goes on later. */
static struct result conclude(struct moving *moving, struct copy_target *target, uint64_t length, bool *done_out,
                              struct error *err)
{
    struct copy_round *round = moving->round;
    const uint64_t offset = copy_target_offset(target);
    char note[80];

    if (!moving->is_denied && offset == length) {
        (void)snprintf(note, sizeof note, "%" PRIu64 " bytes", length);
        TRY(copy_target_close(target, err));
        TRY(commit(moving, target, note, err));
    }
    *done_out = !moving->is_denied && offset == length;
    if (*done_out) return SUCCESS;
    (void)snprintf(note, sizeof note, "%" PRIu64 " bytes, %.40s", offset, moving->is_denied ? moving->rule : "interrupted");
    record_failure(moving, note);
    if (moving->is_denied) note_denial(moving);
    if (moving->is_denied || round->claim.is_withdrawn || round->is_lost) copy_target_drop(target, round->registry, round->pg);
    else TRY(copy_target_save(target, round->pg, err));
    return SUCCESS;
}

static struct result move_between(struct moving *moving, struct copy_target *target, bool *done_out, struct error *err)
{
    const struct copy_claim *claim = &moving->round->claim;
    const struct resource from = copy_where(&claim->way, &moving->links.links[0], claim->way.from, moving->item->digest);
    OWNED(copy_source) *source = NULL;

    if (!claim->is_home_served) {
        TRY(fetch_bytes(moving, target, err));
        return conclude(moving, target, moving->item->row.content.length, done_out, err);
    }
    TRY(copy_source_open(moving->permits[0], moving->round->registry, &from, &moving->item->row, &source, err));
    TRY(move_bytes(moving, source, target, err));
    return conclude(moving, target, copy_source_length(source), done_out, err);
}

/* After a failure of a store the copy goes on later, at its last checkpoint. After any other nothing of it is of use. */
static struct result move_decided(struct moving *moving, bool *done_out, struct error *err)
{
    struct copy_round *round = moving->round;
    const struct copy_way *way = &round->claim.way;
    const struct copy_destination to = {copy_where(way, &moving->links.links[0], way->to, moving->item->digest),
                                        copy_action(way)};
    OWNED(copy_target) *target = NULL;

    TRY(copy_target_begin(moving->permits[0], round->registry, round->pg, &to, &target, err));
    const struct result moved = move_between(moving, target, done_out, err);
    if (moved.ok) return SUCCESS;
    if (err->kind != ERROR_UNAVAILABLE && err->kind != ERROR_UNCERTAIN) copy_target_drop(target, round->registry, round->pg);
    return moved;
}

/* What was begun while it was allowed, and then interrupted, may not wait there with its key. */
static struct result refuse(struct moving *moving, struct error *err)
{
    note_denial(moving);
    if (!moving->item->is_begun || !is_denied_by_policy(moving)) return SUCCESS;
    return copying_delete_one(moving->round->pg, &moving->round->claim.way, moving->item->digest, err);
}

/* A failure about this blob alone is noted, and the others go on. */
static struct result move(struct moving *moving, bool *done_out, struct error *err)
{
    struct error why = {0};

    TRY(decide_all(moving, err));
    if (moving->is_denied) return refuse(moving, err);
    if (move_decided(moving, done_out, &why).ok) return SUCCESS;
    record_failure(moving, why.kind == ERROR_CORRUPT ? "stored bytes do not verify" : "not copied");
    if (why.kind == ERROR_UNAVAILABLE || why.kind == ERROR_UNCERTAIN || why.kind == ERROR_NO_MEMORY || why.kind == ERROR_FULL)
        return failure(err, why.kind, "%s", why.message);
    if (why.kind != ERROR_CONFLICT) log_error("a blob is not copied into a further region", &why);
    copy_note_failure(moving->round, &why);
    return SUCCESS;
}

static struct result has_room(struct copy_round *round, const struct copy_item *item, bool *has_room_out, struct error *err)
{
    TRY(copy_has_room(round->pg, &round->claim.way.project, item->row.content.length, has_room_out, err));
    if (!*has_room_out) copy_note(round, COPIES_FULL, "the project's quota of bytes has no room for a copy");
    return SUCCESS;
}

struct result copy_move(struct copy_round *round, const struct copy_item *item, bool *done_out, struct error *err)
{
    struct moving *moving = memory_zeroed(1, sizeof *moving);
    bool fits = false;

    *done_out = false;
    if (moving == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a copy");
    moving->round = round;
    moving->item = item;
    struct result result = copy_links_find(round->pg, &round->claim.way, item->digest, &moving->links, err);
    if (result.ok) result = has_room(round, item, &fits, err);
    if (result.ok && moving->links.count > COPY_LINKS_MAX)
        copy_note(round, COPIES_DENIED, "a blob is in more repositories than one copy is decided for");
    else if (result.ok && fits && moving->links.count > 0) result = move(moving, done_out, err);
    drop_permits(moving);
    free(moving);
    return result;
}
