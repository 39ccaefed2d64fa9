#include "runner/sandbox/sandbox_priv.h"

#include <sys/resource.h>
#include <unistd.h>

#include "base/file.h"

#define COMPLAINT_MAX 4096

const char *sandbox_end_name(enum sandbox_end end)
{
    static const char *const names[] = {"ended", "timeout", "cancelled", "out-of-memory"};

    return names[end];
}

static int64_t milliseconds(const struct timeval *time)
{
    return (int64_t)time->tv_sec * 1000 + time->tv_usec / 1000;
}

/* Without control groups: the kernel's sum for all children that have ended; the memory is that of the largest process. */
static void note_use(struct sandbox *sandbox, const struct rusage *before)
{
    struct cgroup_use use = {.cpu_us = -1, .memory_bytes = -1};
    struct rusage after = {0};

    (void)getrusage(RUSAGE_CHILDREN, &after);
    if (sandbox->cgroup != NULL) cgroup_read_use(sandbox->cgroup, &use);
    sandbox->report.cpu_ms = milliseconds(&after.ru_utime) + milliseconds(&after.ru_stime) - milliseconds(&before->ru_utime) -
                             milliseconds(&before->ru_stime);
    if (use.cpu_us >= 0) sandbox->report.cpu_ms = use.cpu_us / 1000;
    sandbox->report.memory_bytes = use.memory_bytes >= 0 ? use.memory_bytes : (int64_t)after.ru_maxrss * 1024;
    if (use.was_out_of_memory && sandbox->report.end == SANDBOX_ENDED) sandbox->report.end = SANDBOX_MEMORY;
    sandbox->report.log = hasher_digest(sandbox->log);
}

static struct result count_only(void *context, const struct output_file *file, struct error *err)
{
    (void)context, (void)file, (void)err;
    return SUCCESS;
}

/* Errors of the caller's functions are passed on; errors of the outputs are in the report. */
struct outputs {
    const struct sandbox_options *options;
    bool own_error;
};

static struct result hand_on(void *context, const struct output_file *file, struct error *err)
{
    struct outputs *outputs = context;
    const struct result done =
        (outputs->options->output == NULL ? count_only : outputs->options->output)(outputs->options->context, file, err);

    outputs->own_error = !done.ok;
    return done;
}

struct result sandbox_take_outputs(const struct sandbox_options *options, int folder, struct sandbox_report *report,
                                   struct error *err)
{
    const struct run_limits *limits = options->limits;
    struct outputs outputs = {.options = options};
    struct output_walk walk = {.what = "output",
                               .rules = {.files_max = limits->output_files, .bytes_max = limits->output_bytes},
                               .take = hand_on,
                               .context = &outputs};

    report->outputs_refused = !output_walk(&walk, folder, &report->refusal).ok;
    report->output_files = walk.files;
    report->output_bytes = walk.bytes;
    if (!outputs.own_error) return SUCCESS;
    *err = report->refusal;
    return (struct result){.ok = false};
}

static struct result run(struct sandbox *sandbox, struct error *err)
{
    struct rusage before = {0};

    TRY(sandbox_prepare_run(sandbox, err));
    (void)getrusage(RUSAGE_CHILDREN, &before);
    TRY(sandbox_start(sandbox, err));
    TRY(sandbox_watch(sandbox, err));
    note_use(sandbox, &before);
    if (sandbox->options->ended != NULL) sandbox->options->ended(sandbox->options->context, &sandbox->report);
    return sandbox_take_outputs(sandbox->options, sandbox->out, &sandbox->report, err);
}

/* Removes all processes, groups and folders, also after a failure. */
static struct result clean_up(struct sandbox *sandbox, struct error *err)
{
    sandbox_kill(sandbox);
    file_close_owned(&sandbox->out);
    file_close_owned(&sandbox->beat);
    file_close_owned(&sandbox->arguments);
    file_close_owned(&sandbox->filter);
    file_close_owned(&sandbox->channel[0]);
    file_close_owned(&sandbox->channel[1]);
    child_output_free(sandbox->printed);
    hasher_free(sandbox->log);
    buffer_done(&sandbox->complaint);
    cgroup_free(sandbox->cgroup);
    return work_remove(&sandbox->work, err);
}

struct result sandbox_run(const struct sandbox_options *options, struct sandbox_report *report_out, struct error *err)
{
    struct sandbox sandbox = {.options = options,
                              .work = WORK_NONE,
                              .arguments = -1,
                              .filter = -1,
                              .channel = {-1, -1},
                              .out = -1,
                              .beat = -1,
                              .complaint = BUFFER(COMPLAINT_MAX)};
    struct error left;
    const struct result done = run(&sandbox, err);
    const struct result cleaned = clean_up(&sandbox, &left);

    TRY(done);
    if (!cleaned.ok) return failure(err, left.kind, "the run has ended, but its folder is left: %.200s", left.message);
    *report_out = sandbox.report;
    return SUCCESS;
}
