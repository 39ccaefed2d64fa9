#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/log.h"
#include "base/pace.h"
#include "embedded/embedded_priv.h"

#define INPUT_FD        3
#define LOCKED_MAX      (512U << 20) /* bytes: all of sijil-keyd, with its 32 threads */
#define BACKOFF_MIN_MS  100
#define BACKOFF_MAX_MS  5000
#define STEADY_AFTER_MS 5000 /* having run that long, it is started again at once */

static void restore_signals(void)
{
    const struct sigaction standard = {.sa_handler = SIG_DFL};
    sigset_t none;

    for (int signal = 1; signal < NSIG; signal++)
        (void)sigaction(signal, &standard, NULL);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Keys are locked into memory; the usual limit is too small for a cache of them. Without root it stays as it
 * is. */
static void raise_lock_limit(void)
{
    const struct rlimit limit = {LOCKED_MAX, LOCKED_MAX};

    if (geteuid() == 0) (void)setrlimit(RLIMIT_MEMLOCK, &limit);
}

struct result process_begin(const struct user *user, int death_signal, pid_t parent, struct error *err)
{
    (void)setpgid(0, 0); /* a Ctrl-C is for the supervisor, which stops the others in order */
    raise_lock_limit();
    TRY(user_become(user, err));
    /* After the change of user, which would clear it. */
    if (prctl(PR_SET_PDEATHSIG, death_signal) != 0)
        return failure(err, ERROR_UNAVAILABLE, "no parent-death signal: %s", strerror(errno));
    if (getppid() != parent) _exit(1);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return failure(err, ERROR_UNAVAILABLE, "no_new_privs: %s", strerror(errno));
    restore_signals();
    return SUCCESS;
}

/* `descriptors`: input, output, lock; -1 for none. The program was opened by the supervisor: its user need
 * not be able to walk there. */
static _Noreturn void run_child(const struct process *process, int program, const int descriptors[3],
                                pid_t parent)
{
    char language[] = "LC_ALL=C", path[] = "PATH=/usr/bin:/bin";
    /* mallopt(3). Else each transaction takes its memory from the kernel anew: 5 % of the time. The second because the first
       by itself would make it small. */
    char trim[] = "MALLOC_TRIM_THRESHOLD_=4194304", map[] = "MALLOC_MMAP_THRESHOLD_=4194304";
    char *const environment[] = {language, path, process->is_database ? trim : NULL /* ends here for all others */, map, NULL};
    struct error err;

    if (process->is_database) pace_urgent(); /* as long as we may */
    if (!process_begin(process->user, process->death_signal, parent, &err).ok || chdir("/") != 0) _exit(126);
    (void)umask(077);
    (void)close_range(INPUT_FD, ~0U, CLOSE_RANGE_CLOEXEC); /* whatever we were started with */
    (void)fcntl(descriptors[2], F_SETFD, 0);
    if (descriptors[0] >= 0 && dup2(descriptors[0], INPUT_FD) != INPUT_FD) _exit(126);
    if (descriptors[1] >= 0 &&
        (dup2(descriptors[1], STDOUT_FILENO) < 0 || dup2(descriptors[1], STDERR_FILENO) < 0))
        _exit(126);
    (void)fexecve(program, process->arguments, environment);
    log_line(LOG_ERROR, "can't start a program", "program", process->arguments[0], "reason", strerror(errno),
             NULL);
    _exit(127);
}

struct result fd_raise(int *fd, struct error *err)
{
    const int raised = fault_is_due(FAULT_FILE) ? -1 : fcntl(*fd, F_DUPFD_CLOEXEC, INPUT_FD + 1);

    if (raised < 0) return failure(err, ERROR_UNAVAILABLE, "no descriptor: %s", strerror(errno));
    (void)close(*fd);
    *fd = raised;
    return SUCCESS;
}

/* A pipe that holds all of the input, so that nobody waits. */
static struct result fill_pipe(const struct secret *input, int *read_end_out, struct error *err)
{
    int ends[2];

    if (fault_is_due(FAULT_FILE) || pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return failure(err, ERROR_UNAVAILABLE, "no pipe: %s", strerror(errno));
    const ssize_t written = write(ends[1], input->bytes, input->length);
    (void)close(ends[1]);
    if (written != (ssize_t)input->length) {
        (void)close(ends[0]);
        return failure(err, ERROR_LIMIT, "%zu bytes do not fit into a pipe", input->length);
    }
    (void)fcntl(ends[0], F_SETFL, 0);
    OWNED_FD read_end = ends[0];
    TRY(fd_raise(&read_end, err));
    *read_end_out = read_end;
    read_end = -1;
    return SUCCESS;
}

struct result process_start(struct process *process, int lock, struct error *err)
{
    OWNED_FD program = -1;
    OWNED_FD input = -1;
    OWNED_FD output = -1;
    const pid_t parent = getpid();

    TRY(file_open(process->arguments[0], O_RDONLY, 0, &program, err));
    TRY(fd_raise(&program, err));
    if (process->input != NULL) TRY(fill_pipe(process->input, &input, err));
    if (process->output != NULL)
        TRY(file_open(process->output, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600, &output, err));
    const pid_t pid = fault_is_due(FAULT_FILE) ? -1 : fork();
    if (pid < 0)
        return failure(err, ERROR_UNAVAILABLE, "no process for %s: %s", process->name, strerror(errno));
    if (pid == 0) run_child(process, program, (const int[3]){input, output, lock}, parent);
    process->pid = pid;
    process->started_ms = clock_monotonic_ms();
    return SUCCESS;
}

void process_ended(struct process *process, int status)
{
    const int64_t now_ms = clock_monotonic_ms();
    char text[32];

    if (now_ms - process->started_ms > STEADY_AFTER_MS) process->backoff_ms = 0;
    process->restart_at_ms = now_ms + process->backoff_ms;
    process->backoff_ms = process->backoff_ms == 0 ? BACKOFF_MIN_MS : process->backoff_ms * 2;
    if (process->backoff_ms > BACKOFF_MAX_MS) process->backoff_ms = BACKOFF_MAX_MS;
    process->pid = 0;

    if (WIFSIGNALED(status))
        (void)snprintf(text, sizeof text, "signal %d", WTERMSIG(status));
    else
        (void)snprintf(text, sizeof text, "status %d", WEXITSTATUS(status));
    log_line(LOG_WARNING, "a process ended", "process", process->name, "with", text, NULL);
}

bool process_is_running(struct process *process)
{
    int status = 0;

    if (process->pid != 0 && waitpid(process->pid, &status, WNOHANG) == process->pid)
        process_ended(process, status);
    return process->pid != 0;
}

static bool wait_for_end(struct process *process, unsigned patience_ms)
{
    const int64_t until_ms = clock_monotonic_ms() + patience_ms;
    int status = 0;

    while (waitpid(process->pid, &status, WNOHANG) == 0) {
        if (clock_monotonic_ms() >= until_ms) return false;
        (void)usleep(20000);
    }
    return true;
}

void process_stop(struct process *process, unsigned patience_ms)
{
    if (process->pid == 0) return;
    (void)kill(process->pid, process->stop_signal);
    if (!wait_for_end(process, patience_ms)) {
        log_line(LOG_WARNING, "a process does not stop and is killed", "process", process->name, NULL);
        (void)kill(process->pid, process->death_signal);
        if (!wait_for_end(process, 5000)) (void)kill(process->pid, SIGKILL);
        (void)wait_for_end(process, 5000);
    }
    process->pid = 0;
}

struct result process_run(struct process *process, int lock, struct error *err)
{
    int status = 0;

    TRY(process_start(process, lock, err));
    while (waitpid(process->pid, &status, 0) < 0 && errno == EINTR) {
    }
    process->pid = 0;
    if (status == 0) return SUCCESS;
    return failure(err, ERROR_UNAVAILABLE, "%s failed: its last log line says why", process->name);
}
