/* The thread that renews the decider's snapshot: it listens for changes, and also polls every few seconds. */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "audit/query.h"
#include "authz/break_glass_entry.h"
#include "authz/officer_entry.h"
#include "authz/snapshot.h"
#include "base/clock.h"
#include "base/memory.h"
#include "documents/document_store.h"
#include "policy/decider/decider_priv.h"
#include "policy/decider/metrics.h"
#include "policy/set_exceptions.h"

#define CHANNEL  "sijil_epoch"
#define AWAIT_MS 2000 /* the longest time that a request waits for a load, which takes milliseconds */
#define RETRY_MS 1000 /* between attempts to reconnect to the database */
#define LOOK_MS \
    1000 /* changes of rights alone are loaded without a look at policy sets and documents so long after the last one */
#define COUNT_MS 5000 /* roles that end soon are counted again after so long */
#define DAY_MS   INT64_C(86400000)
#define REST_MS  25 /* after a load, unless a request waits for the next one: changes that come meanwhile are read together */

static void count_officers(const struct authz_snapshot *rights)
{
    metric_set(&policy_metrics_rows[POLICY_METRIC_OFFICERS], officers_are_demanded(authz_snapshot_rules(rights)) ? 1 : 0);
    metric_set(&policy_metrics_rows[POLICY_METRIC_UNSIGNED], (int64_t)authz_snapshot_unsigned(rights));
}

/* Nobody else tells a person that a service will stop next week because its role ends. */
static void report_ending(struct decider *decider, size_t count)
{
    const int64_t now_ms = clock_monotonic_ms();
    struct error why = {.kind = ERROR_LIMIT};

    if (count == 0 || decider->notice == NULL || (decider->told_ms != 0 && now_ms - decider->told_ms < DAY_MS)) return;
    decider->told_ms = now_ms;
    (void)snprintf(why.message, sizeof why.message, "%zu within %u days: sijil admin access review --ending %u shows them", count,
                   decider->notice_days, decider->notice_days);
    decider->notice("roles end soon: give them again, or let them end", &why);
}

/* All roles are looked at, so it is done now and then. */
static void count_ending(struct decider *decider, const struct authz_snapshot *rights)
{
    const int64_t now_ms = clock_monotonic_ms(), wall_ms = clock_wall_ms();

    if (decider->counted_ms != 0 && now_ms - decider->counted_ms < COUNT_MS) return;
    decider->counted_ms = now_ms;
    const size_t count = authz_snapshot_ending(rights, wall_ms, wall_ms + decider->notice_days * DAY_MS);
    metric_set(&policy_metrics_rows[POLICY_METRIC_ENDING], (int64_t)count);
    report_ending(decider, count);
}

/* At each look, because exceptions begin and end with the time. */
static void count_exceptions(const struct policy_set *set)
{
    size_t in_force = 0;
    const int64_t until_us = set == NULL ? 0 : policy_set_exceptions_until(set, clock_wall_ms() * 1000, &in_force);

    metric_set(&policy_metrics_rows[POLICY_METRIC_EXCEPTIONS], (int64_t)in_force);
    metric_set(&policy_metrics_rows[POLICY_METRIC_EXCEPTION_END], until_us / 1000000);
}

static void publish(struct decider *decider, struct snapshot *loaded)
{
    struct snapshot *old = loaded;

    metric_add(&policy_metrics_rows[POLICY_METRIC_LOADS], 1);
    metric_set(&policy_metrics_rows[POLICY_METRIC_RIGHTS_EPOCH], (int64_t)loaded->epoch);
    metric_set(&policy_metrics_rows[POLICY_METRIC_ENDLESS], (int64_t)authz_snapshot_endless(loaded->authz));
    metric_set(&policy_metrics_rows[POLICY_METRIC_SET_EPOCH], loaded->set == NULL ? 0 : (int64_t)policy_set_epoch(loaded->set));
    if (decider->snapshot != loaded) count_officers(loaded->authz);
    metric_set(&policy_metrics_rows[POLICY_METRIC_ATTESTED],
               loaded->set == NULL ? 0 : policy_set_attested_until(loaded->set) / 1000000);
    count_exceptions(loaded->set);
    /* Before the decider has it: a change under one of its decisions finds documents in the directory that are at least as new. Only this thread changes it. */
    if (decider->snapshot != loaded && decider->directory != NULL) authz_directory_publish(decider->directory, loaded->authz);
    (void)pthread_mutex_lock(&decider->lock);
    if (decider->snapshot != loaded) {
        old = decider->snapshot;
        decider->snapshot = loaded;
    }
    (void)pthread_mutex_unlock(&decider->lock);
    snapshot_free(old);                              /* releases the previous snapshot, or the second owner of an unchanged one */
    count_ending(decider, decider->snapshot->authz); /* after it: a right that was taken waits for no count */
}

/* Reports the same result once: such rows stay in the database until a person removes them. */
static void report_unrecorded_sets(struct decider *decider)
{
    const struct unrecorded_sets now = decider->source.unrecorded;
    struct error why = {.kind = ERROR_DENIED};

    metric_set(&policy_metrics_rows[POLICY_METRIC_UNRECORDED_SETS], (int64_t)now.count);
    const bool is_new = now.count != decider->reported.count || now.newest != decider->reported.newest;
    decider->reported = now;
    if (now.count == 0 || !is_new || decider->notice == NULL) return;
    (void)snprintf(why.message, sizeof why.message,
                   "%llu%s newer than the one in force, up to epoch %llu, and no event policy.load of the signed log names them",
                   (unsigned long long)now.count, now.count < UNRECORDED_SETS_MAX ? "" : " or more",
                   (unsigned long long)now.newest);
    decider->notice("policy sets that nobody loaded stand in the database, and do not come into force: find out who wrote them",
                    &why);
}

/* Only the owner of the database, or the restore of a backup, can lower the epoch. */
static void log_behind(struct decider *decider, uint64_t epoch, uint64_t least)
{
    struct error why = {.kind = ERROR_CORRUPT};
    const bool is_new = epoch < least && !decider->is_behind_logged;

    decider->is_behind_logged = epoch < least;
    if (!is_new || decider->notice == NULL) return;
    (void)snprintf(why.message, sizeof why.message, "it is %llu, and was %llu", (unsigned long long)epoch,
                   (unsigned long long)least);
    decider->notice(
        "the authorization epoch in the database went back, so all rights are read at every look: find out who did that", &why);
}

static uint64_t read_least_epoch(struct decider *decider)
{
    (void)pthread_mutex_lock(&decider->lock);
    const uint64_t least = decider->least_epoch;
    (void)pthread_mutex_unlock(&decider->lock);
    return least;
}

/* sijil-keyd and the tables of documents are asked now and then, and when the epoch says that something there has changed. */
static bool must_look(struct decider *decider, int64_t now_ms)
{
    const int64_t most_ms = decider->poll_ms < LOOK_MS ? decider->poll_ms : LOOK_MS;

    (void)pthread_mutex_lock(&decider->lock);
    const bool wants = decider->wants_look;
    decider->wants_look = false;
    (void)pthread_mutex_unlock(&decider->lock);
    return wants || decider->looked_ms == 0 || now_ms - decider->looked_ms >= most_ms;
}

static struct result load(struct decider *decider, struct error *err)
{
    struct snapshot *loaded = NULL;
    const uint64_t least = read_least_epoch(decider);
    const int64_t now_ms = clock_monotonic_ms();
    const bool looks = must_look(decider, now_ms);

    const struct snapshot_source source = {&decider->source, decider->documents, looks ? 0 : decider->looked_ms};
    if (looks) decider->looked_ms = 0;                                   /* after a failure, the next load looks, too */
    TRY(snapshot_load(&source, decider->snapshot, least, &loaded, err)); /* no other thread replaces it */
    if (looks) decider->looked_ms = now_ms;
    report_unrecorded_sets(decider);
    log_behind(decider, loaded->epoch, least);
    publish(decider, loaded);
    return SUCCESS;
}

/* Takes all waiting notifications, so that one load serves them all. */
static struct result drain(struct decider *decider, bool *notified_out, struct error *err)
{
    bool notified = false, any = false;

    do {
        TRY(pg_wait_notify(decider->source.pg, 0, &notified, err));
        any |= notified;
    } while (notified);
    *notified_out = any;
    return SUCCESS;
}

static struct result reconnect(struct decider *decider, struct error *err)
{
    return pg_is_broken(decider->source.pg) ? pg_reopen(decider->source.pg, err) : SUCCESS; /* the new connection listens again */
}

/* Most notifications that come during a load are of what it has read. One statement tells it, and a load takes several. */
static struct result has_changed(struct decider *decider, bool *has_changed_out, struct error *err)
{
    uint64_t epoch = 0;

    TRY(tenancy_epoch(decider->source.pg, &epoch, err));
    *has_changed_out = epoch != decider->snapshot->epoch; /* only this thread replaces it */
    return SUCCESS;
}

static struct result renew(struct decider *decider, struct error *err)
{
    bool notified = false;

    TRY(reconnect(decider, err));
    do {
        TRY(drain(decider, &notified, err));
        TRY(load(decider, err));
        TRY(drain(decider, &notified,
                  err)); /* libpq has read notifications that came during the load, so poll() would not report them */
        if (notified) TRY(has_changed(decider, &notified, err));
    } while (notified);
    return SUCCESS;
}

static uint64_t read_wanted_epoch(struct decider *decider, bool *is_stopping_out)
{
    (void)pthread_mutex_lock(&decider->lock);
    const uint64_t wanted = decider->wanted;
    *is_stopping_out = decider->is_stopping;
    (void)pthread_mutex_unlock(&decider->lock);
    return wanted;
}

static void report(struct decider *decider, uint64_t wanted, const struct error *problem)
{
    if (problem->kind != ERROR_NONE) metric_add(&policy_metrics_rows[POLICY_METRIC_LOAD_FAILURES], 1);
    (void)pthread_mutex_lock(&decider->lock);
    decider->problem = *problem;
    decider->done = wanted;
    (void)pthread_cond_broadcast(&decider->loaded);
    (void)pthread_mutex_unlock(&decider->lock);
}

static void wait_for_work(struct decider *decider)
{
    const bool is_broken = pg_is_broken(decider->source.pg);
    struct pollfd sources[] = {{.fd = decider->wake, .events = POLLIN},
                               {.fd = is_broken ? -1 : pg_socket(decider->source.pg), .events = POLLIN}};
    uint64_t count = 0;

    (void)poll(sources, 2, (int)(is_broken && decider->poll_ms > RETRY_MS ? RETRY_MS : decider->poll_ms));
    const int64_t rest_ms = decider->rested_ms - clock_monotonic_ms();
    if ((sources[0].revents & POLLIN) == 0 && rest_ms > 0) (void)poll(sources, 1, (int)rest_ms);
    if ((sources[0].revents & POLLIN) == 0) return;
    const ssize_t taken = read(decider->wake, &count, sizeof count);
    assert(taken == (ssize_t)sizeof count); /* a readable eventfd always has eight bytes */
}

static void *run(void *argument)
{
    struct decider *decider = argument;
    bool is_stopping = false;

    for (;;) {
        struct error problem = {0};
        wait_for_work(decider);
        const uint64_t wanted = read_wanted_epoch(decider, &is_stopping);
        if (is_stopping) return NULL;
        if (renew(decider, &problem).ok) problem = (struct error){0};
        decider->rested_ms = clock_monotonic_ms() + REST_MS;
        report(decider, wanted, &problem);
    }
}

static void wake(struct decider *decider)
{
    const uint64_t one = 1;

    const ssize_t written = write(decider->wake, &one, sizeof one);
    assert(written == (ssize_t)sizeof one); /* a write blocks only if the counter is full, which never happens */
}

static void deadline_after(unsigned wait_ms, struct timespec *deadline)
{
    (void)clock_gettime(CLOCK_MONOTONIC, deadline);
    deadline->tv_sec += wait_ms / 1000;
    deadline->tv_nsec += (long)(wait_ms % 1000) * 1000000;
    if (deadline->tv_nsec < 1000000000) return;
    deadline->tv_sec++;
    deadline->tv_nsec -= 1000000000;
}

static void raise_least_epoch(struct decider *decider, uint64_t epoch)
{
    (void)pthread_mutex_lock(&decider->lock);
    if (decider->least_epoch < epoch) decider->least_epoch = epoch;
    (void)pthread_mutex_unlock(&decider->lock);
}

static struct result refresh_within(struct decider *decider, unsigned wait_ms, bool looks, struct error *err)
{
    struct timespec deadline;
    int waited = 0;

    deadline_after(wait_ms, &deadline);
    (void)pthread_mutex_lock(&decider->lock);
    const uint64_t ticket = ++decider->wanted;
    decider->wants_look = decider->wants_look || looks;
    wake(decider);
    while (decider->done < ticket && waited == 0) waited = pthread_cond_timedwait(&decider->loaded, &decider->lock, &deadline);
    const struct error problem = decider->problem;
    (void)pthread_mutex_unlock(&decider->lock);
    if (waited != 0) return failure(err, ERROR_UNAVAILABLE, "rights and policies could not be read in time");
    if (problem.kind != ERROR_NONE) return failure(err, problem.kind, "%s", problem.message);
    return SUCCESS;
}

struct result decider_refresh(struct decider *decider, struct error *err)
{
    return refresh_within(decider, decider->stale_ms, true, err);
}

struct result decider_await_newer(struct decider *decider, uint64_t epoch, struct error *err)
{
    raise_least_epoch(decider, epoch + 1);
    if (decider_epoch(decider) > epoch) return SUCCESS;
    return refresh_within(decider, AWAIT_MS, false, err);
}

static struct result start_thread(struct decider *decider, struct error *err)
{
    sigset_t all, before;

    (void)sigfillset(&all); /* the main thread handles signals */
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failed = pthread_create(&decider->thread, NULL, run, decider);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed != 0) return failure(err, ERROR_NO_MEMORY, "no thread for the policy loader: %s", strerror(failed));
    decider->has_thread = true;
    return SUCCESS;
}

static void init_lock(struct decider *decider)
{

    (void)pthread_mutex_init(&decider->lock, NULL);
    clock_condition(&decider->loaded);
}

static struct result set_up(struct decider *decider, const struct decider_options *options, struct error *err)
{
    static const struct pg_table *const tables[] = {&decider_table,        &policy_set_table,  &authz_snapshot_table,
                                                    &persons_places_table, &audit_tree_table,  &document_table,
                                                    &scim_load_table,      &break_glass_table, NULL};

    decider->source.keyd = options->keyd;
    decider->source.sequencer = options->sequencer;
    decider->documents = options->documents;
    decider->notice = options->notice;
    decider->directory = options->directory;
    decider->poll_ms = options->poll_ms;
    decider->stale_ms = options->stale_ms;
    decider->notice_days = options->notice_days;
    if (options->metadata_region != NULL)
        (void)snprintf(decider->metadata_region, sizeof decider->metadata_region, "%s", options->metadata_region);
    decider->wake = eventfd(0, EFD_CLOEXEC);
    if (decider->wake < 0) return failure(err, ERROR_UNAVAILABLE, "no eventfd: %s", strerror(errno));
    TRY(pg_open(options->conninfo, tables, &decider->source.pg, err));
    return pg_listen(decider->source.pg, CHANNEL, err);
}

struct result decider_start(const struct decider_options *options, struct decider **decider_out, struct error *err)
{
    OWNED(decider) *decider = memory_zeroed(1, sizeof *decider);

    if (decider == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the decider");
    decider->wake = -1;
    init_lock(decider);
    decider->lacks = memory_zeroed(1, sizeof *decider->lacks);
    if (decider->lacks == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the decider");
    (void)pthread_mutex_init(&decider->lacks->lock, NULL);
    TRY(set_up(decider, options, err));
    TRY(load(decider, err)); /* LISTEN ran before, so no change is missed */
    TRY(start_thread(decider, err));
    *decider_out = GIVE(decider);
    return SUCCESS;
}

void decider_free(struct decider *decider)
{
    if (decider == NULL) return;
    if (decider->has_thread) {
        (void)pthread_mutex_lock(&decider->lock);
        decider->is_stopping = true;
        (void)pthread_mutex_unlock(&decider->lock);
        wake(decider);
        (void)pthread_join(decider->thread, NULL);
    }
    pg_free(decider->source.pg);
    snapshot_free(decider->snapshot);
    if (decider->wake >= 0) (void)close(decider->wake);
    (void)pthread_cond_destroy(&decider->loaded);
    (void)pthread_mutex_destroy(&decider->lock);
    free(decider->lacks);
    free(decider);
}
