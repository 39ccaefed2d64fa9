/* While the program runs: its log, its heartbeat, the clock, the request to stop. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "client/terminal.h"
#include "runner/sandbox/sandbox_priv.h"

#define LOOK_EACH_MS 50
#define KILL_MS      60000 /* the kernel may take long for the memory of a large process */
#define BEAT_SIZE    256   /* bytes of its first line */

struct result sandbox_take_log(void *context, enum child_stream stream, struct bytes piece, struct error *err)
{
    struct sandbox *sandbox = context;
    const int64_t room = sandbox->options->limits->log_bytes - sandbox->report.log_bytes;
    const size_t kept = (int64_t)piece.length < room ? piece.length : (size_t)room;

    if (!sandbox->has_begun) { /* bwrap's own messages, cut to the buffer */
        const size_t left = sandbox->complaint.maximum - sandbox->complaint.length;
        return buffer_add(&sandbox->complaint, piece.data, piece.length < left ? piece.length : left, err);
    }
    sandbox->report.log_bytes += (int64_t)kept;
    sandbox->report.log_dropped += (int64_t)(piece.length - kept);
    if (kept == 0) return SUCCESS;
    const struct bytes taken = {piece.data, kept};
    hasher_add(sandbox->log, taken);
    if (sandbox->options->log != NULL) sandbox->options->log(sandbox->options->context, stream == CHILD_ERRORS, taken);
    return SUCCESS;
}

/* The program made this file, so it may be anything. Only a regular file is read, and without waiting. */
static void read_beat(struct sandbox *sandbox)
{
    OWNED_FD file = openat(sandbox->beat, "heartbeat", O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY);
    struct stat about;
    char line[BEAT_SIZE];

    if (file < 0 || fstat(file, &about) != 0 || !S_ISREG(about.st_mode)) return;
    const int64_t changed_ns = (int64_t)about.st_mtim.tv_sec * 1000000000 + about.st_mtim.tv_nsec;
    if (changed_ns == sandbox->beat_ns) return;
    const ssize_t length = read(file, line, sizeof line - 1);
    if (length <= 0) return;
    sandbox->beat_ns = changed_ns;
    line[length] = '\0';
    line[strcspn(line, "\n")] = '\0';
    terminal_sanitize(line);
    if (sandbox->options->progress != NULL) sandbox->options->progress(sandbox->options->context, line);
}

/*
 * TERM goes to the program's own group. bwrap, its leader, does not end by TERM. A process that ignores TERM, or left the group,
 * gets KILL.
 */
static void ask_to_stop(struct sandbox *sandbox, enum sandbox_end why)
{
    const pid_t group = getpgid(sandbox->payload);

    sandbox->report.end = why;
    if (group > 1) (void)kill(-group, SIGTERM);
}

static bool is_cancelled(const struct sandbox *sandbox)
{
    return sandbox->options->cancelled != NULL && *sandbox->options->cancelled != 0;
}

static bool has_ended(struct sandbox *sandbox)
{
    if (sandbox->keeper > 0 && child_has_ended(sandbox->keeper, &sandbox->status)) sandbox->keeper = 0;
    return sandbox->keeper == 0;
}

void sandbox_kill(struct sandbox *sandbox)
{
    if (sandbox->keeper > 0 && child_end(sandbox->keeper, SIGTERM, KILL_MS, &sandbox->status)) sandbox->keeper = 0;
}

static void each_second(struct sandbox *sandbox)
{
    const int64_t now_ms = clock_monotonic_ms();
    struct cgroup_use use = {.cpu_us = -1, .memory_bytes = -1};

    if (sandbox->options->each_second == NULL || now_ms < sandbox->second_ms) return;
    sandbox->second_ms = now_ms + 1000;
    if (sandbox->cgroup != NULL) cgroup_read_use(sandbox->cgroup, &use);
    sandbox->options->each_second(sandbox->options->context, &use);
}

static struct result look(struct sandbox *sandbox, bool *open, struct error *err)
{
    if (*open) TRY(child_output_read(sandbox->printed, LOOK_EACH_MS, open, err));
    else (void)usleep(LOOK_EACH_MS * 1000 / 5);
    read_beat(sandbox);
    each_second(sandbox);
    return SUCCESS;
}

static struct result until_end(struct sandbox *sandbox, struct error *err)
{
    const struct run_limits *limits = sandbox->options->limits;
    int64_t kill_at_ms = INT64_MAX;
    bool open = true;

    while (!has_ended(sandbox)) {
        const int64_t now_ms = clock_monotonic_ms();
        const bool is_late = now_ms >= sandbox->began_ms + limits->time_s * 1000;
        if (kill_at_ms == INT64_MAX && (is_late || is_cancelled(sandbox))) {
            ask_to_stop(sandbox, is_late ? SANDBOX_TIMEOUT : SANDBOX_CANCELLED);
            kill_at_ms = now_ms + limits->grace_s * 1000;
        }
        if (now_ms >= kill_at_ms) sandbox_kill(sandbox);
        TRY(look(sandbox, &open, err));
    }
    while (open) TRY(child_output_read(sandbox->printed, LOOK_EACH_MS, &open, err)); /* no process is left to write more */
    return SUCCESS;
}

/* bwrap(1) ends like a shell: with 128 plus the signal's number. */
static void note_status(struct sandbox *sandbox)
{
    struct sandbox_report *report = &sandbox->report;
    const int code = WIFEXITED(sandbox->status) ? WEXITSTATUS(sandbox->status) : 128 + WTERMSIG(sandbox->status);

    report->signal = code > 128 && code <= 128 + SIGRTMAX ? code - 128 : 0;
    report->exit = report->signal == 0 ? code : -1;
}

/* The program could not begin: that is an error of the order, and no result of the run. */
static struct result check_begun(const struct sandbox *sandbox, struct error *err)
{
    struct proof_message message;
    struct error nothing;

    if (sandbox->report.exit != 127 || !proof_receive(sandbox->channel[0], 0, &message, &nothing).ok) return SUCCESS;
    if (strncmp(message.text, "exec: ", 6) != 0) return SUCCESS;
    return failure(err, ERROR_NOT_FOUND, "the program %.100s can't begin in the sandbox: %.80s", sandbox->options->arguments[0],
                   message.text + 6);
}

struct result sandbox_watch(struct sandbox *sandbox, struct error *err)
{
    TRY(until_end(sandbox, err));
    sandbox->report.wall_ms = clock_monotonic_ms() - sandbox->began_ms;
    note_status(sandbox);
    return check_begun(sandbox, err);
}
