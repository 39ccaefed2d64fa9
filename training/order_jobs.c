#include "training/order_jobs.h"

#include <stdio.h>
#include <string.h>

#include "audit/job_permit.h"
#include "base/clock.h"
#include "base/text.h"
#include "training/budget_priv.h"
#include "training/format/chain.h"
#include "training/label_priv.h"
#include "training/lease_jobs.h"
#include "training/order_priv.h"
#include "training/run_priv.h"

#define DECIDE_TRIES 5   /* each fails only if rights or policies changed in the meantime */
#define FREED_MAX    100 /* in one round: a second of work */

/* The draft and the reservation, in the transaction of the order's event. */
struct draft_change {
    struct change change;
    const struct run_wish *wish;
    struct run_draft *draft;
};

static struct result run_draft_in_change(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct draft_change *self = (const struct draft_change *)(const void *)change; /* its first member */
    const struct run_cost cost = run_cost_of(self->wish->request);

    permit_require(permit, ACTION_RUN_ORDER, &self->wish->where);
    self->draft->event = permit_sequence(permit);
    TRY(run_budget_reserve(pg, &self->wish->where.project, &self->wish->run, &cost, err));
    return run_row_draft(pg, &self->wish->run, self->draft, err);
}

static struct result result_of(const struct record *record, struct error *err)
{
    if (record->status == RECORD_DONE) return SUCCESS;
    if (record->status == RECORD_STALE) return failure(err, ERROR_CONFLICT, "rights or policies changed meanwhile");
    return failure(err, record->status == RECORD_REFUSED ? record->error.kind : ERROR_UNAVAILABLE, "%s", record->error.message);
}

static struct event_context context_of(const struct run_verdict *verdict)
{
    return (struct event_context){
        .issuer = verdict->requester.issuer, .subject = verdict->requester.subject, .client_address = "internal"};
}

/* Records a decision; a denied one, too. The record takes the decision over. */
static struct result record(struct sequencer *sequencer, struct run_verdict *verdict, struct change *change,
                            struct permit **permit_out, struct error *err)
{
    struct record record = {.decision = GIVE(verdict->decision), .context = context_of(verdict), .change = change};

    sequencer_submit_and_wait(sequencer, &record);
    const struct result result = result_of(&record, err);
    if (result.ok && record.permit != NULL) *permit_out = GIVE(record.permit);
    record_done(&record);
    return result;
}

/* ---- deciding ---- */

static struct result end(const struct run_bundle_source *source, const struct run_wish *wish, const char *reason,
                         struct error *err)
{
    return run_stop(source->sequencer, &wish->where, &wish->run, reason, err);
}

static struct result refuse(const struct run_bundle_source *source, const struct run_wish *wish, struct run_verdict *verdict,
                            struct error *err)
{
    OWNED(permit) *none = NULL;

    if (verdict->decision != NULL) TRY(record(source->sequencer, verdict, NULL, &none, err));
    return end(source, wish, verdict->reason, err);
}

/* *permit_out NULL: the run has ended. */
static struct result decide_once(const struct run_bundle_source *source, const struct run_wish *wish, struct run_draft *draft,
                                 struct permit **permit_out, struct error *err)
{
    OWNED_VERDICT verdict = {.may = false};
    struct draft_change change = {
        .change = {.run = run_draft_in_change, .invalidates = CHANGE_INVALIDATES_NOTHING}, .wish = wish, .draft = draft};

    TRY(run_wish_decide(source->decider, wish, draft, &verdict, err));
    if (!verdict.may) return refuse(source, wish, &verdict, err);
    TRY(run_label_bring(source, wish, verdict.reason, err));
    if (verdict.reason[0] != '\0') return end(source, wish, verdict.reason, err);
    const struct result recorded = record(source->sequencer, &verdict, &change.change, permit_out, err);
    if (recorded.ok || err->kind != ERROR_DENIED) return recorded;
    (void)snprintf(verdict.reason, sizeof verdict.reason, "%s", err->message); /* the budget */
    return end(source, wish, verdict.reason, err);
}

static struct result decide(const struct run_bundle_source *source, const struct run_wish *wish, struct run_draft *draft,
                            struct permit **permit_out, struct error *err)
{
    for (unsigned i = 1; i < DECIDE_TRIES; i++) {
        const struct result decided = decide_once(source, wish, draft, permit_out, err);
        if (decided.ok || err->kind != ERROR_CONFLICT) return decided;
        TRY(decider_refresh(source->decider, err));
    }
    return decide_once(source, wish, draft, permit_out, err);
}

/* An earlier gateway has recorded the event, and died: the server's own permit is for the rest of the work. */
static struct result permit_again(const struct run_bundle_source *source, const struct run_wish *wish, struct permit **permit_out,
                                  struct error *err)
{
    const struct action_pair pair = {ACTION_RUN_ORDER, wish->where};

    return permit_for_job(source->sequencer, &pair, permit_out, err);
}

/* ---- signing ---- */

/* Another checkpoint would make another order, which sijil-keyd does not sign: the first one is kept. */
static struct result find_checkpoint(const struct run_bundle_source *source, const struct run_wish *wish, struct run_draft *draft,
                                     struct signed_checkpoint *checkpoint_out, struct error *err)
{
    if (draft->checkpoint[0] == '\0') {
        TRY(sequencer_await_signed(source->sequencer, draft->event, err));
        TRY(sequencer_checkpoint(source->sequencer, checkpoint_out, err));
        (void)snprintf(draft->checkpoint, sizeof draft->checkpoint, "%.*s", KEYD_NOTE_MAX, checkpoint_out->note);
        return run_row_draft_checkpoint(source->pg, &wish->run, draft, err);
    }
    return signed_checkpoint_read(sequencer_log_keys(source->sequencer), bytes_of_text(draft->checkpoint), checkpoint_out, err);
}

static void add_jurisdictions(const struct run_draft *draft, struct keyd_run *wanted)
{
    struct bytes rest = bytes_of_text(draft->jurisdictions);

    while (rest.length > 0 && wanted->jurisdiction_count < KEYD_RUN_JURISDICTIONS_MAX)
        wanted->jurisdictions[wanted->jurisdiction_count++] = text_cut(&rest, ' ');
}

static struct result sign(const struct permit *permit, const struct run_bundle_source *source, const struct run_wish *wish,
                          struct run_draft *draft, struct buffer *envelope, struct error *err)
{
    struct buffer OWNED_BUFFER bundle = BUFFER(KEYD_RUN_MAX);
    struct signed_checkpoint checkpoint;
    struct keyd_run wanted = {.lifetime_s = (uint32_t)(RUN_LIFE_MAX_MS / 1000),
                              .approvals = (uint8_t)draft->approvals,
                              .attempts = (uint8_t)draft->attempts,
                              .signed_request = draft->signed_request};

    TRY(find_checkpoint(source, wish, draft, &checkpoint, err));
    const struct run_bundle_query query = {.papers = {.action = ACTION_RUN_ORDER, .run = wish->run, .last = RUN_APPROVAL},
                                           .event = draft->event,
                                           .checkpoint = &checkpoint};
    TRY(run_bundle_make(permit, source, &query, &bundle, err));
    wanted.bundle = buffer_bytes(&bundle);
    add_jurisdictions(draft, &wanted);
    return keyd_run_order(source->keyd, &wanted, envelope, err);
}

static struct result store(const struct permit *permit, const struct run_bundle_source *source, const struct run_wish *wish,
                           const struct run_draft *draft, struct bytes text, struct error *err)
{
    OWNED(run_envelope) *envelope = NULL;
    struct run_signed stored = {.principal = "keyd", .envelope = text};
    struct run_order change;

    TRY(run_envelope_read(text, RUN_ORDER, &envelope, err));
    run_digest_bytes(envelope, stored.digest);
    run_order_prepare(&wish->where, envelope, &stored, &change);
    change.regions = draft->regions;
    struct record record = {.under = permit, .outcome = OUTCOME_COMPLETED, .change = &change.change};
    (void)snprintf(record.note, sizeof record.note, "%s", envelope->digest);
    sequencer_submit_and_wait(source->sequencer, &record);
    const struct result result = result_of(&record, err);
    const bool is_stale = record.status == RECORD_STALE;
    record_done(&record);
    if (!is_stale) return result;
    OWNED(permit) *again = NULL; /* the order is signed: what it allows is decided again at each lease */
    TRY(permit_again(source, wish, &again, err));
    return store(again, source, wish, draft, text, err);
}

/* ---- refusals by sijil-keyd ---- */

/* Whether another policy set is in force than the one of the event: then keyd signs no order with that event. */
static struct result has_other_policies(const struct run_bundle_source *source, const struct run_draft *draft, bool *has_out,
                                        struct error *err)
{
    struct keyd_identity identity;
    char digest[DRAFT_POLICIES] = "sha256:";

    TRY(keyd_identify(source->keyd, &identity, err));
    text_hex(identity.policy_digest, sizeof identity.policy_digest, digest + strlen(digest));
    *has_out = strcmp(digest, draft->policies) != 0;
    return SUCCESS;
}

static struct result take_refusal(const struct run_bundle_source *source, const struct run_wish *wish,
                                  const struct run_draft *draft, const struct error *why, struct error *err)
{
    char reason[RUN_REASON_SIZE];
    bool has_other = false;

    if (!keyd_has_refused(why->kind)) return failure(err, why->kind, "%s", why->message);
    TRY(has_other_policies(source, draft, &has_other, err));
    if (has_other && why->kind == ERROR_DENIED) {
        TRY(run_row_draft_drop(source->pg, &wish->run, err));
        return failure(err, ERROR_UNAVAILABLE, "the policies changed before the order was signed: it is decided again");
    }
    (void)snprintf(reason, sizeof reason, "sijil-keyd signs no order: %.200s", why->message);
    return end(source, wish, reason, err);
}

/* ---- */

static struct result order(const struct run_bundle_source *source, const struct run_wish *wish, struct error *err)
{
    struct buffer OWNED_BUFFER envelope = BUFFER(RUN_ENVELOPE_MAX);
    OWNED_DRAFT draft = {.event = 0};
    OWNED(permit) *permit = NULL;
    char reason[RUN_REASON_SIZE];
    struct error why = {0};
    bool is_again = false;

    TRY(run_wish_check_approvals(source->pg, source->decider, wish, reason, err));
    if (reason[0] != '\0') return end(source, wish, reason, err);
    TRY(run_row_draft_find(source->pg, &wish->run, &draft, &is_again, err));
    if (is_again) TRY(permit_again(source, wish, &permit, err));
    else TRY(decide(source, wish, &draft, &permit, err));
    if (permit == NULL) return SUCCESS; /* it has ended */
    if (!sign(permit, source, wish, &draft, &envelope, &why).ok) return take_refusal(source, wish, &draft, &why, err);
    return store(permit, source, wish, &draft, buffer_bytes(&envelope), err);
}

struct result run_order_next(const struct run_bundle_source *source, const char *instance, bool *found_out, struct error *err)
{
    OWNED_WISH wish = {.request = NULL};
    bool is_found = false;

    *found_out = false;
    TRY(run_row_wish(source->pg, instance, &wish, &is_found, err));
    *found_out = is_found;
    if (!is_found) return SUCCESS;
    const struct result ordered = order(source, &wish, err);
    return ordered.ok || err->kind != ERROR_CONFLICT ? ordered : SUCCESS; /* it was cancelled meanwhile, or has expired */
}

static struct result free_one(struct keyd_client *keyd, struct pg *pg, const struct pg_rows *rows, size_t row, struct error *err)
{
    const struct uuid run = pg_uuid(rows, row, 0);
    const struct bytes digest = pg_bytes(rows, row, 1);

    if (digest.length != SHA256_SIZE) return failure(err, ERROR_CORRUPT, "the digest of a request in the database is damaged");
    TRY(keyd_run_end(keyd, digest.data, err));
    return run_row_freed(pg, &run, err);
}

/* Without sijil-keyd or the database no other run is freed, either. */
struct result run_free_ended(struct keyd_client *keyd, struct pg *pg, size_t *count_out, struct error *err)
{
    OWNED(pg_rows) *rows = NULL;
    struct run_round round = {.changed = 0};

    TRY(run_rows_ended(pg, FREED_MAX, &rows, err));
    for (size_t i = 0; i < pg_rows_count(rows); i++) {
        const struct result one = free_one(keyd, pg, rows, i, err);
        run_round_note(&round, one, true, err);
        if (!one.ok && err->kind == ERROR_UNAVAILABLE) break;
    }
    return run_round_end(&round, count_out, err);
}
