#include "gateway/background/witness_feed_priv.h"

#include <stdio.h>
#include <string.h>

#include "audit/cosigned_jobs.h"
#include "audit/job_permit.h"
#include "audit/metrics.h"
#include "audit/query.h"
#include "audit/sequencer.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "gateway/settings/settings.h"

#define LOOK_EVERY_MS 1000
#define BAD_ROUNDS    3 /* that a witness refuses before an event says so: two gateways may pass each other */

/* ---- what happened ---- */

static void record(struct witness_feed *feed, enum action action, const char *detail)
{
    struct action_pair pair = {.action = action, .resource.kind = RESOURCE_SYSTEM};
    OWNED(permit) *permit = NULL;
    struct error err = {0};

    (void)snprintf(pair.resource.detail, sizeof pair.resource.detail, "%s", detail);
    if (!permit_for_job(feed->sequencer, &pair, &permit, &err).ok) log_error("what the witnesses do is not recorded", &err);
}

static void note_lane(struct witness_feed *feed, struct witness_lane *lane)
{
    const bool is_bad = lane->reply.end != WITNESS_COSIGNED && lane->reply.end != WITNESS_AWAY;

    if (lane->reply.end == WITNESS_COSIGNED) lane->is_reported = false;
    else metric_add(is_bad ? AUDIT_METRIC(audit_witness_refusals) : AUDIT_METRIC(audit_witness_absences), 1);
    lane->bad_rounds = is_bad ? lane->bad_rounds + 1 : 0;
    if (lane->bad_rounds < BAD_ROUNDS || lane->is_reported) return;
    lane->is_reported = true;
    log_line(LOG_ERROR, "a witness does not cosign the log", "witness", lane->witness->member.name, "why", lane->reply.why, NULL);
    record(feed, ACTION_WITNESS_REFUSED, lane->witness->member.name);
}

static void say_late(struct witness_feed *feed, const struct error *why)
{
    const int64_t late_ms = clock_monotonic_ms() - feed->quorum_ms;

    if (feed->is_late || late_ms < feed->settings->witness_lag * 1000) return;
    feed->is_late = true;
    metric_set(AUDIT_METRIC(audit_witness_late), 1);
    log_error("no quorum of witnesses cosigns the log", why);
    witness_round_say(feed);
    record(feed, ACTION_WITNESS_LATE, "");
}

static void take(struct witness_feed *feed, const struct cosigned *cosigned)
{
    (void)pthread_mutex_lock(&feed->thread.mutex);
    if (cosigned->checkpoint.size >= feed->newest.checkpoint.size) feed->newest = *cosigned;
    (void)pthread_mutex_unlock(&feed->thread.mutex);
    metric_set(AUDIT_METRIC(audit_cosigned_size), (int64_t)feed->newest.checkpoint.size);
    metric_set(AUDIT_METRIC(audit_cosigned_last), (int64_t)feed->newest.verdict.since_s);
}

static void note_quorum(struct witness_feed *feed)
{
    feed->quorum_ms = clock_monotonic_ms();
    if (!feed->is_late) return;
    feed->is_late = false;
    metric_set(AUDIT_METRIC(audit_witness_late), 0);
    log_line(LOG_INFO, "a quorum of witnesses cosigns the log again", NULL);
    record(feed, ACTION_WITNESS_BACK, "");
}

/* ---- rounds ---- */

static bool is_recent(const struct cosigned *cosigned, int64_t seconds)
{
    return clock_wall_ms() / 1000 - (int64_t)cosigned->verdict.since_s < seconds;
}

/* Another gateway may have had the log cosigned: then this one need not. */
static struct result look(struct witness_feed *feed, struct error *err)
{
    struct cosigned *stored = memory_zeroed(1, sizeof *stored);
    struct error why = {0};

    if (stored == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a cosigned checkpoint");
    (void)pthread_mutex_lock(&feed->pg_mutex);
    struct result found = pg_is_broken(feed->pg) ? pg_reopen(feed->pg, &why) : SUCCESS;
    if (found.ok) found = cosigned_newest(feed->pg, witness_feed_keys(feed), feed->policy, stored, &why);
    (void)pthread_mutex_unlock(&feed->pg_mutex);
    if (found.ok) {
        take(feed, stored);
        if (is_recent(stored, feed->settings->witness_lag)) note_quorum(feed);
    }
    free(stored);
    return found.ok || why.kind == ERROR_NOT_FOUND ? SUCCESS : failure(err, why.kind, "%s", why.message);
}

static struct result keep(struct witness_feed *feed, const struct cosigned *cosigned, struct error *err)
{
    (void)pthread_mutex_lock(&feed->pg_mutex);
    const struct result stored = cosigned_store(feed->pg, cosigned, err);
    (void)pthread_mutex_unlock(&feed->pg_mutex);
    TRY(stored);
    take(feed, cosigned);
    note_quorum(feed);
    return witness_policy_show(feed, cosigned, err);
}

static struct result submit(struct witness_feed *feed, const struct signed_checkpoint *checkpoint, struct error *err)
{
    struct cosigned *cosigned = memory_zeroed(1, sizeof *cosigned);

    if (cosigned == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a cosigned checkpoint");
    witness_round_submit(feed, checkpoint);
    struct result result = witness_round_collect(feed, cosigned, err);
    if (result.ok) result = keep(feed, cosigned, err);
    free(cosigned);
    for (size_t i = 0; i < feed->policy->witness_count; i++) note_lane(feed, &feed->lanes[i]);
    return result;
}

static bool is_due(const struct witness_feed *feed, const struct signed_checkpoint *checkpoint)
{
    const int64_t interval_s = feed->settings->witness_interval;

    if (clock_monotonic_ms() - feed->round_ms < interval_s * 1000) return false;
    if (feed->newest.checkpoint.note[0] == '\0') return true;
    if (is_recent(&feed->newest, interval_s)) return false;
    return checkpoint->size > feed->newest.checkpoint.size || !is_recent(&feed->newest, feed->refresh_s);
}

/* Nothing is new, and the next refresh is not due. */
static bool is_covered(const struct witness_feed *feed, const struct signed_checkpoint *checkpoint)
{
    return feed->newest.checkpoint.note[0] != '\0' && checkpoint->size <= feed->newest.checkpoint.size &&
           is_recent(&feed->newest, feed->refresh_s);
}

static struct result step(struct witness_feed *feed, struct error *err)
{
    struct signed_checkpoint checkpoint;

    TRY(sequencer_checkpoint(feed->sequencer, &checkpoint, err));
    TRY(look(feed, err));
    if (is_covered(feed, &checkpoint)) note_quorum(feed);
    if (!is_due(feed, &checkpoint)) return SUCCESS;
    feed->round_ms = clock_monotonic_ms();
    return submit(feed, &checkpoint, err);
}

static void *feed_main(void *argument)
{
    struct witness_feed *feed = argument;
    struct error last = {0};

    do {
        struct error err = {0};
        witness_keyd_look(feed);
        if (!step(feed, &err).ok) last = err;
        say_late(feed, &last);
    } while (thread_sleep(&feed->thread, LOOK_EVERY_MS));
    return NULL;
}

/* ---- its life ---- */

static struct result open_ways(struct witness_feed *feed, const struct settings *settings, struct error *err)
{
    static const struct pg_table *const tables[] = {&cosigned_table, &audit_tree_table, NULL};
    struct networks networks = {0};

    TRY(networks_parse("witness_networks", settings->witness_networks, &networks, err));
    const struct outgoing_options rules = {.reach = networks.count == 0 ? OUTGOING_USUAL : OUTGOING_LISTED,
                                           .networks = networks,
                                           .ca_file = settings->witness_ca_file};
    TRY(outgoing_new(&rules, &feed->outgoing, err));
    return pg_open_lazily(settings->database, tables, &feed->pg, err);
}

/* A policy in the log key's name is in force until the root signs another one, so a configuration can't leave it out. */
static struct result without_policy(struct keyd_client *keyd, struct error *err)
{
    struct keyd_witnesses witnesses = {.is_pinned = false};
    struct error why;

    if (keyd_witnesses(keyd, &witnesses, &why).ok && witnesses.is_pinned)
        return failure(err, ERROR_INVALID, "sijil-keyd has pinned a policy of witnesses: set witness_policy to the file with it");
    return SUCCESS;
}

static struct result prepare(struct witness_feed *feed, const struct keyd_identity *identity, struct error *err)
{
    const struct settings *settings = feed->settings;

    TRY(log_key_list_load(&feed->log_keys, feed->keyd, identity, err));
    TRY(witness_policy_open(feed, settings->witness_policy, err));
    for (size_t i = 0; i < feed->policy->witness_count; i++)
        feed->lanes[i] = (struct witness_lane){
            .feed = feed, .witness = &feed->policy->witnesses[i], .reply.line = BUFFER(COSIGNATURE_LINE_MAX)};
    TRY(witness_policy_pin(feed, err));
    return open_ways(feed, settings, err);
}

struct result witness_feed_new(const struct witness_feed_options *options, struct witness_feed **feed_out, struct error *err)
{
    OWNED(witness_feed) *feed = NULL;

    *feed_out = NULL;
    if (options->settings->witness_policy[0] == '\0') return without_policy(options->keyd, err);
    feed = memory_zeroed(1, sizeof *feed);
    if (feed == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the feed of witnesses");
    feed->settings = options->settings;
    feed->keyd = options->keyd;
    feed->refresh_s = WITNESS_REFRESH_S;
    feed->quorum_ms = clock_monotonic_ms();
    feed->round_ms = feed->quorum_ms - feed->settings->witness_interval * 1000;
    (void)pthread_mutex_init(&feed->pg_mutex, NULL);
    TRY(prepare(feed, options->identity, err));
    *feed_out = GIVE(feed);
    return SUCCESS;
}

struct result witness_feed_ask_once(const struct witness_feed_options *options, struct error *err)
{
    OWNED(witness_feed) *feed = NULL;

    TRY(witness_feed_new(options, &feed, err));
    return feed == NULL ? SUCCESS : witness_feed_open_keyd(feed, err);
}

struct result witness_feed_start(struct witness_feed *feed, struct sequencer *sequencer, atomic_bool *is_without_out,
                                 struct error *err)
{
    feed->sequencer = sequencer;
    feed->is_without = is_without_out;
    return thread_start(&feed->thread, feed_main, feed, "has the log cosigned", err);
}

/* The mutex is part of the thread, so it exists once that has started. */
struct result witness_feed_newest(struct witness_feed *feed, struct cosigned *cosigned_out, struct error *err)
{
    (void)pthread_mutex_lock(&feed->thread.mutex);
    *cosigned_out = feed->newest;
    (void)pthread_mutex_unlock(&feed->thread.mutex);
    if (cosigned_out->checkpoint.note[0] != '\0') return SUCCESS;
    return failure(err, ERROR_UNAVAILABLE, "no quorum of witnesses has cosigned a checkpoint of this log yet");
}

struct bytes witness_feed_text(const struct witness_feed *feed)
{
    return buffer_bytes(&feed->text);
}

const struct witness_policy *witness_feed_policy(const struct witness_feed *feed)
{
    return feed->policy;
}

void witness_feed_free(struct witness_feed *feed)
{
    if (feed == NULL) return;
    atomic_store(&feed->gives_up, true);
    thread_stop(&feed->thread);
    for (size_t i = 0; i < WITNESS_POLICY_WITNESSES_MAX; i++) buffer_done(&feed->lanes[i].reply.line);
    buffer_done(&feed->file);
    buffer_done(&feed->text);
    pg_free(feed->pg);
    outgoing_free(feed->outgoing);
    witness_policy_free(feed->policy);
    log_key_list_done(&feed->log_keys);
    (void)pthread_mutex_destroy(&feed->pg_mutex);
    free(feed);
}
