#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/file.h"
#include "supervision/child_priv.h"

#define POLL_US 5000

static void check_options(const struct child_options *options)
{
    assert(options->descriptor_count <= CHILD_DESCRIPTORS_MAX);
    for (size_t i = 0; i < options->descriptor_count; i++)
        assert(options->descriptors[i].to >= 0 && options->descriptors[i].to < CHILD_DESCRIPTOR_END);
}

/* A struct error is smaller than PIPE_BUF, so it arrives whole. When the program begins, the pipe closes without a report. */
static bool read_report(int report, struct error *err)
{
    struct error reported;
    ssize_t length = 0;

    while ((length = read(report, &reported, sizeof reported)) < 0 && errno == EINTR) {
    }
    if (length == 0) return false;
    *err = reported;
    if (length != (ssize_t)sizeof reported)
        failure_write(err, ERROR_UNAVAILABLE, "a child's report could not be read: %s", strerror(errno));
    return true;
}

static struct result fork_child(const struct child_options *options, const struct child_ends *ends, pid_t *pid_out,
                                struct error *err)
{
    const pid_t parent = getpid();
    const pid_t pid = fault_is_due(FAULT_FILE) ? -1 : fork();

    if (pid < 0) return failure(err, ERROR_UNAVAILABLE, "no process for %s: %s", options->arguments[0], strerror(errno));
    if (pid == 0 && options->whole_tree) child_keep_tree(options, ends, parent);
    if (pid == 0) child_become_program(options, ends, parent);
    *pid_out = pid;
    return SUCCESS;
}

struct result child_start(const struct child_options *options, pid_t *pid_out, struct error *err)
{
    int pipe[2], ignored = 0;
    pid_t pid = 0;
    OWNED_FD program = -1;

    check_options(options);
    if (options->whole_tree && !child_tree_is_visible())
        return failure(err, ERROR_UNAVAILABLE, "/proc does not list the children of a process: children of %s could outlive it",
                       options->arguments[0]);
    TRY(file_open(options->arguments[0], O_RDONLY, 0, &program, err));
    if (fault_is_due(FAULT_FILE) || pipe2(pipe, O_CLOEXEC) != 0)
        return failure(err, ERROR_UNAVAILABLE, "no pipe: %s", strerror(errno));
    OWNED_FD report = pipe[0];
    const struct child_ends ends = {.program = program, .report = pipe[1]};
    const struct result forked = fork_child(options, &ends, &pid, err);
    (void)close(pipe[1]);
    TRY(forked);
    if (read_report(report, err)) {
        while (waitpid(pid, &ignored, 0) < 0 && errno == EINTR) {
        }
        return (struct result){.ok = false};
    }
    *pid_out = pid;
    return SUCCESS;
}

bool child_has_ended(pid_t pid, int *status_out)
{
    return waitpid(pid, status_out, WNOHANG) == pid;
}

bool child_wait(pid_t pid, unsigned patience_ms, int *status_out)
{
    const int64_t until_ms = clock_monotonic_ms() + patience_ms;

    while (!child_has_ended(pid, status_out)) {
        if (clock_monotonic_ms() >= until_ms) return false;
        (void)usleep(POLL_US);
    }
    return true;
}

bool child_end(pid_t pid, int signal, unsigned patience_ms, int *status_out)
{
    (void)kill(pid, signal);
    return child_wait(pid, patience_ms, status_out);
}

void child_status_text(int status, char text_out[CHILD_STATUS_TEXT_SIZE])
{
    if (WIFSIGNALED(status)) (void)snprintf(text_out, CHILD_STATUS_TEXT_SIZE, "signal %d", WTERMSIG(status));
    else (void)snprintf(text_out, CHILD_STATUS_TEXT_SIZE, "status %d", WEXITSTATUS(status));
}
