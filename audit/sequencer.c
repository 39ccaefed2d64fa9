#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "audit/log_check_priv.h"
#include "audit/sequencer_priv.h"
#include "audit/succession.h"
#include "base/clock.h"
#include "base/memory.h"

void record_done(struct record *record)
{
    decision_free(record->decision);
    permit_free(record->permit);
    record->decision = NULL;
    record->permit = NULL;
}

void sequencer_count_refused(struct sequencer *sequencer)
{
    if (atomic_fetch_add(&sequencer->refused, 1) > 0) return;
    (void)pthread_mutex_lock(&sequencer->mutex);
    (void)pthread_cond_signal(&sequencer->work);
    (void)pthread_mutex_unlock(&sequencer->mutex);
}

void sequencer_notice(const struct sequencer *sequencer, const char *what, const struct error *why)
{
    if (sequencer->notice != NULL) sequencer->notice(what, why);
}

void sequencer_set_forked(struct sequencer *sequencer, const struct error *why)
{
    assert(why->kind == ERROR_FORKED);
    (void)pthread_mutex_lock(&sequencer->mutex);
    const bool is_first = !sequencer_is_forked(sequencer);
    if (is_first) sequencer->forked = *why;
    if (is_first) sequencer->sign_is_wanted = true; /* the signer reports it to sijil-keyd */
    (void)pthread_cond_signal(&sequencer->sign_work);
    (void)pthread_cond_signal(&sequencer->work);
    (void)pthread_mutex_unlock(&sequencer->mutex);
    metric_set(AUDIT_METRIC(audit_forked), 1);
    if (is_first)
        sequencer_notice(sequencer, "the audit log in the database is not the one that was signed; nothing is served any more",
                         why);
}

static const struct error not_signed = {ERROR_UNAVAILABLE, "the audit log was not signed within 5 s"};

bool sequencer_is_ready(const struct sequencer *sequencer, struct error *err)
{
    struct sequencer *mutable = (struct sequencer *)(uintptr_t)sequencer; /* for its mutex only */

    (void)pthread_mutex_lock(&mutable->mutex);
    const bool is_late =
        sequencer->unsigned_since_ms != 0 && clock_monotonic_ms() - sequencer->unsigned_since_ms > UNSIGNED_MAX_MS;
    const bool is_forked = sequencer_is_forked(sequencer);
    const struct error why = is_forked ? sequencer->forked : sequencer->is_broken ? sequencer->last_error : sequencer->sign_error;
    const bool is_ready = !is_forked && !sequencer->is_broken && !is_late;
    (void)pthread_mutex_unlock(&mutable->mutex);
    if (!is_ready) *err = why.kind == ERROR_NONE ? not_signed : why;
    return is_ready;
}

struct result sequencer_checkpoint(const struct sequencer *sequencer, struct signed_checkpoint *checkpoint_out, struct error *err)
{
    struct sequencer *mutable = (struct sequencer *)(uintptr_t)sequencer; /* for its mutex only */

    (void)pthread_mutex_lock(&mutable->mutex);
    const struct error forked = sequencer->forked;
    const struct signed_checkpoint newest = sequencer->newest;
    (void)pthread_mutex_unlock(&mutable->mutex);
    if (forked.kind != ERROR_NONE) {
        *err = forked;
        return (struct result){.ok = false};
    }
    if (newest.size == 0) return failure(err, ERROR_UNAVAILABLE, "no checkpoint of the log is signed yet; ask again in a second");
    *checkpoint_out = newest;
    return SUCCESS;
}

const struct log_keys *sequencer_log_keys(const struct sequencer *sequencer)
{
    return log_key_view(&sequencer->log_keys);
}

static void init_locks(struct sequencer *sequencer)
{

    (void)pthread_mutex_init(&sequencer->mutex, NULL);
    clock_condition(&sequencer->work);
    clock_condition(&sequencer->unresolved_work);
    clock_condition(&sequencer->sign_work);
    clock_condition(&sequencer->sign_done);
    clock_condition(&sequencer->watchdog_work);
    queue_init(&sequencer->ready);
    queue_init(&sequencer->unresolved);
    queue_init(&sequencer->joining);
    queue_init(&sequencer->overflow);
}

static struct result open_connections(struct sequencer *sequencer, const struct sequencer_options *options, struct error *err)
{
    static const struct pg_table *const sign_tables[] = {&audit_sign_table, &audit_tree_table, &audit_check_table,
                                                         &audit_succession_table, NULL};
    static const struct pg_table *const subject_tables[] = {&audit_subject_table, NULL};
    const struct pg_table *tables[APPEND_TABLES_MAX + 1] = {&audit_append_table, &audit_tree_table};
    size_t count = 2;

    for (size_t i = 0; options->tables != NULL && options->tables[i] != NULL; i++) {
        if (options->tables[i] == &audit_tree_table) continue; /* the caller may list it too */
        assert(count < APPEND_TABLES_MAX);
        tables[count++] = options->tables[i];
    }
    TRY(pg_open(options->conninfo, tables, &sequencer->pg, err));
    TRY(pg_open(options->conninfo, sign_tables, &sequencer->sign_pg, err));
    return pg_open(options->conninfo, subject_tables, &sequencer->resolver_pg, err);
}

static struct result allocate(struct sequencer *sequencer, struct error *err)
{
    sequencer->group = memory_zeroed(1, sizeof *sequencer->group);
    sequencer->sign_tiles = memory_zeroed(1, sizeof *sequencer->sign_tiles);
    if (sequencer->group == NULL || sequencer->sign_tiles == NULL)
        return failure(err, ERROR_NO_MEMORY, "no memory for the sequencer of the log");
    TRY(log_cache_new(&sequencer->cache, err));
    sequencer->group->boxes = BUFFER(GROUP_RECORDS_MAX * (size_t)32768);
    sequencer->group->leaves = BUFFER(GROUP_EVENTS_MAX * (size_t)LEAF_MAX * 2);
    sequencer->group->frontier_text = BUFFER(64 * MERKLE_HASH_SIZE);
    sequencer->group_limit = GROUP_RECORDS_MAX;
    return subject_cache_new(SUBJECTS_MAX, &sequencer->subjects, err);
}

static struct result start_threads(struct sequencer *sequencer, struct error *err)
{
    const struct {
        pthread_t *thread;
        void *(*run)(void *);
    } threads[] = {
        {&sequencer->group_thread, sequencer_group_run},
        {&sequencer->resolver_thread, sequencer_resolver_run},
        {&sequencer->sign_thread, sequencer_sign_run},
        {&sequencer->watchdog_thread, sequencer_watchdog_run},
    };

    for (size_t i = 0; i < sizeof threads / sizeof threads[0]; i++) {
        if (pthread_create(threads[i].thread, NULL, threads[i].run, sequencer) != 0)
            return failure(err, ERROR_NO_MEMORY, "no threads for the sequencer of the log");
        sequencer->thread_count++;
    }
    return SUCCESS;
}

static struct result copy_options(struct sequencer *sequencer, const struct sequencer_options *options, struct error *err)
{
    if (options->origin[0] == '\0' || options->instance[0] == '\0')
        return failure(err, ERROR_INVALID, "the audit log needs an origin and a name for this gateway");
    (void)snprintf(sequencer->origin, sizeof sequencer->origin, "%s", options->origin);
    (void)snprintf(sequencer->instance, sizeof sequencer->instance, "%s", options->instance);
    sequencer->keyd = options->keyd;
    sequencer->notice = options->notice;
    sequencer->succeeds = options->succeeds;
    sequencer->deadline_ms = options->deadline_ms == 0 ? DEADLINE_MS : options->deadline_ms;
    return SUCCESS;
}

struct result sequencer_start(const struct sequencer_options *options, struct sequencer **sequencer_out, struct error *err)
{
    OWNED(sequencer) *sequencer = memory_zeroed(1, sizeof *sequencer);

    if (sequencer == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the sequencer of the log");
    init_locks(sequencer);
    sequencer->append_socket = -1;
    TRY(copy_options(sequencer, options, err));
    TRY(allocate(sequencer, err));
    TRY(open_connections(sequencer, options, err));
    TRY(audit_name_log(sequencer->pg, sequencer->origin, err));
    TRY(sequencer_check_log(sequencer, err));
    TRY(sequencer_sign_now(sequencer, err)); /* entries that were left unsigned are signed before anything is served */
    TRY(audit_next_boot(sequencer->pg, &sequencer->boot, err));
    TRY(audit_count_erasures(sequencer->pg, &sequencer->erasures, err)); /* before any key of a person is looked up */
    sequencer->next_number = 1;
    sequencer_guard_socket(sequencer);
    TRY(start_threads(sequencer, err));
    *sequencer_out = GIVE(sequencer);
    return SUCCESS;
}

static void stop_threads(struct sequencer *sequencer)
{
    const pthread_t threads[] = {sequencer->group_thread, sequencer->resolver_thread, sequencer->sign_thread,
                                 sequencer->watchdog_thread};

    (void)pthread_mutex_lock(&sequencer->mutex);
    sequencer->is_stopping = true;
    if (sequencer->thread_count < 2) sequencer->resolver_is_done = true; /* the resolver was never started */
    (void)pthread_cond_broadcast(&sequencer->work);
    (void)pthread_cond_broadcast(&sequencer->unresolved_work);
    (void)pthread_cond_broadcast(&sequencer->sign_work);
    (void)pthread_cond_broadcast(&sequencer->watchdog_work);
    (void)pthread_mutex_unlock(&sequencer->mutex);
    for (size_t i = 0; i < sequencer->thread_count; i++) (void)pthread_join(threads[i], NULL);
}

static void free_group(struct group *group)
{
    if (group == NULL) return;
    buffer_done(&group->boxes);
    buffer_done(&group->leaves);
    buffer_done(&group->frontier_text);
    free(group);
}

void sequencer_free(struct sequencer *sequencer)
{
    if (sequencer == NULL) return;
    stop_threads(sequencer);
    if (sequencer->append_socket >= 0) (void)close(sequencer->append_socket);
    pg_free(sequencer->pg);
    pg_free(sequencer->sign_pg);
    pg_free(sequencer->resolver_pg);
    free_group(sequencer->group);
    free(sequencer->sign_tiles);
    log_cache_free(sequencer->cache);
    subject_cache_free(sequencer->subjects);
    log_key_list_done(&sequencer->log_keys);
    (void)pthread_cond_destroy(&sequencer->work);
    (void)pthread_cond_destroy(&sequencer->unresolved_work);
    (void)pthread_cond_destroy(&sequencer->sign_work);
    (void)pthread_cond_destroy(&sequencer->sign_done);
    (void)pthread_cond_destroy(&sequencer->watchdog_work);
    (void)pthread_mutex_destroy(&sequencer->mutex);
    free(sequencer);
}
