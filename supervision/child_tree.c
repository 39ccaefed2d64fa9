/* The process between the parent and a program whose whole tree ends with it. It was forked and executes no other
 * program, so it only makes system calls. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "supervision/child_priv.h"

#define CHILDREN  "/proc/thread-self/children" /* proc(5): numbers, each followed by a space */
#define LIST_SIZE 4096                         /* bytes; numbers that do not fit are read the next time */
#define POLL_MS   20

struct tree {
    pid_t program;
    int status; /* of the program, once it has ended */
    bool has_ended, is_stopping;
    int64_t until_ms; /* once it is stopping */
};

bool child_tree_is_visible(void)
{
    return access(CHILDREN, R_OK) == 0;
}

/* A child keeps its process id until it is waited for, so the signal can't reach another process. */
static void kill_children(void)
{
    char list[LIST_SIZE];
    pid_t pid = 0;
    const int fd = open(CHILDREN, O_RDONLY | O_CLOEXEC);
    const ssize_t length = fd < 0 ? 0 : read(fd, list, sizeof list);

    for (ssize_t i = 0; i < length; i++) {
        if (list[i] >= '0' && list[i] <= '9') {
            pid = pid * 10 + (list[i] - '0');
            continue;
        }
        if (pid > 1) (void)kill(pid, SIGKILL); /* a number that the end of the list truncates is read the next time */
        pid = 0;
    }
    if (fd >= 0) (void)close(fd);
}

static void note_end(struct tree *tree, pid_t pid, int status)
{
    if (pid != tree->program) return;
    tree->has_ended = true;
    tree->status = status;
}

static void reap(struct tree *tree)
{
    int status = 0;

    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) note_end(tree, pid, status);
}

/* Killed processes may have had children, which become children of this process. Repeats until none is left. */
static void kill_all(struct tree *tree)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    int status = 0;

    for (;;) {
        kill_children();
        const pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid > 0) note_end(tree, pid, status);
        if (pid < 0 && errno == ECHILD) return;
        if (pid == 0) (void)nanosleep(&moment, NULL);
    }
}

static void begin_stop(struct tree *tree, const struct child_options *options)
{
    if (tree->is_stopping) return;
    tree->is_stopping = true;
    tree->until_ms = clock_monotonic_ms() + options->grace_ms;
    (void)kill(-tree->program, options->stop_signal);
}

/* Waits until the program or its grace period has ended. */
static void watch(struct tree *tree, const struct child_options *options, const sigset_t *signals)
{
    const struct timespec tick = {.tv_nsec = POLL_MS * 1000000};

    for (reap(tree); !tree->has_ended; reap(tree)) {
        const int signal = tree->is_stopping ? sigtimedwait(signals, NULL, &tick) : sigwaitinfo(signals, NULL);
        if (signal == SIGTERM) begin_stop(tree, options);
        if (tree->is_stopping && clock_monotonic_ms() >= tree->until_ms) return;
    }
}

/* Ends in the same way as the program, so that waitpid(2) tells the parent the program's status. */
static _Noreturn void end_like(const struct tree *tree)
{
    const struct rlimit no_core = {0, 0};
    const struct sigaction standard = {.sa_handler = SIG_DFL};
    sigset_t none;

    if (WIFEXITED(tree->status)) _exit(WEXITSTATUS(tree->status));
    (void)setrlimit(RLIMIT_CORE, &no_core);
    (void)sigaction(WTERMSIG(tree->status), &standard, NULL);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)raise(WTERMSIG(tree->status));
    _exit(128 + WTERMSIG(tree->status));
}

static struct result adopt_all(pid_t parent, struct error *err)
{
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0 || prctl(PR_SET_PDEATHSIG, SIGTERM) != 0)
        return failure(err, ERROR_UNAVAILABLE, "a program's processes can't be kept together: %s", strerror(errno));
    if (getppid() != parent) _exit(1);
    return SUCCESS;
}

static pid_t fork_program(const struct child_options *options, const struct child_ends *ends)
{
    const pid_t self = getpid(), pid = fork();

    if (pid == 0) child_become_program(options, ends, self);
    return pid;
}

_Noreturn void child_keep_tree(const struct child_options *options, const struct child_ends *ends, pid_t parent)
{
    struct tree tree = {0};
    struct error err = {0};
    sigset_t signals;

    (void)setpgid(0, 0);
    (void)sigfillset(&signals); /* only these two count; a signal to the parent's group does not end this process */
    (void)sigprocmask(SIG_SETMASK, &signals, NULL);
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigaddset(&signals, SIGCHLD);
    if (!adopt_all(parent, &err).ok) child_give_up(ends, &err);
    tree.program = fork_program(options, ends);
    if (tree.program < 0) {
        failure_write(&err, ERROR_UNAVAILABLE, "no process for %s: %s", options->arguments[0], strerror(errno));
        child_give_up(ends, &err);
    }
    (void)close_range(STDERR_FILENO + 1, ~0U, 0); /* so that the program's pipes end when the program closes them */
    watch(&tree, options, &signals);
    kill_all(&tree);
    end_like(&tree);
}
