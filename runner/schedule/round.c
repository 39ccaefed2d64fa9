/* One look at the registry and at the cluster. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "runner/schedule/schedule_priv.h"

/* ---- what is listed ---- */

static struct tracked *find(struct tracked *tracked, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(tracked[i].name, name) == 0) return &tracked[i];
    return NULL;
}

static void track_jobs(const struct slurm_listed *jobs, size_t count, struct tracked *tracked, size_t *tracked_count)
{
    for (size_t i = 0; i < count; i++) {
        struct tracked *each = find(tracked, *tracked_count, jobs[i].name);
        if (each == NULL && !slurm_is_open(jobs[i].status.state)) continue;
        if (each == NULL) {
            each = &tracked[(*tracked_count)++];
            (void)snprintf(each->name, sizeof each->name, "%s", jobs[i].name);
        }
        each->job = jobs[i].status;
    }
}

/* The runs, then jobs without a run. What was remembered of each goes on. */
static struct result track(struct scheduler *scheduler, const struct queue_answer *queue, const struct slurm_listed *jobs,
                           size_t job_count, struct error *err)
{
    struct tracked *tracked = memory_zeroed(TRACKED_MAX, sizeof *tracked);
    size_t count = 0;

    if (tracked == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list of jobs");
    for (size_t i = 0; i < queue->count; i++) {
        tracked[count].run = &queue->runs[i];
        plan_name(scheduler->own, queue->runs[i].run, queue->runs[i].attempt, tracked[count].name);
        if (find(tracked, count, tracked[count].name) == NULL) count++;
    }
    track_jobs(jobs, job_count, tracked, &count);
    for (size_t i = 0; i < count; i++) {
        const struct tracked *known = find(scheduler->tracked, scheduler->count, tracked[i].name);
        if (known != NULL) tracked[i].memory = known->memory;
    }
    free(scheduler->tracked);
    scheduler->tracked = tracked;
    scheduler->count = count;
    return SUCCESS;
}

/* ---- jobs ---- */

/* "H200=gpu:h200" names the devices of a run that asks for H200. */
static void name_gres(const struct schedule_options *options, const struct queued_run *run, char gres_out[SLURM_TEXT_SIZE])
{
    const char *name = "gpu";
    const size_t length = strlen(run->device_type);

    for (size_t i = 0; i < options->gres_count; i++)
        if (strncmp(options->gres[i], run->device_type, length) == 0 && options->gres[i][length] == '=')
            name = options->gres[i] + length + 1;
    (void)snprintf(gres_out, SLURM_TEXT_SIZE, "%.100s:%lld", name, (long long)run->devices);
}

static struct result start(struct scheduler *scheduler, struct tracked *tracked, struct error *err)
{
    const struct schedule_options *options = scheduler->options;
    const struct queued_run *run = tracked->run;
    struct buffer OWNED_BUFFER features = BUFFER((size_t)4 * SLURM_NODES_SIZE), place = BUFFER(SLURM_NODES_SIZE);
    const char *regions[QUEUE_REGIONS_MAX];
    char gres[SLURM_TEXT_SIZE], attempt[16];

    for (size_t i = 0; i < run->region_count; i++) regions[i] = run->regions[i];
    TRY(plan_features(regions, run->region_count, &features, err));
    TRY(buffer_format(&place, err, "--jobs=%s", options->jobs));
    name_gres(options, run, gres);
    (void)snprintf(attempt, sizeof attempt, "%lld", (long long)run->attempt);
    const struct slurm_job job = {.name = tracked->name,
                                  .partition = options->partition,
                                  .feature = run->region_count == 0 ? NULL : buffer_text(&features),
                                  .gres = run->devices > 0 ? gres : NULL,
                                  .folder = "/",
                                  .nodes = run->nodes,
                                  .cpus = run->cpus,
                                  .memory_bytes = run->memory_bytes,
                                  .time_s = run->time_s + options->extra_s,
                                  .word_count = 5,
                                  .words = {options->program, "job", buffer_text(&place), run->run, attempt}};
    return slurm_start(scheduler->slurm, &job, &tracked->job, err);
}

static struct result act(struct scheduler *scheduler, struct tracked *tracked, enum plan_act what, struct error *err)
{
    struct error why = {0};

    if (what == PLAN_CANCEL) {
        log_line(LOG_INFO, "a job is ended", "job", tracked->name, "state", slurm_state_name(tracked->job.state), NULL);
        return slurm_cancel(scheduler->slurm, tracked->name, tracked->job.id, err);
    }
    if (start(scheduler, tracked, &why).ok) {
        log_line(LOG_INFO, "a job was started", "job", tracked->name, NULL);
        return SUCCESS;
    }
    if (why.kind != ERROR_DENIED && why.kind != ERROR_INVALID) return failure(err, why.kind, "%s", why.message);
    tracked->memory.next_ms = clock_monotonic_ms() + PLAN_MOST_MS; /* the cluster can't run it now; other runs go on */
    log_error("a job was refused", &why);
    return SUCCESS;
}

static struct result act_on_all(struct scheduler *scheduler, bool has_more, struct error *err)
{
    const int64_t now_ms = clock_monotonic_ms();

    for (size_t i = 0; i < scheduler->count; i++) {
        struct tracked *tracked = &scheduler->tracked[i];
        const enum plan_need need = tracked->run == NULL ? PLAN_GONE : tracked->run->is_held ? PLAN_HELD : PLAN_WAITS;
        if (need == PLAN_GONE && has_more) continue; /* it may be behind the end of the registry's list */
        const struct plan_view view = {
            .need = need, .job = &tracked->job, .patience_ms = scheduler->options->patience_ms, .now_ms = now_ms};
        const enum plan_act what = plan_decide(&view, &tracked->memory);
        if (what != PLAN_NOTHING) TRY(act(scheduler, tracked, what, err));
    }
    return SUCCESS;
}

/* ---- one look ---- */

static struct result work(struct scheduler *scheduler, const struct queue_answer *queue, struct error *err)
{
    struct slurm_listed *jobs = NULL;
    size_t count = 0;

    if (scheduler->slurm == NULL) TRY(slurm_open(&scheduler->options->slurm, &scheduler->slurm, err));
    TRY(slurm_list(scheduler->slurm, scheduler->prefix, &jobs, &count, err));
    struct result done = track(scheduler, queue, jobs, count, err);
    free(jobs);
    if (done.ok) done = act_on_all(scheduler, queue->has_more, err);
    for (size_t i = 0; i < scheduler->count; i++) scheduler->tracked[i].run = NULL; /* it ends with this round */
    return done;
}

struct result scheduler_round(struct scheduler *scheduler, struct error *err)
{
    struct queue_answer queue = {.count = 0};
    struct queue_wish wish = {.generation = lease_journal_generation(scheduler->journal),
                              .region_count = scheduler->options->region_count,
                              .regions = scheduler->options->regions};
    enum lease_answer answer = LEASE_NONE;

    memcpy(wish.session, scheduler->session, sizeof wish.session);
    struct result done = calls_queue(scheduler->calls, &wish, &queue, &answer, err);
    if (done.ok && answer == LEASE_SUSPENDED) scheduler->is_suspended = true;
    else if (done.ok) done = work(scheduler, &queue, err);
    queue_answer_done(&queue);
    return done;
}
