#include "gateway/background/erasures.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "audit/erasure_jobs.h"
#include "audit/job_permit.h"
#include "authz/erased_subject.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "documents/format/erasure.h"
#include "documents/view.h"
#include "gateway/pipeline/gateway.h"
#include "policy/decider/kept_events.h"
#include "registry/jobs/advisory_lock.h"
#include "registry/metrics.h"

#define PART     32 /* documents that are looked at together, because the view is locked while it is visited */
#define RETRY_MS 60000
#define AGAIN_MS 900000 /* after each erasure has been tried, and some were refused: each try is an event of the log */
#define STEPS    20     /* of ERASURE_STEP rows in one call, so that the other work of the thread goes on */

struct round {
    struct erasures *erasures;
    struct gateway *gateway;
    struct pg *pg;
};

/* ---- which erasure is next ---- */

struct candidates {
    uint64_t before, seen, numbers; /* `numbers`: the sum of those of their events */
    size_t count;
    int64_t now_ms;
    struct candidate {
        char pseudonym[ERASURE_PSEUDONYM_SIZE];
        uint64_t asked, place; /* `place`: among the documents */
        bool is_in_force;
    } each[PART];
};

static struct result note_candidate(void *context, const struct pinned_document *pinned, struct error *err)
{
    struct candidates *candidates = context;

    (void)err;
    candidates->numbers += pinned->sequence;
    if (candidates->seen++ < candidates->before || candidates->count == PART) return SUCCESS;
    struct candidate *each = &candidates->each[candidates->count++];
    (void)text_copy(each->pseudonym, sizeof each->pseudonym, pinned->document->name); /* 64 digits: the document was checked */
    each->asked = pinned->sequence;
    each->place = candidates->seen - 1;
    each->is_in_force = document_is_in_force(pinned->document, candidates->now_ms);
    return SUCCESS;
}

struct holding {
    const char *pseudonym;
    int64_t now_ms;
    bool is_held;
};

static struct result note_hold(void *context, const struct pinned_document *pinned, struct error *err)
{
    struct holding *holding = context;
    struct legal_hold hold;

    if (holding->is_held || !document_is_in_force(pinned->document, holding->now_ms)) return SUCCESS;
    TRY(legal_hold_read(pinned->document, &hold, err));
    holding->is_held = legal_hold_covers(&hold, holding->pseudonym);
    return SUCCESS;
}

/* An erasure that has destroyed the key goes on whatever comes: there is nothing left that a hold could save. */
static struct result is_due(const struct round *round, const struct candidate *candidate, bool *is_due_out, bool *is_done_out,
                            struct error *err)
{
    struct holding holding = {candidate->pseudonym, clock_wall_ms(), false};
    struct erasure_row row;
    struct error none = {0};

    *is_due_out = *is_done_out = false;
    if (erasure_row_now(round->pg, candidate->pseudonym, &row, &none).ok) {
        *is_done_out = row.ended != 0;
        *is_due_out = row.ended == 0;
        return SUCCESS;
    }
    if (none.kind != ERROR_NOT_FOUND) return failure(err, none.kind, "%s", none.message);
    *is_done_out = !candidate->is_in_force; /* it has expired; a new version may come */
    if (!candidate->is_in_force) return SUCCESS;
    TRY(document_view_visit_all(round->gateway->documents, DOCUMENT_LEGAL_HOLD, note_hold, &holding, err));
    *is_due_out = !holding.is_held;
    return SUCCESS;
}

static struct result look_at_part(const struct round *round, struct candidates *candidates, struct candidate *due_out,
                                  bool *all_done, struct error *err)
{
    bool is_due_now = false, is_done = false;

    candidates->count = candidates->seen = candidates->numbers = 0;
    TRY(document_view_visit_all(round->gateway->documents, DOCUMENT_ERASURE, note_candidate, candidates, err));
    for (size_t i = 0; i < candidates->count; i++) {
        TRY(is_due(round, &candidates->each[i], &is_due_now, &is_done, err));
        *all_done = *all_done && is_done;
        if (is_due_now) {
            *due_out = candidates->each[i];
            return SUCCESS;
        }
    }
    candidates->before += candidates->count;
    return SUCCESS;
}

/* All erasures were tried, each once: what one of them met must not keep the others waiting. */
static void begin_anew(struct erasures *erasures)
{
    erasures->from = 0;
    if (erasures->is_refused) erasures->retry_ms = clock_monotonic_ms() + AGAIN_MS;
    erasures->is_refused = false;
}

/* due_out->pseudonym is "" if none is due. Nothing is asked of the database while all documents are done. */
static struct result find_due(const struct round *round, struct candidate *due_out, struct error *err)
{
    struct candidates *candidates = memory_zeroed(1, sizeof *candidates);
    struct result result = SUCCESS;
    bool all_done = round->erasures->from == 0;

    if (candidates == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for erasures");
    candidates->now_ms = clock_wall_ms();
    candidates->before = round->erasures->from;
    do {
        result = look_at_part(round, candidates, due_out, &all_done, err);
    } while (result.ok && due_out->pseudonym[0] == '\0' && candidates->before < candidates->seen);
    round->erasures->is_idle = result.ok && all_done && due_out->pseudonym[0] == '\0';
    round->erasures->seen = candidates->numbers;
    if (result.ok && due_out->pseudonym[0] == '\0' && round->erasures->from > 0) begin_anew(round->erasures);
    free(candidates);
    return result;
}

static struct result add_numbers(void *context, const struct pinned_document *pinned, struct error *err)
{
    (void)err;
    *(uint64_t *)context += pinned->sequence;
    return SUCCESS;
}

static struct result is_worth_a_look(const struct round *round, bool *is_worth_out, struct error *err)
{
    const struct document_source source = {round->pg, round->gateway->keyd, round->gateway->sequencer};
    uint64_t numbers = 0; /* not 0 if there is a document: event 0 pins none */

    TRY(document_view_follow(round->gateway->documents, DOCUMENT_ERASURE, &source, err));
    TRY(document_view_follow(round->gateway->documents, DOCUMENT_LEGAL_HOLD, &source, err));
    TRY(document_view_visit_all(round->gateway->documents, DOCUMENT_ERASURE, add_numbers, &numbers, err));
    *is_worth_out = numbers > 0 && !(round->erasures->is_idle && round->erasures->seen == numbers);
    return SUCCESS;
}

/* ---- one erasure ---- */

/* Before anything is removed: rights may have been given since the second person signed. */
static struct result check_rights(const struct round *round, const struct erasure_person *person, struct error *err)
{
    struct subject_holdings held;

    TRY(subject_holdings_find(round->erasures->permit, ACTION_SUBJECT_ERASE, round->pg, person, &held, err));
    return subject_holdings_check(&held, err);
}

/* And a policy set may have come. */
static struct result check_policies(const struct round *round, const char *pseudonym, struct error *err)
{
    const struct kept_query query = {round->erasures->permit, ACTION_SUBJECT_ERASE, round->pg, pseudonym, clock_wall_ms()};
    struct kept_events kept;

    TRY(decider_keeps_events(round->gateway->decider, &query, &kept, err));
    if (!kept.are_kept) return SUCCESS;
    metric_add(&registry_metrics_rows[METRIC_KEPT_EVENTS], 1);
    return failure(err, ERROR_CONFLICT, "ERASURE-POLICY: %s of %s keeps the person's events", kept.rule, kept.policy);
}

/* *sequence_out is the number of the event. */
static struct result record(const struct round *round, const char *note, struct change *change, uint64_t *sequence_out,
                            struct error *err)
{
    struct record record = {.under = round->erasures->permit, .outcome = OUTCOME_COMPLETED, .change = change};

    (void)snprintf(record.note, sizeof record.note, "%s", note);
    sequencer_submit_and_wait(round->gateway->sequencer, &record);
    const enum record_status status = record.status;
    const struct error error = record.error;
    *sequence_out = record.sequence;
    record_done(&record);
    if (status == RECORD_DONE) return SUCCESS;
    if (status == RECORD_REFUSED || error.kind == ERROR_UNCERTAIN) return failure(err, error.kind, "%s", error.message);
    return failure(err, ERROR_UNAVAILABLE, "the audit log can't be written now");
}

static struct result take_permit(const struct round *round, const char *pseudonym, struct error *err)
{
    struct action_pair pair = {.action = ACTION_SUBJECT_ERASE, .resource.kind = RESOURCE_SYSTEM};
    struct erasures *erasures = round->erasures;

    (void)snprintf(pair.resource.detail, sizeof pair.resource.detail, "%s", pseudonym);
    TRY(permit_for_job(round->gateway->sequencer, &pair, &erasures->permit, err));
    (void)snprintf(erasures->pseudonym, sizeof erasures->pseudonym, "%s", pseudonym);
    erasures->next = 0;
    return SUCCESS;
}

static struct result thin(const struct round *round, const struct erasure_person *person, struct error *err)
{
    int64_t gone = 1;

    while (gone > 0) TRY(erasure_thin(round->erasures->permit, round->pg, person, &gone, err));
    return SUCCESS;
}

static struct result destroy_key(const struct round *round, const struct candidate *due, const struct erasure_person *person,
                                 struct error *err)
{
    const struct erasure_begin begin = {due->pseudonym, person->witness, due->asked};
    struct subject_erase change;
    uint64_t sequence = 0;

    TRY(check_rights(round, person, err));
    TRY(check_policies(round, person->pseudonym, err));
    TRY(thin(round, person, err));
    subject_erase_init(&change, &begin, person);
    return record(round, "the key is destroyed", &change.change, &sequence, err);
}

/* If no sealed part names the person any more, somebody has removed the newest parts. Then nobody finds the key, so nothing is erased, and it is no success. */
static struct result begin(const struct round *round, const struct candidate *due, struct error *err)
{
    const struct search_source source = {round->pg, round->gateway->keyd, round->gateway->origin};
    struct erasure_person person;

    TRY(erasure_person_find(round->erasures->permit, ACTION_SUBJECT_ERASE, &source, due->pseudonym, &person, err));
    const struct result destroyed = destroy_key(round, due, &person, err);
    erasure_person_wipe(&person);
    return destroyed;
}

static struct result finish(const struct round *round, struct error *err)
{
    struct erasures *erasures = round->erasures;
    struct erasure_row row;
    uint64_t sequence = 0;
    char note[80];

    TRY(erasure_row_now(round->pg, erasures->pseudonym, &row, err));
    (void)snprintf(note, sizeof note, "%" PRIu64 " sealed parts are deleted", row.payloads);
    TRY(record(round, note, NULL, &sequence, err));
    TRY(erasure_end(erasures->permit, round->pg, erasures->pseudonym, sequence, err));
    erasures_done(erasures);
    return SUCCESS;
}

static struct result go_on(const struct round *round, struct error *err)
{
    struct erasures *erasures = round->erasures;

    for (unsigned i = 0; i < STEPS && erasures->next < INT64_MAX; i++)
        TRY(erasure_forget(erasures->permit, round->pg, erasures->pseudonym, &erasures->next, err));
    return erasures->next < INT64_MAX ? SUCCESS : finish(round, err);
}

static struct result start(const struct round *round, struct error *err)
{
    struct candidate due = {.asked = 0};
    struct erasure_row row;
    struct error none = {0};

    const bool has_left_out = round->erasures->from > 0;
    TRY(find_due(round, &due, err));
    if (due.pseudonym[0] == '\0' && has_left_out && clock_monotonic_ms() >= round->erasures->retry_ms)
        TRY(find_due(round, &due, err)); /* from the first document on */
    if (due.pseudonym[0] == '\0') return SUCCESS;
    round->erasures->from = due.place + 1;
    TRY(take_permit(round, due.pseudonym, err));
    if (erasure_row_now(round->pg, due.pseudonym, &row, &none).ok) return SUCCESS; /* an earlier gateway has destroyed the key */
    if (none.kind != ERROR_NOT_FOUND) return failure(err, none.kind, "%s", none.message);
    return begin(round, &due, err);
}

static struct result step(const struct round *round, struct error *err)
{
    bool is_worth = false;

    if (round->erasures->permit != NULL) return go_on(round, err);
    TRY(is_worth_a_look(round, &is_worth, err));
    return is_worth ? start(round, err) : SUCCESS;
}

static struct result step_locked(const struct round *round, struct error *err)
{
    struct error ignored = {0};
    bool is_ours = false;

    TRY(advisory_lock_take(round->pg, LOCK_OF_ERASURES, &is_ours, err));
    if (!is_ours) {
        erasures_done(round->erasures);
        return SUCCESS;
    }
    const struct result stepped = step(round, err);
    (void)advisory_lock_release(round->pg, LOCK_OF_ERASURES, &ignored).ok; /* a broken connection releases it too */
    return stepped;
}

/* A refused erasure is left behind, so that the next one comes at once. */
static bool is_left_behind(struct erasures *erasures, uint64_t from, const struct error *err)
{
    const int64_t now_ms = clock_monotonic_ms();

    erasures_done(erasures);
    if (err->kind == ERROR_UNAVAILABLE) return false;
    log_error("a person is not erased from the log yet; it is tried again", err);
    erasures->is_refused = true;
    if (erasures->from > from) return true;
    erasures->retry_ms = now_ms + RETRY_MS;
    return false;
}

bool erasures_step(struct erasures *erasures, struct gateway *gateway, struct pg *pg)
{
    const struct round round = {erasures, gateway, pg};
    const uint64_t from = erasures->from;
    struct error err = {0};

    if (clock_monotonic_ms() < erasures->retry_ms) return false;
    if (step_locked(&round, &err).ok) return erasures->permit != NULL;
    return is_left_behind(erasures, from, &err);
}

void erasures_done(struct erasures *erasures)
{
    permit_free(erasures->permit);
    erasures->permit = NULL;
    erasures->pseudonym[0] = '\0';
    erasures->next = 0;
}
