#include "audit/log_patrol.h"

#include <pthread.h>
#include <time.h>

#include "audit/log_check_priv.h"
#include "audit/sequencer_priv.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/pace.h"
#include "crypto/random.h"

#define SHARE          10    /* of the time, one part in so many is work */
#define TRY_AGAIN_MS   5000  /* after a failure that says nothing of the log */
#define FIRST_LOOK_MS  1000  /* until there is a checkpoint */
#define NEWS_MS        2000  /* from one look at what is new to the next */
#define NEWS_MAX       65536 /* entries that such looks may be behind; what is older is left to the round */
#define NOTES_MIN      4096  /* rows of checkpoints of a round, however small the log is */
#define LATE_FACTOR    10    /* a round that takes so many times what its rate asks for is late, or it stands */

enum phase { PHASE_BEGIN, PHASE_TILES, PHASE_RUNS, PHASE_NOTES, PHASE_END };

struct log_patrol {
    struct log_patrol_options options;
    pthread_mutex_t mutex;
    pthread_cond_t stop;
    bool is_stopping; /* under the mutex */
    bool has_thread;
    pthread_t thread;

    /* The thread's own. */
    struct pg *pg;
    struct log_check *check;
    enum phase phase;
    uint64_t tiles, first, done; /* of this round: how many, where it began, how many are behind */
    struct run_place run;
    /* Checkpoints: the place outlives a round, so that any number of rows can't keep a round from its end. */
    struct note_place note;
    uint64_t notes;                 /* rows of this round */
    uint64_t strange, strange_told; /* nobody signed them: of this way through the table; so many were told */
    bool strange_is_told;           /* on this way */
    struct payload_findings payloads; /* of this round */
    struct payload_findings news;     /* of entries that are newer than the round */
    struct payload_findings early;    /* of entries of the round, seen while they were new: the round counts them too */
    uint64_t news_from;               /* the next one to look at */
    int64_t news_at_ms;
    bool payloads_are_told, facts_are_told;
    int64_t round_ended_ms;         /* the last one, or when the patrol began */
    bool is_late;                   /* and that was told */
};

static struct result begin_round(struct log_patrol *patrol, struct error *err)
{
    struct signed_checkpoint checkpoint;

    TRY(sequencer_checkpoint(patrol->options.sequencer, &checkpoint, err));
    log_check_against(patrol->check, checkpoint.size, &checkpoint.root);
    patrol->tiles = (checkpoint.size + TILE_WIDTH - 1) / TILE_WIDTH;
    random_bytes((uint8_t *)&patrol->first, sizeof patrol->first);
    patrol->first %= patrol->tiles;
    patrol->done = 0;
    patrol->check->unreadable = 0;
    patrol->payloads = patrol->news = patrol->early = (struct payload_findings){0};
    patrol->payloads_are_told = patrol->facts_are_told = false;
    patrol->run = (struct run_place){.last = -1};
    patrol->notes = 0;
    metric_set(AUDIT_METRIC(audit_verify_size), (int64_t)checkpoint.size);
    patrol->phase = PHASE_TILES;
    return SUCCESS;
}

static void raise_to(struct metric *metric, uint64_t value)
{
    if (metric_value(metric) < (int64_t)value) metric_set(metric, (int64_t)value);
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* At once, and one line a round: what is missing may have been erased on purpose, and stays so. */
static void tell_payloads(struct log_patrol *patrol, const struct payload_findings *found)
{
    struct error why;

    raise_to(AUDIT_METRIC(audit_payloads_missing), larger(patrol->payloads.missing, patrol->early.missing) + patrol->news.missing);
    raise_to(AUDIT_METRIC(audit_payloads_damaged), larger(patrol->payloads.damaged, patrol->early.damaged) + patrol->news.damaged);
    if (patrol->payloads_are_told || found->missing + found->damaged == 0) return;
    patrol->payloads_are_told = true;
    failure_write(&why, ERROR_CORRUPT, "entry %llu is the first of this round", (unsigned long long)found->first);
    sequencer_notice(patrol->options.sequencer, "who did it can't be shown any more of events of the audit log: unless you erased that, find "
                                                "out who did", &why);
}

/* Likewise; but nobody erases facts on purpose. */
static void tell_facts(struct log_patrol *patrol, const struct payload_findings *found)
{
    struct error why;

    raise_to(AUDIT_METRIC(audit_facts_missing),
             larger(patrol->payloads.facts_missing, patrol->early.facts_missing) + patrol->news.facts_missing);
    raise_to(AUDIT_METRIC(audit_facts_damaged),
             larger(patrol->payloads.facts_damaged, patrol->early.facts_damaged) + patrol->news.facts_damaged);
    if (patrol->facts_are_told || found->facts_missing + found->facts_damaged == 0) return;
    patrol->facts_are_told = true;
    failure_write(&why, ERROR_CORRUPT, "entry %llu is the first of this round", (unsigned long long)found->first_facts);
    sequencer_notice(patrol->options.sequencer, "rows of audit_facts are gone or were edited, so decisions can't be made again: restore "
                                                "them from a backup, and find out who did it", &why);
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static struct result check_payloads(struct log_patrol *patrol, uint64_t first, uint64_t end, struct payload_findings *findings,
                                    struct error *err)
{
    const struct payload_keys keys = {patrol->options.sequencer->keyd, patrol->options.sequencer->origin};

    TRY(log_check_payloads(patrol->check, first, end, &keys, findings, err));
    tell_payloads(patrol, findings);
    tell_facts(patrol, findings);
    return SUCCESS;
}

/*
 * What is new: whether anything stands behind the end, and the sealed parts of entries that no look has passed yet. A round may come to
 * them in an hour.
 */
static struct result look_at_news(struct log_patrol *patrol, size_t *weight_out, struct error *err)
{
    struct signed_checkpoint checkpoint;
    struct error not_yet;

    *weight_out = 0;
    if (!sequencer_checkpoint(patrol->options.sequencer, &checkpoint, &not_yet).ok) return SUCCESS;
    TRY(log_check_end(patrol->pg, err));
    if (checkpoint.size > patrol->news_from + NEWS_MAX) patrol->news_from = checkpoint.size - NEWS_MAX;
    const bool is_early = patrol->news_from < patrol->check->size;
    const uint64_t until = smaller(is_early ? patrol->check->size : checkpoint.size, checkpoint.size);
    const uint64_t end = smaller(until, patrol->news_from + TILE_WIDTH);
    if (end <= patrol->news_from) return SUCCESS;
    TRY(check_payloads(patrol, patrol->news_from, end, is_early ? &patrol->early : &patrol->news, err));
    *weight_out = (size_t)(end - patrol->news_from);
    patrol->news_from = end;
    return SUCCESS;
}

static struct result check_next_tile(struct log_patrol *patrol, size_t *weight_out, struct error *err)
{
    const uint64_t index = (patrol->first + patrol->done) % patrol->tiles, first = index * TILE_WIDTH;

    TRY(log_check_tile(patrol->check, index, err));
    TRY(check_payloads(patrol, first, smaller(patrol->check->size, first + TILE_WIDTH), &patrol->payloads, err));
    patrol->done++;
    *weight_out = TILE_WIDTH;
    metric_add(AUDIT_METRIC(audit_verified), TILE_WIDTH);
    metric_set(AUDIT_METRIC(audit_verify_position), (int64_t)(patrol->done * TILE_WIDTH));
    if (patrol->done == patrol->tiles) patrol->phase = PHASE_RUNS;
    return SUCCESS;
}

static struct result check_next_runs(struct log_patrol *patrol, size_t *weight_out, struct error *err)
{
    TRY(log_check_runs(patrol->check, &patrol->run, weight_out, err));
    if (*weight_out == 0) patrol->phase = PHASE_NOTES;
    return SUCCESS;
}

/* At once, and one line of the program's log for each way through the table. */
static void tell_strange(struct log_patrol *patrol)
{
    struct error why;

    if (patrol->strange <= patrol->strange_told) return;
    metric_add(AUDIT_METRIC(audit_strange_checkpoints), (int64_t)(patrol->strange - patrol->strange_told));
    patrol->strange_told = patrol->strange;
    if (patrol->strange_is_told) return;
    patrol->strange_is_told = true;
    failure_write(&why, ERROR_DENIED, "%llu so far", (unsigned long long)patrol->strange);
    sequencer_notice(patrol->options.sequencer, "rows of audit_checkpoint were not signed by sijil-keyd, and are ignored: find out who wrote them", &why);
}

/* The end of the table: the next round begins with its first row again. */
static void begin_notes(struct log_patrol *patrol)
{
    patrol->note = NOTE_PLACE_FIRST;
    patrol->strange_told = patrol->strange;
    patrol->strange = 0;
    patrol->strange_is_told = false;
}

/* Of a log of so many entries no more notes can have been signed; the rows behind them wait for the next round. */
static uint64_t notes_of_a_round(const struct log_patrol *patrol)
{
    return patrol->check->size > NOTES_MIN ? patrol->check->size : NOTES_MIN;
}

static struct result check_next_notes(struct log_patrol *patrol, size_t *weight_out, struct error *err)
{
    uint64_t strange = 0;

    TRY(log_check_notes(patrol->check, &patrol->options.sequencer->log_key, &patrol->note, weight_out, &strange, err));
    patrol->strange += strange;
    patrol->notes += *weight_out;
    tell_strange(patrol);
    if (*weight_out == 0) begin_notes(patrol);
    if (*weight_out == 0 || patrol->notes >= notes_of_a_round(patrol)) patrol->phase = PHASE_END;
    return SUCCESS;
}

static struct result end_round(struct log_patrol *patrol, struct error *err)
{
    TRY(log_check_end(patrol->pg, err));
    metric_set(AUDIT_METRIC(audit_unreadable), (int64_t)patrol->check->unreadable);
    metric_set(AUDIT_METRIC(audit_payloads_missing), (int64_t)(patrol->payloads.missing + patrol->news.missing));
    metric_set(AUDIT_METRIC(audit_payloads_damaged), (int64_t)(patrol->payloads.damaged + patrol->news.damaged));
    metric_set(AUDIT_METRIC(audit_facts_missing), (int64_t)(patrol->payloads.facts_missing + patrol->news.facts_missing));
    metric_set(AUDIT_METRIC(audit_facts_damaged), (int64_t)(patrol->payloads.facts_damaged + patrol->news.facts_damaged));
    metric_set(AUDIT_METRIC(audit_verify_last), clock_wall_ms() / 1000);
    metric_add(AUDIT_METRIC(audit_verify_rounds), 1);
    patrol->round_ended_ms = clock_monotonic_ms();
    patrol->is_late = false;
    metric_set(AUDIT_METRIC(audit_verify_late), 0);
    patrol->phase = PHASE_BEGIN;
    return SUCCESS;
}

/* One piece: `weight` is how many entries or rows it was. */
static struct result work(struct log_patrol *patrol, bool is_news, size_t *weight_out, struct error *err)
{
    *weight_out = 0;
    pg_notice_loss(patrol->pg);
    if (pg_is_broken(patrol->pg)) TRY(pg_reopen(patrol->pg, err));
    if (is_news) return look_at_news(patrol, weight_out, err);
    switch (patrol->phase) {
    case PHASE_BEGIN: return begin_round(patrol, err);
    case PHASE_TILES: return check_next_tile(patrol, weight_out, err);
    case PHASE_RUNS: return check_next_runs(patrol, weight_out, err);
    case PHASE_NOTES: return check_next_notes(patrol, weight_out, err);
    case PHASE_END: return end_round(patrol, err);
    }
    return SUCCESS;
}

/* False: the patrol is to end. */
static bool rest(struct log_patrol *patrol, int64_t rest_ms)
{
    const int64_t wake_ms = clock_monotonic_ms() + rest_ms;
    const struct timespec until = {.tv_sec = wake_ms / 1000, .tv_nsec = wake_ms % 1000 * 1000000};

    (void)pthread_mutex_lock(&patrol->mutex);
    while (!patrol->is_stopping && clock_monotonic_ms() < wake_ms)
        (void)pthread_cond_clockwait(&patrol->stop, &patrol->mutex, CLOCK_MONOTONIC, &until);
    const bool goes_on = !patrol->is_stopping;
    (void)pthread_mutex_unlock(&patrol->mutex);
    return goes_on;
}

static int64_t rest_after_work(const struct log_patrol *patrol, bool is_news, size_t weight, int64_t busy_ms)
{
    const int64_t by_rate_ms = (int64_t)weight * 1000 / patrol->options.rate - busy_ms, by_share_ms = (SHARE - 1) * (busy_ms + 1);

    if (is_news && weight < TILE_WIDTH) return by_share_ms > NEWS_MS ? by_share_ms : NEWS_MS;
    if (!is_news && patrol->phase == PHASE_BEGIN) return (int64_t)patrol->options.rest_s * 1000;
    return by_rate_ms > by_share_ms ? by_rate_ms : by_share_ms;
}

/* A failure of the database or of memory says nothing of the log: the same piece is looked at again later. */
static int64_t rest_after_failure(const struct log_patrol *patrol, bool is_news, const struct error *why)
{
    if (!is_news && patrol->phase == PHASE_BEGIN) return FIRST_LOOK_MS;
    metric_add(AUDIT_METRIC(audit_verify_failures), 1);
    sequencer_notice(patrol->options.sequencer, "the audit log can't be verified now; it is tried again", why);
    return TRY_AGAIN_MS;
}

/* Whatever it is that keeps rounds from their end, it is told. Each piece ends: the database's statements have a time limit. */
static void tell_late(struct log_patrol *patrol)
{
    const int64_t expected_s = (int64_t)(patrol->check->size / patrol->options.rate) * LATE_FACTOR + patrol->options.rest_s;
    const int64_t now_ms = clock_monotonic_ms(), late_ms = (expected_s + patrol->options.patience_s) * 1000;
    struct error why;

    if (patrol->is_late || now_ms - patrol->round_ended_ms <= late_ms) return;
    patrol->is_late = true;
    metric_set(AUDIT_METRIC(audit_verify_late), 1);
    failure_write(&why, ERROR_UNAVAILABLE, "no round ended for %lld s; at entry %llu of %llu",
                  (long long)((now_ms - patrol->round_ended_ms) / 1000), (unsigned long long)patrol->done * TILE_WIDTH,
                  (unsigned long long)patrol->check->size);
    sequencer_notice(patrol->options.sequencer, "the verifier of the audit log does not come round: find out what keeps it", &why);
}

static void *run(void *argument)
{
    struct log_patrol *patrol = argument;
    int64_t round_at_ms = clock_monotonic_ms();

    pace_patient();
    while (rest(patrol, (round_at_ms < patrol->news_at_ms ? round_at_ms : patrol->news_at_ms) - clock_monotonic_ms())) {
        struct error err = {0};
        size_t weight = 0;
        int64_t rest_ms = 0;
        const int64_t began_ms = clock_monotonic_ms();
        const bool is_news = patrol->news_at_ms <= began_ms;
        if (work(patrol, is_news, &weight, &err).ok) {
            rest_ms = rest_after_work(patrol, is_news, weight, clock_monotonic_ms() - began_ms);
        } else if (err.kind == ERROR_FORKED) {
            sequencer_set_forked(patrol->options.sequencer, &err);
            break; /* it stays so */
        } else {
            rest_ms = rest_after_failure(patrol, is_news, &err);
        }
        *(is_news ? &patrol->news_at_ms : &round_at_ms) = clock_monotonic_ms() + rest_ms;
        tell_late(patrol);
    }
    return NULL;
}

static struct result open_patrol(struct log_patrol *patrol, struct error *err)
{
    static const struct pg_table *const tables[] = {&audit_check_table, &audit_tree_table, &audit_query_table, NULL};

    TRY(pg_open(patrol->options.conninfo, tables, &patrol->pg, err));
    TRY(log_check_new(patrol->pg, &patrol->check, err));
    if (pthread_create(&patrol->thread, NULL, run, patrol) != 0)
        return failure(err, ERROR_NO_MEMORY, "no thread for the patrol of the log");
    patrol->has_thread = true;
    return SUCCESS;
}

struct result log_patrol_start(const struct log_patrol_options *options, struct log_patrol **patrol_out, struct error *err)
{
    OWNED(log_patrol) *patrol = memory_zeroed(1, sizeof *patrol);

    if (patrol == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the patrol of the log");
    (void)pthread_mutex_init(&patrol->mutex, NULL);
    (void)pthread_cond_init(&patrol->stop, NULL);
    patrol->options = *options;
    patrol->round_ended_ms = patrol->news_at_ms = clock_monotonic_ms();
    begin_notes(patrol);
    TRY(open_patrol(patrol, err));
    *patrol_out = GIVE(patrol);
    return SUCCESS;
}

void log_patrol_free(struct log_patrol *patrol)
{
    if (patrol == NULL) return;
    (void)pthread_mutex_lock(&patrol->mutex);
    patrol->is_stopping = true;
    (void)pthread_cond_signal(&patrol->stop);
    (void)pthread_mutex_unlock(&patrol->mutex);
    if (patrol->has_thread) (void)pthread_join(patrol->thread, NULL);
    log_check_free(patrol->check);
    pg_free(patrol->pg);
    (void)pthread_cond_destroy(&patrol->stop);
    (void)pthread_mutex_destroy(&patrol->mutex);
    free(patrol);
}
