#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/file.h"
#include "embedded/embedded_priv.h"

bool step_is_interrupted(void)
{
    sigset_t pending;

    return sigpending(&pending) == 0 && (sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1);
}

/* An error is smaller than PIPE_BUF, so it arrives whole. */
static _Noreturn void run_child(const struct user *user, struct result (*run)(void *, struct error *), void *context, int report)
{
    struct error err = {0};
    const pid_t parent = getppid();

    struct result outcome = process_begin(user, SIGKILL, parent, &err);
    (void)umask(022); /* callers set the mode of each file */
    if (outcome.ok) outcome = run(context, &err);
    if (!outcome.ok && write(report, &err, sizeof err) != (ssize_t)sizeof err) _exit(2);
    _exit(outcome.ok ? 0 : 1);
}

/* Reads the child's error. False: it ended without one. */
static bool read_report(pid_t child, int report, int64_t until_ms, struct error *err)
{
    struct pollfd pipe = {.fd = report, .events = POLLIN};

    for (;;) {
        const int ready = poll(&pipe, 1, 200);
        if (ready > 0) return read(report, err, sizeof *err) == (ssize_t)sizeof *err;
        if (step_is_interrupted() || clock_monotonic_ms() >= until_ms) (void)kill(child, SIGKILL);
    }
}

/* Without a report: it was killed, or has become another program. */
static struct result ended_badly(int status, struct error *err)
{
    if (WIFSIGNALED(status))
        return failure(err, ERROR_UNAVAILABLE, "a step of the start was ended by signal %d (%s)", WTERMSIG(status),
                       strsignal(WTERMSIG(status)));
    return failure(err, ERROR_UNAVAILABLE, "a step of the start ended with status %d", WEXITSTATUS(status));
}

/* The waiting process alone. */
static struct result outcome_of(pid_t child, int report, int64_t until_ms, struct error *err)
{
    struct error reported;
    int status = 0;

    const bool failed = read_report(child, report, until_ms, &reported);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (status == 0) return SUCCESS;
    if (step_is_interrupted()) return failure(err, ERROR_UNAVAILABLE, "interrupted");
    if (failed) return failure(err, reported.kind, "%s", reported.message);
    if (clock_monotonic_ms() >= until_ms)
        return failure(err, ERROR_UNAVAILABLE, "a step of the start took too long, or was stopped");
    return ended_badly(status, err);
}

static struct result run_until(int64_t until_ms, const struct user *user, struct result (*run)(void *, struct error *),
                               void *context, struct error *err)
{
    int pipe[2];

    if (fault_is_due(FAULT_FILE) || pipe2(pipe, O_CLOEXEC) != 0)
        return failure(err, ERROR_UNAVAILABLE, "no pipe: %s", strerror(errno));
    const pid_t child = fault_is_due(FAULT_FILE) ? -1 : fork();
    if (child == 0) {
        (void)close(pipe[0]);
        run_child(user, run, context, pipe[1]);
    }
    (void)close(pipe[1]);
    OWNED_FD report = pipe[0];
    if (child < 0) return failure(err, ERROR_UNAVAILABLE, "no process: %s", strerror(errno));
    return outcome_of(child, report, until_ms, err);
}

struct result step_run(const struct user *user, struct result (*run)(void *context, struct error *err), void *context,
                       struct error *err)
{
    return run_until(INT64_MAX, user, run, context, err);
}

struct result step_run_within(unsigned most_ms, const struct user *user, struct result (*run)(void *context, struct error *err),
                              void *context, struct error *err)
{
    return run_until(clock_monotonic_ms() + most_ms, user, run, context, err);
}
