/* The plan of a policy set: planning/ makes it, and this runs it as a job. It begins again when it was interrupted. What it works on now is told at once. */
#include "base/text.h"
#include "registry/jobs/job_priv.h"

static bool go_on(void *context, unsigned phase, uint64_t done, uint64_t total)
{
    struct job_run *run = context;
    const bool is_next = run->job.phase != (enum job_phase)phase;
    struct error ignored = {0}; /* job_go_on() tries again */

    run->job.phase = (enum job_phase)phase;
    run->job.done = done;
    run->job.total = total;
    if (is_next) (void)job_save(run, &ignored).ok;
    return job_go_on(run);
}

struct result job_find_plan(const struct permit *permit, struct pg *pg, const struct uuid *id, struct job_plan *plan_out,
                            struct error *err)
{
    struct job_plan plan = {.rows = NULL};
    struct job_texts texts;

    (void)permit_resource(permit, ACTION_POLICY_PLAN);
    TRY(job_row_find(pg, id, NULL, &plan.job, err));
    if (plan.job.kind != JOB_PLAN) return failure(err, ERROR_NOT_FOUND, "there is no such plan");
    TRY(job_row_texts(pg, id, &texts, &plan.rows, err));
    plan.report = texts.report;
    *plan_out = plan;
    return SUCCESS;
}

struct result plan_run(struct job_run *run, struct error *err)
{
    struct job_texts texts;
    OWNED(pg_rows) *rows = NULL;
    bool is_whole = false;

    permit_require(run->permit, ACTION_JOB_RUN, &run->where);
    if (run->options->plan == NULL) return failure(err, ERROR_INVALID, "this program makes no plans");
    TRY(job_row_texts(run->pg, &run->job.id, &texts, &rows, err));
    run->job.waits_for[0] = '\0';
    const struct job_plan_task task = {
        .pg = run->pg, .input = bytes_of_text(texts.input), .now_ms = run->job.started_ms, .run = run, .go_on = go_on};
    TRY(run->options->plan(run->options->context, &task, &run->report, &is_whole, err));
    if (is_whole) run->job.phase = JOB_DONE;
    return SUCCESS;
}
