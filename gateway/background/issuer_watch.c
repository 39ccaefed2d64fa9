#include "gateway/background/issuer_watch.h"

#include <stdio.h>
#include <string.h>

#include "audit/job_permit.h"
#include "authz/issuer_jobs.h"
#include "authz/snapshot.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/thread.h"
#include "crypto/digest.h"
#include "gateway/background/issuer_fetch.h"
#include "gateway/background/issuer_way.h"
#include "gateway/pipeline/gateway.h"

#define LOOK_EVERY_MS    1000
#define CONFIRM_EVERY_MS 30000
#define WORKERS          4 /* half of them for issuers that failed the last time */

struct worker {
    struct issuer_watch *watch;
    unsigned number;
    bool is_failed; /* the last look failed, and the log says so */
    int64_t confirmed_ms;
    struct pg *pg;
    struct thread thread;
};

struct issuer_watch {
    struct gateway *gateway;
    struct outgoing *outgoing;
    atomic_bool gives_up;
    struct worker workers[WORKERS];
};

/* ---- what this gateway's tokens want, and what others have fetched ---- */

/* Tokens named keys that are not known. */
static struct result pass_wishes(struct worker *worker, const struct authz_snapshot *snapshot, struct error *err)
{
    struct uuid ids[ISSUER_WISHES_MAX];
    const size_t count = authz_snapshot_wishes(snapshot, ids, ISSUER_WISHES_MAX);

    return count == 0 ? SUCCESS : issuer_wish(worker->pg, ids, count, err);
}

static void confirm(void *context, const char *url, int64_t confirmed_ms)
{
    authz_snapshot_confirm(context, url, confirmed_ms);
}

static struct result look_around(struct worker *worker, struct error *err)
{
    OWNED(authz_snapshot) *snapshot = authz_directory_take(worker->watch->gateway->directory);

    if (snapshot == NULL) return SUCCESS;
    TRY(pass_wishes(worker, snapshot, err));
    if (worker->confirmed_ms != 0 && clock_monotonic_ms() - worker->confirmed_ms < CONFIRM_EVERY_MS) return SUCCESS;
    TRY(issuer_confirmations(worker->pg, confirm, snapshot, err));
    worker->confirmed_ms = clock_monotonic_ms();
    return SUCCESS;
}

/* ---- asking ---- */

/* The event names the issuer by its id, and the keys by the digest of their text. */
static struct result renew(struct worker *worker, const struct issuer_task *task, const char *jwks, const char *sha256,
                           struct error *err)
{
    struct action_pair pair = {.action = ACTION_ISSUER_KEYS, .resource.kind = RESOURCE_SYSTEM};
    struct issuer_renew renewal;
    struct record record;
    char id[UUID_TEXT_SIZE];

    uuid_format(&task->id, id);
    (void)snprintf(pair.resource.detail, sizeof pair.resource.detail, "%s sha256:%s", id, sha256);
    issuer_renew_init(&renewal, task, jwks);
    TRY(record_prepare_for_job(&pair, &renewal.change, &record, err));
    sequencer_submit_and_wait(worker->watch->gateway->sequencer, &record);
    const enum record_status status = record.status;
    const struct error why = record.error;
    record_done(&record);
    if (status == RECORD_DONE) return SUCCESS;
    return failure(err, status == RECORD_REFUSED ? why.kind : ERROR_UNAVAILABLE, "%s", why.message);
}

static struct result keep(struct worker *worker, const struct issuer_task *task, const struct issuer_answer *answer,
                          struct error *err)
{
    uint8_t digest[SHA256_SIZE];
    char sha256[2 * SHA256_SIZE + 1];

    sha256_of(buffer_bytes(&answer->jwks), digest);
    text_hex(digest, sizeof digest, sha256);
    if (strcmp(sha256, task->jwks_sha256) == 0) return SUCCESS;
    TRY(renew(worker, task, buffer_text(&answer->jwks), sha256, err));
    log_line(LOG_INFO, "an issuer has published other keys, which count now", "issuer", task->url, NULL);
    return SUCCESS;
}

static void tell(const struct issuer_task *task, const char *problem)
{
    if (problem != NULL && task->failures == 0)
        log_line(LOG_WARNING, "an issuer's keys can't be fetched; the old ones count for a day after it last confirmed them",
                 "issuer", task->url, "why", problem, NULL);
    if (problem == NULL && task->failures > 0)
        log_line(LOG_INFO, "an issuer's keys are fetched again", "issuer", task->url, NULL);
}

static struct result ask(struct worker *worker, const struct issuer_task *task, struct error *err)
{
    struct issuer_watch *watch = worker->watch;
    OWNED_ISSUER_ANSWER answer = ISSUER_ANSWER;
    OWNED(outgoing) *own = NULL;

    TRY(issuer_way_own(watch->gateway->settings, task->url, &own, err));
    TRY(issuer_fetch(own == NULL ? watch->outgoing : own, task, &watch->gives_up, &answer, err));
    if (atomic_load(&watch->gives_up)) return SUCCESS; /* its claim ends in a minute */
    const char *problem = answer.problem[0] == '\0' ? NULL : answer.problem;
    if (problem == NULL) TRY(keep(worker, task, &answer, err));
    tell(task, problem);
    return issuer_task_end(worker->pg, task, &(struct issuer_report){problem, buffer_text(&answer.report)}, err);
}

static struct result work(struct worker *worker, struct error *err)
{
    const bool is_for_failed = worker->number >= WORKERS / 2;
    struct issuer_task task;
    bool found = true;

    if (pg_is_broken(worker->pg)) TRY(pg_reopen(worker->pg, err));
    while (found && !thread_is_stopping(&worker->thread)) {
        if (worker->number == 0) TRY(look_around(worker, err));
        TRY(issuer_task_claim(worker->pg, is_for_failed, &task, &found, err));
        if (found) TRY(ask(worker, &task, err));
    }
    return SUCCESS;
}

static void *worker_main(void *argument)
{
    struct worker *worker = argument;

    do {
        struct error err = {0};
        const bool is_well = work(worker, &err).ok || err.kind == ERROR_CONFLICT;
        if (!is_well && !worker->is_failed && !atomic_load(&worker->watch->gives_up))
            log_error("keys of issuers can't be kept current; it is tried again", &err);
        worker->is_failed = !is_well;
    } while (thread_sleep(&worker->thread, LOOK_EVERY_MS));
    return NULL;
}

/* ---- its life ---- */

static struct result start_worker(struct issuer_watch *watch, unsigned number, struct error *err)
{
    static const struct pg_table *const tables[] = {&issuer_jobs_table, NULL};
    struct worker *worker = &watch->workers[number];

    worker->watch = watch;
    worker->number = number;
    TRY(pg_open_lazily(watch->gateway->settings->database, tables, &worker->pg, err));
    return thread_start(&worker->thread, worker_main, worker, "fetches keys of issuers", err);
}

struct result issuer_watch_start(struct gateway *gateway, struct issuer_watch **watch_out, struct error *err)
{
    OWNED(issuer_watch) *watch = memory_zeroed(1, sizeof *watch);

    if (watch == NULL) return failure(err, ERROR_NO_MEMORY, "no memory to follow issuers");
    watch->gateway = gateway;
    TRY(issuer_way_new(gateway->settings, &watch->outgoing, err));
    for (unsigned i = 0; i < WORKERS; i++) TRY(start_worker(watch, i, err));
    *watch_out = GIVE(watch);
    return SUCCESS;
}

void issuer_watch_free(struct issuer_watch *watch)
{
    if (watch == NULL) return;
    atomic_store(&watch->gives_up, true);
    for (unsigned i = 0; i < WORKERS; i++) {
        thread_stop(&watch->workers[i].thread);
        pg_free(watch->workers[i].pg);
    }
    outgoing_free(watch->outgoing);
    free(watch);
}
