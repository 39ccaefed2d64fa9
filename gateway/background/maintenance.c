#include "gateway/background/maintenance.h"

#include <inttypes.h>
#include <stdio.h>

#include "audit/job_permit.h"
#include "audit/kept_answer_jobs.h"
#include "audit/log_key_jobs.h"
#include "audit/log_key_list.h"
#include "audit/sequencer.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/priority.h"
#include "base/text.h"
#include "base/thread.h"
#include "crypto/keyd_client.h"
#include "gateway/background/erasures.h"
#include "gateway/background/holds.h"
#include "gateway/background/mint_watch.h"
#include "gateway/background/runner_doubts.h"
#include "gateway/pipeline/gateway.h"
#include "registry/jobs/advisory_lock.h"
#include "registry/jobs/clean_up.h"
#include "registry/maintenance.h"
#include "registry/registry.h"
#include "training/checkpoint_jobs.h"
#include "training/expire.h"
#include "training/lease_jobs.h"
#include "training/log_jobs.h"
#include "training/order_jobs.h"

#define ROUND_EVERY_MS 30000
#define ROUND_MS       20000 /* of cleaning in a round, so that a large backlog does not delay the other work */

struct maintenance {
    struct gateway *gateway;
    struct pg *pg;
    struct thread thread;
    struct mint_watch mints;
    struct erasures erasures;
    struct log_key_list log_keys;
    bool is_woken;             /* with the thread's mutex */
    uint64_t unwraps_reported; /* keyd's count in the newest keyd.unwraps event of this gateway */
};

static bool is_stopping(void *context)
{
    struct maintenance *maintenance = context;

    return thread_is_stopping(&maintenance->thread);
}

/* True: there is more to do. */
static bool clean(struct maintenance *maintenance)
{
    const struct clean_up_options options = {.lasts_ms = ROUND_MS, .is_stopping = is_stopping, .context = maintenance};
    struct error err = {0};
    bool has_more = false;

    if (!registry_clean_up_for(maintenance->gateway->registry, maintenance->pg, &options, &has_more, &err).ok)
        log_error("cleaning up failed; it is tried again", &err);
    return has_more;
}

/* The due work on training runs. A round does at most a hundred pieces of each kind; the next round goes on. */
static const struct drain {
    struct result (*drain)(struct sequencer *sequencer, struct pg *pg, size_t *count_out, struct error *err);
    const char *failed;
} drains[] = {
    {run_expire_due, "ending expired runs failed; it is tried again"},
    {run_lose_due, "ending lost attempts of runs failed; it is tried again"},
    {run_log_forget_due, "removing logs of runs that are over failed; it is tried again"},
};

/* True: there may be more. */
static bool free_ended(struct maintenance *maintenance)
{
    struct error err = {0};
    size_t count = 0;

    if (!run_free_ended(maintenance->gateway->keyd, maintenance->pg, &count, &err).ok)
        log_error("sijil-keyd is not told which runs have ended; it is tried again", &err);
    return count > 0;
}

/* True: there may be more. */
static bool forget_checkpoints(struct maintenance *maintenance)
{
    OWNED(ecdsa_key) *signer = NULL;
    struct error err = {0};
    size_t count = 0;

    if (!keyd_signer(maintenance->gateway->keyd, &signer, &err).ok) return false; /* /readyz shows it already */
    if (!run_checkpoint_forget_due(maintenance->gateway->sequencer, maintenance->pg, signer, &count, &err).ok)
        log_error("removing checkpoints of runs that are over failed; it is tried again", &err);
    return count > 0;
}

/* True: there may be more. */
static bool drain_runs(struct maintenance *maintenance)
{
    struct error err = {0};
    bool has_more = false;

    for (size_t i = 0; i < sizeof drains / sizeof drains[0]; i++) {
        size_t count = 0;
        if (!drains[i].drain(maintenance->gateway->sequencer, maintenance->pg, &count, &err).ok)
            log_error(drains[i].failed, &err);
        has_more = has_more || count > 0;
    }
    if (!kept_answer_forget(maintenance->pg, &err).ok) log_error("deleting answers to repeats failed; it is tried again", &err);
    if (!run_offer_forget(maintenance->pg, &err).ok) log_error("removing old offers of runners failed; it is tried again", &err);
    has_more = forget_checkpoints(maintenance) || has_more;
    return free_ended(maintenance) || has_more;
}

/*
 * keyd keeps a chain of all data keys that it unwrapped. Count and head of the chain go into the log, so that an auditor can compare them with
 * the recorded reads: a compromised gateway can't use more keys than the log shows (docs/keys.md).
 */
static void report_unwraps(struct maintenance *maintenance)
{
    struct action_pair pair = {.action = ACTION_KEYD_UNWRAPS, .resource.kind = RESOURCE_SYSTEM};
    struct keyd_identity identity;
    char head[2 * sizeof identity.unwrap_chain + 1];
    OWNED(permit) *permit = NULL;
    struct error err = {0};

    if (!keyd_identify(maintenance->gateway->keyd, &identity, &err).ok) return; /* /readyz shows it already */
    if (identity.unwrap_count == maintenance->unwraps_reported) return;
    text_hex(identity.unwrap_chain, sizeof identity.unwrap_chain, head);
    (void)snprintf(pair.resource.detail, sizeof pair.resource.detail, "%" PRIu64 ",sha256:%s", identity.unwrap_count, head);
    if (!permit_for_job(maintenance->gateway->sequencer, &pair, &permit, &err).ok) return;
    maintenance->unwraps_reported = identity.unwrap_count;
}

/* Under the lock, so that one gateway alone records it. */
static void record_log_keys(struct maintenance *maintenance)
{
    struct keyd_identity identity;
    struct error err = {0};

    if (!keyd_identify(maintenance->gateway->keyd, &identity, &err).ok) return; /* /readyz shows it already */
    struct result recorded = log_key_list_load(&maintenance->log_keys, maintenance->gateway->keyd, &identity, &err);
    if (recorded.ok)
        recorded = log_key_record(maintenance->gateway->sequencer, maintenance->pg, log_key_view(&maintenance->log_keys), &err);
    if (!recorded.ok) log_error("a new key of the log is not recorded; it is tried again", &err);
}

/* Reads and records the count under one lock. Else a newer count could be recorded before an older one of another gateway. */
static void record_unwraps(struct maintenance *maintenance)
{
    struct error ignored = {0};
    bool is_ours = false;

    if (!advisory_lock_take(maintenance->pg, LOCK_OF_UNWRAP_COUNT, &is_ours, &ignored).ok || !is_ours)
        return; /* another gateway records it */
    report_unwraps(maintenance);
    record_log_keys(maintenance);
    (void)advisory_lock_release(maintenance->pg, LOCK_OF_UNWRAP_COUNT, &ignored).ok; /* a broken connection releases it too */
}

static bool is_connected(struct maintenance *maintenance)
{
    struct error ignored = {0}; /* the readers log it already */

    return !pg_is_broken(maintenance->pg) || pg_reopen(maintenance->pg, &ignored).ok;
}

static void rest(struct maintenance *maintenance)
{
    const int64_t until_ms = clock_monotonic_ms() + ROUND_EVERY_MS;
    struct thread *thread = &maintenance->thread;

    (void)pthread_mutex_lock(&thread->mutex);
    while (!maintenance->is_woken && !thread->is_stopping && clock_monotonic_ms() < until_ms) thread_wait(thread, until_ms);
    maintenance->is_woken = false;
    (void)pthread_mutex_unlock(&thread->mutex);
}

void maintenance_wake(struct maintenance *maintenance)
{
    struct thread *thread = &maintenance->thread;

    (void)pthread_mutex_lock(&thread->mutex);
    maintenance->is_woken = true;
    (void)pthread_cond_signal(&thread->woken);
    (void)pthread_mutex_unlock(&thread->mutex);
}

static void *maintenance_main(void *argument)
{
    struct maintenance *maintenance = argument;

    priority_background();
    while (!is_stopping(maintenance)) {
        bool has_more = false;
        registry_forget_old_keys(maintenance->gateway->registry); /* also while the database is away */
        memory_give_back_free();
        if (is_connected(maintenance)) {
            record_unwraps(maintenance);
            has_more = mint_watch_check(&maintenance->mints, maintenance->gateway->keyd, maintenance->pg);
            has_more = clean(maintenance) || has_more;
            has_more = drain_runs(maintenance) || has_more;
            has_more = runner_doubts_add(maintenance->gateway, maintenance->pg) || has_more;
            (void)holds_watch(maintenance->gateway, maintenance->pg);
            has_more = erasures_step(&maintenance->erasures, maintenance->gateway, maintenance->pg) || has_more;
            has_more =
                pg_is_broken(maintenance->pg) || has_more; /* the round found a dead connection: the next one has another */
        }
        if (!has_more) rest(maintenance);
    }
    return NULL;
}

struct result maintenance_start(struct gateway *gateway, struct maintenance **maintenance_out, struct error *err)
{
    OWNED(maintenance) *maintenance = memory_zeroed(1, sizeof *maintenance);

    if (maintenance == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for cleaning up");
    maintenance->gateway = gateway;
    TRY(pg_open_lazily(gateway->settings->database, gateway->tables, &maintenance->pg, err));
    TRY(thread_start(&maintenance->thread, maintenance_main, maintenance, "cleans up", err));
    *maintenance_out = GIVE(maintenance);
    return SUCCESS;
}

void maintenance_free(struct maintenance *maintenance)
{
    if (maintenance == NULL) return;
    thread_stop(&maintenance->thread);
    erasures_done(&maintenance->erasures);
    log_key_list_done(&maintenance->log_keys);
    pg_free(maintenance->pg);
    free(maintenance);
}
