#include "audit/log_verifier.h"

#include <pthread.h>
#include <time.h>

#include "audit/erasure.h"
#include "audit/log_check_priv.h"
#include "audit/sequencer_priv.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/priority.h"
#include "crypto/random.h"

#define SHARE          10    /* the thread works for 1/SHARE of the time */
#define TRY_AGAIN_MS   5000  /* after a failure that proves nothing about the log */
#define FIRST_ROUND_MS 1000  /* until there is a checkpoint */
#define RECENT_MS      2000  /* between two checks of new entries */
#define RECENT_MAX     65536 /* entries that these checks may lag behind; the round checks older ones */
#define NOTES_MIN      4096  /* rows of checkpoints in a round, however small the log is */
#define LATE_FACTOR    10    /* a round that takes this many times its planned time is reported as late */

enum phase { PHASE_BEGIN, PHASE_TILES, PHASE_RUNS, PHASE_NOTES, PHASE_TAGS, PHASE_RIGHTS, PHASE_PERSONS, PHASE_END };

struct log_verifier {
    struct log_verifier_options options;
    pthread_mutex_t mutex;
    pthread_cond_t stop;
    bool is_stopping; /* guarded by the mutex */
    bool has_thread;
    pthread_t thread;

    /* Used by the thread only. */
    struct pg *pg;
    struct log_check *check;
    enum phase phase;
    uint64_t tiles, first, done; /* of this round: the number of tiles, the first one, and how many are done */
    struct run_cursor run;
    /* The cursor of the checkpoints outlives a round, so a round ends however many rows there are. */
    struct note_cursor note;
    uint64_t notes;                     /* rows of this round */
    uint64_t foreign, foreign_reported; /* unsigned rows in this pass through the table; and how many of them were reported */
    bool foreign_is_reported;           /* in this pass */
    struct payload_findings payloads;   /* of this round */
    struct payload_findings recent;     /* of entries that are newer than the round */
    struct payload_findings early; /* of entries of the round that were checked while they were new: the round counts them too */
    uint64_t recent_from;          /* the next new entry */
    int64_t recent_at_ms;
    struct term_findings terms; /* of this round */
    struct tag_cursor tag;
    struct rights_cursor rights;
    struct scim_cursor scim;
    struct row_findings rows; /* of this round */
    bool payloads_are_reported, facts_are_reported, terms_are_reported, rows_are_reported;
    int64_t round_ended_ms; /* the end of the last round, or the start of the verifier */
    bool is_late;           /* the round is late, and this was reported */
};

static struct result begin_round(struct log_verifier *verifier, struct error *err)
{
    struct signed_checkpoint checkpoint;

    TRY(sequencer_checkpoint(verifier->options.sequencer, &checkpoint, err));
    log_check_against(verifier->check, checkpoint.size, &checkpoint.root);
    verifier->tiles = (checkpoint.size + TILE_WIDTH - 1) / TILE_WIDTH;
    random_bytes((uint8_t *)&verifier->first, sizeof verifier->first);
    verifier->first %= verifier->tiles;
    verifier->check->unreadable = 0;
    verifier->payloads = verifier->recent = verifier->early = (struct payload_findings){0};
    verifier->terms = (struct term_findings){0};
    verifier->rows = (struct row_findings){0};
    verifier->payloads_are_reported = verifier->facts_are_reported = verifier->terms_are_reported = verifier->rows_are_reported =
        false;
    verifier->tag = (struct tag_cursor){0};
    verifier->rights = (struct rights_cursor){.sequencer = verifier->options.sequencer};
    verifier->scim = SCIM_CURSOR_FIRST;
    verifier->run = (struct run_cursor){.last = -1};
    verifier->done = verifier->notes = 0;
    metric_set(AUDIT_METRIC(audit_verify_size), (int64_t)checkpoint.size);
    verifier->phase = PHASE_TILES;
    return SUCCESS;
}

static void raise_to(struct metric *metric, uint64_t value)
{
    if (metric_value(metric) < (int64_t)value) metric_set(metric, (int64_t)value);
}

/* Reports missing payloads at once, but only once in a round: a payload may have been erased on purpose, and stays missing. */
static void report_payloads(struct log_verifier *verifier, const struct payload_findings *found)
{
    struct error why;

    raise_to(AUDIT_METRIC(audit_payloads_missing), verifier->payloads.missing + verifier->recent.missing);
    raise_to(AUDIT_METRIC(audit_payloads_missing), verifier->early.missing + verifier->recent.missing);
    raise_to(AUDIT_METRIC(audit_payloads_damaged), verifier->payloads.damaged + verifier->recent.damaged);
    raise_to(AUDIT_METRIC(audit_payloads_damaged), verifier->early.damaged + verifier->recent.damaged);
    if (verifier->payloads_are_reported || found->missing + found->damaged == 0) return;
    verifier->payloads_are_reported = true;
    failure_write(&why, ERROR_CORRUPT, "entry %llu is the first of this round", (unsigned long long)found->first);
    sequencer_notice(verifier->options.sequencer,
                     "the actor of some events of the audit log can't be shown any more: unless you erased it, find "
                     "out who did",
                     &why);
}

/* Reports missing facts in the same way. Nobody erases facts on purpose. */
static void report_facts(struct log_verifier *verifier, const struct payload_findings *found)
{
    struct error why;

    raise_to(AUDIT_METRIC(audit_facts_missing), verifier->payloads.facts_missing + verifier->recent.facts_missing);
    raise_to(AUDIT_METRIC(audit_facts_missing), verifier->early.facts_missing + verifier->recent.facts_missing);
    raise_to(AUDIT_METRIC(audit_facts_damaged), verifier->payloads.facts_damaged + verifier->recent.facts_damaged);
    raise_to(AUDIT_METRIC(audit_facts_damaged), verifier->early.facts_damaged + verifier->recent.facts_damaged);
    if (verifier->facts_are_reported || found->facts_missing + found->facts_damaged == 0) return;
    verifier->facts_are_reported = true;
    failure_write(&why, ERROR_CORRUPT, "entry %llu is the first of this round", (unsigned long long)found->first_facts);
    sequencer_notice(verifier->options.sequencer,
                     "rows of audit_facts are gone or were edited, so decisions can't be made again: restore "
                     "them from a backup, and find out who did it",
                     &why);
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static struct result check_payloads(struct log_verifier *verifier, uint64_t first, uint64_t end,
                                    struct payload_findings *findings, struct error *err)
{
    const bool is_round = findings == &verifier->payloads; /* the index may be behind new entries */
    const struct payload_keys keys = {verifier->options.sequencer->keyd, verifier->options.sequencer->origin, is_round};

    TRY(log_check_payloads(verifier->check, first, end, &keys, findings, err));
    report_payloads(verifier, findings);
    report_facts(verifier, findings);
    return SUCCESS;
}

/*
 * Checks the sealed parts of new entries, and whether there are rows beyond the end of the log. The round may reach these
 * entries an hour later.
 */
static struct result verify_new_entries(struct log_verifier *verifier, size_t *weight_out, struct error *err)
{
    struct signed_checkpoint checkpoint;
    struct error not_yet;

    *weight_out = 0;
    if (!sequencer_checkpoint(verifier->options.sequencer, &checkpoint, &not_yet).ok) return SUCCESS;
    TRY(log_check_end(verifier->pg, err));
    if (checkpoint.size > verifier->recent_from + RECENT_MAX) verifier->recent_from = checkpoint.size - RECENT_MAX;
    const bool is_early = verifier->recent_from < verifier->check->size;
    const uint64_t until = smaller(is_early ? verifier->check->size : checkpoint.size, checkpoint.size);
    const uint64_t end = smaller(until, verifier->recent_from + TILE_WIDTH);
    if (end <= verifier->recent_from) return SUCCESS;
    TRY(check_payloads(verifier, verifier->recent_from, end, is_early ? &verifier->early : &verifier->recent, err));
    *weight_out = (size_t)(end - verifier->recent_from);
    verifier->recent_from = end;
    return SUCCESS;
}

/* Reports rows that the index of searches lacks, once in a round. Somebody removed them, because the index says that it has these entries. */
static void report_unfound(struct log_verifier *verifier)
{
    const uint64_t first = verifier->terms.missing > 0 ? verifier->terms.first : verifier->payloads.first_hidden;
    struct error why;

    raise_to(AUDIT_METRIC(audit_search_missing), verifier->terms.missing + verifier->payloads.hidden);
    if (verifier->terms_are_reported || verifier->terms.missing + verifier->payloads.hidden == 0) return;
    verifier->terms_are_reported = true;
    failure_write(&why, ERROR_CORRUPT, "entry %llu is the first of this round", (unsigned long long)first);
    sequencer_notice(verifier->options.sequencer,
                     "searches miss events: rows of audit_post or audit_blind were edited; have the index made again", &why);
}

/* Reports a row that events do not lead to at once, but only once in a round. */
static void report_rows(struct log_verifier *verifier)
{
    struct error why;

    raise_to(AUDIT_METRIC(audit_rows_wrong), verifier->rows.count);
    if (verifier->rows_are_reported || verifier->rows.count == 0) return;
    verifier->rows_are_reported = true;
    failure_write(&why, ERROR_CORRUPT, "%s", verifier->rows.first);
    sequencer_notice(verifier->options.sequencer,
                     "a row of tags, rights, logins or SCIM is not what the audit log says: find out who wrote to the database",
                     &why);
}

static struct result check_next_tile(struct log_verifier *verifier, size_t *weight_out, struct error *err)
{
    const uint64_t index = (verifier->first + verifier->done) % verifier->tiles, first = index * TILE_WIDTH;

    TRY(log_check_tile(verifier->check, index, err));
    TRY(check_payloads(verifier, first, smaller(verifier->check->size, first + TILE_WIDTH), &verifier->payloads, err));
    TRY(log_check_terms(verifier->check, index, &verifier->terms, err));
    report_unfound(verifier);
    TRY(log_check_tellings(verifier->check, index, &verifier->rows, err));
    TRY(log_check_removed(verifier->check, index, &verifier->rows, err));
    report_rows(verifier);
    verifier->done++;
    *weight_out = TILE_WIDTH;
    metric_add(AUDIT_METRIC(audit_verified), TILE_WIDTH);
    metric_set(AUDIT_METRIC(audit_verify_position), (int64_t)(verifier->done * TILE_WIDTH));
    if (verifier->done == verifier->tiles) verifier->phase = PHASE_RUNS;
    return SUCCESS;
}

static struct result check_next_runs(struct log_verifier *verifier, size_t *weight_out, struct error *err)
{
    TRY(log_check_runs(verifier->check, &verifier->run, weight_out, err));
    if (*weight_out == 0) verifier->phase = PHASE_NOTES;
    return SUCCESS;
}

/* Reports unsigned rows at once, but only once in each pass through the table. */
static void report_foreign(struct log_verifier *verifier)
{
    struct error why;

    if (verifier->foreign <= verifier->foreign_reported) return;
    metric_add(AUDIT_METRIC(audit_foreign_checkpoints), (int64_t)(verifier->foreign - verifier->foreign_reported));
    verifier->foreign_reported = verifier->foreign;
    if (verifier->foreign_is_reported) return;
    verifier->foreign_is_reported = true;
    failure_write(&why, ERROR_DENIED, "%llu so far", (unsigned long long)verifier->foreign);
    sequencer_notice(verifier->options.sequencer,
                     "rows of audit_checkpoint were not signed by sijil-keyd, and are ignored: find out who wrote them", &why);
}

/* At the end of the table the next round begins with the first row again. */
static void begin_notes(struct log_verifier *verifier)
{
    verifier->note = NOTE_CURSOR_FIRST;
    verifier->foreign_reported = verifier->foreign;
    verifier->foreign = 0;
    verifier->foreign_is_reported = false;
}

/* keyd can't have signed more notes for a log of this size; further rows are left to the next round. */
static uint64_t notes_of_a_round(const struct log_verifier *verifier)
{
    return verifier->check->size > NOTES_MIN ? verifier->check->size : NOTES_MIN;
}

static struct result check_next_notes(struct log_verifier *verifier, size_t *weight_out, struct error *err)
{
    uint64_t foreign = 0;

    TRY(log_check_notes(verifier->check, sequencer_log_keys(verifier->options.sequencer), &verifier->note, weight_out, &foreign,
                        err));
    verifier->foreign += foreign;
    verifier->notes += *weight_out;
    report_foreign(verifier);
    if (*weight_out == 0) begin_notes(verifier);
    if (*weight_out == 0 || verifier->notes >= notes_of_a_round(verifier)) verifier->phase = PHASE_TAGS;
    return SUCCESS;
}

static struct result check_next_tags(struct log_verifier *verifier, size_t *weight_out, struct error *err)
{
    TRY(log_check_tags(verifier->check, &verifier->tag, weight_out, &verifier->rows, err));
    report_rows(verifier);
    if (*weight_out == 0) verifier->phase = PHASE_RIGHTS;
    return SUCCESS;
}

static struct result check_next_rights(struct log_verifier *verifier, size_t *weight_out, struct error *err)
{
    TRY(log_check_rights(verifier->check, &verifier->rights, weight_out, &verifier->rows, err));
    report_rows(verifier);
    if (*weight_out == 0) verifier->phase = PHASE_PERSONS;
    return SUCCESS;
}

static struct result check_next_persons(struct log_verifier *verifier, size_t *weight_out, struct error *err)
{
    TRY(log_check_persons(verifier->check, &verifier->scim, weight_out, &verifier->rows, err));
    report_rows(verifier);
    if (*weight_out == 0) verifier->phase = PHASE_END;
    return SUCCESS;
}

static struct result end_round(struct log_verifier *verifier, struct error *err)
{
    TRY(log_check_end(verifier->pg, err));
    metric_set(AUDIT_METRIC(audit_unreadable), (int64_t)verifier->check->unreadable);
    metric_set(AUDIT_METRIC(audit_payloads_missing), (int64_t)(verifier->payloads.missing + verifier->recent.missing));
    metric_set(AUDIT_METRIC(audit_payloads_damaged), (int64_t)(verifier->payloads.damaged + verifier->recent.damaged));
    metric_set(AUDIT_METRIC(audit_facts_missing), (int64_t)(verifier->payloads.facts_missing + verifier->recent.facts_missing));
    metric_set(AUDIT_METRIC(audit_facts_damaged), (int64_t)(verifier->payloads.facts_damaged + verifier->recent.facts_damaged));
    metric_set(AUDIT_METRIC(audit_search_missing), (int64_t)(verifier->terms.missing + verifier->payloads.hidden));
    metric_set(AUDIT_METRIC(audit_rows_wrong), (int64_t)verifier->rows.count);
    metric_set(AUDIT_METRIC(audit_rows_untold), (int64_t)verifier->rows.untold);
    metric_set(AUDIT_METRIC(audit_verify_last), clock_wall_ms() / 1000);
    metric_add(AUDIT_METRIC(audit_verify_rounds), 1);
    verifier->round_ended_ms = clock_monotonic_ms();
    verifier->is_late = false;
    metric_set(AUDIT_METRIC(audit_verify_late), 0);
    verifier->phase = PHASE_BEGIN;
    return SUCCESS;
}

/* Checks one piece; `weight` is its number of entries or rows. */
static struct result work(struct log_verifier *verifier, bool is_recent, size_t *weight_out, struct error *err)
{
    *weight_out = 0;
    pg_notice_loss(verifier->pg);
    if (pg_is_broken(verifier->pg)) TRY(pg_reopen(verifier->pg, err));
    if (is_recent) return verify_new_entries(verifier, weight_out, err);
    switch (verifier->phase) {
    case PHASE_BEGIN: return begin_round(verifier, err);
    case PHASE_TILES: return check_next_tile(verifier, weight_out, err);
    case PHASE_RUNS: return check_next_runs(verifier, weight_out, err);
    case PHASE_NOTES: return check_next_notes(verifier, weight_out, err);
    case PHASE_TAGS: return check_next_tags(verifier, weight_out, err);
    case PHASE_RIGHTS: return check_next_rights(verifier, weight_out, err);
    case PHASE_PERSONS: return check_next_persons(verifier, weight_out, err);
    case PHASE_END: return end_round(verifier, err);
    }
    return SUCCESS;
}

/* False: the thread must end. */
static bool pause_for(struct log_verifier *verifier, int64_t pause_ms)
{
    const int64_t wake_ms = clock_monotonic_ms() + pause_ms;
    const struct timespec until = {.tv_sec = wake_ms / 1000, .tv_nsec = wake_ms % 1000 * 1000000};

    (void)pthread_mutex_lock(&verifier->mutex);
    while (!verifier->is_stopping && clock_monotonic_ms() < wake_ms)
        (void)pthread_cond_clockwait(&verifier->stop, &verifier->mutex, CLOCK_MONOTONIC, &until);
    const bool goes_on = !verifier->is_stopping;
    (void)pthread_mutex_unlock(&verifier->mutex);
    return goes_on;
}

static int64_t pause_after_work(const struct log_verifier *verifier, bool is_recent, size_t weight, int64_t busy_ms)
{
    const int64_t by_rate_ms = (int64_t)weight * 1000 / verifier->options.rate - busy_ms,
                  by_share_ms = (SHARE - 1) * (busy_ms + 1);

    if (is_recent && weight < TILE_WIDTH) return by_share_ms > RECENT_MS ? by_share_ms : RECENT_MS;
    if (!is_recent && verifier->phase == PHASE_BEGIN) return (int64_t)verifier->options.rest_s * 1000;
    return by_rate_ms > by_share_ms ? by_rate_ms : by_share_ms;
}

/* A failure of the database or lack of memory proves nothing about the log: the same piece is checked again later. */
static int64_t pause_after_failure(const struct log_verifier *verifier, bool is_recent, const struct error *why)
{
    if (!is_recent && verifier->phase == PHASE_BEGIN) return FIRST_ROUND_MS;
    metric_add(AUDIT_METRIC(audit_verify_failures), 1);
    sequencer_notice(verifier->options.sequencer, "the audit log can't be verified now; it is tried again", why);
    return TRY_AGAIN_MS;
}

/* Reports a late round, whatever delays it. Each piece ends, because the database's statements have a time limit. */
static void report_late(struct log_verifier *verifier)
{
    const int64_t expected_s = (int64_t)(verifier->check->size / verifier->options.rate) * LATE_FACTOR + verifier->options.rest_s;
    const int64_t now_ms = clock_monotonic_ms(), late_ms = (expected_s + verifier->options.patience_s) * 1000;
    struct error why;

    if (verifier->is_late || now_ms - verifier->round_ended_ms <= late_ms) return;
    verifier->is_late = true;
    metric_set(AUDIT_METRIC(audit_verify_late), 1);
    failure_write(&why, ERROR_UNAVAILABLE, "no round ended for %lld s; at entry %llu of %llu",
                  (long long)((now_ms - verifier->round_ended_ms) / 1000), (unsigned long long)verifier->done * TILE_WIDTH,
                  (unsigned long long)verifier->check->size);
    sequencer_notice(verifier->options.sequencer, "a round of the audit log's verifier does not end: find out what delays it",
                     &why);
}

static void *run(void *argument)
{
    struct log_verifier *verifier = argument;
    int64_t round_at_ms = clock_monotonic_ms();

    priority_background();
    while (pause_for(verifier,
                     (round_at_ms < verifier->recent_at_ms ? round_at_ms : verifier->recent_at_ms) - clock_monotonic_ms())) {
        struct error err = {0};
        size_t weight = 0;
        int64_t pause_ms = 0;
        const int64_t began_ms = clock_monotonic_ms();
        const bool is_recent = verifier->recent_at_ms <= began_ms;
        if (work(verifier, is_recent, &weight, &err).ok) {
            pause_ms = pause_after_work(verifier, is_recent, weight, clock_monotonic_ms() - began_ms);
        } else if (err.kind == ERROR_FORKED) {
            sequencer_set_forked(verifier->options.sequencer, &err);
            break; /* the log stays forked, so the thread ends */
        } else {
            pause_ms = pause_after_failure(verifier, is_recent, &err);
        }
        *(is_recent ? &verifier->recent_at_ms : &round_at_ms) = clock_monotonic_ms() + pause_ms;
        report_late(verifier);
    }
    return NULL;
}

static struct result start_thread(struct log_verifier *verifier, struct error *err)
{
    static const struct pg_table *const tables[] = {&audit_check_table,
                                                    &audit_tree_table,
                                                    &audit_query_table,
                                                    &audit_erasure_table,
                                                    &audit_archive_table,
                                                    &audit_subject_table,
                                                    NULL};

    TRY(pg_open(verifier->options.conninfo, tables, &verifier->pg, err));
    TRY(log_check_new(verifier->pg, &verifier->check, err));
    if (pthread_create(&verifier->thread, NULL, run, verifier) != 0)
        return failure(err, ERROR_NO_MEMORY, "no thread for the verifier of the log");
    verifier->has_thread = true;
    return SUCCESS;
}

struct result log_verifier_start(const struct log_verifier_options *options, struct log_verifier **verifier_out,
                                 struct error *err)
{
    OWNED(log_verifier) *verifier = memory_zeroed(1, sizeof *verifier);

    if (verifier == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the verifier of the log");
    (void)pthread_mutex_init(&verifier->mutex, NULL);
    (void)pthread_cond_init(&verifier->stop, NULL);
    verifier->options = *options;
    verifier->round_ended_ms = verifier->recent_at_ms = clock_monotonic_ms();
    begin_notes(verifier);
    TRY(start_thread(verifier, err));
    *verifier_out = GIVE(verifier);
    return SUCCESS;
}

void log_verifier_free(struct log_verifier *verifier)
{
    if (verifier == NULL) return;
    (void)pthread_mutex_lock(&verifier->mutex);
    verifier->is_stopping = true;
    (void)pthread_cond_signal(&verifier->stop);
    (void)pthread_mutex_unlock(&verifier->mutex);
    if (verifier->has_thread) (void)pthread_join(verifier->thread, NULL);
    log_check_free(verifier->check);
    pg_free(verifier->pg);
    (void)pthread_cond_destroy(&verifier->stop);
    (void)pthread_mutex_destroy(&verifier->mutex);
    free(verifier);
}
