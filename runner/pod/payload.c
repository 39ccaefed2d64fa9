/* The payload's side: it confines itself, shows that it is closed in, starts the command, and ends all that is left of it. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/sandbox.h"
#include "base/text.h"
#include "runner/pod/pod.h"
#include "runner/sandbox/closed.h"

#define AGENT_MS    600000 /* until the agent listens */
#define FILTER_MAX  32768
#define STATUS_TEXT 16
#define TERMINATION "/dev/termination-log" /* what is written there becomes a part of the pod's status */

static volatile sig_atomic_t was_told_to_stop;
static struct pod_message message; /* 128 KiB: of the one thread */

static void on_signal(int number)
{
    if (number == SIGTERM) was_told_to_stop = 1;
}

/* ---- Confinement ---- */

/* On top of the list of calls: the pod's network is also the agent's, so the payload gets no socket of any network. */
static struct result forbid_sockets(struct error *err)
{
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog filter = {.len = sizeof steps / sizeof steps[0], .filter = steps};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0) return SUCCESS;
    return failure(err, ERROR_DENIED, "sockets can't be forbidden: %s", strerror(errno));
}

static struct result allow_listed_calls(struct error *err)
{
    static struct sock_filter steps[FILTER_MAX / sizeof(struct sock_filter)];
    OWNED_FD fd = memfd_create("filter", MFD_CLOEXEC);
    uint64_t size = 0;

    if (fd < 0) return failure(err, ERROR_DENIED, "no memory for a filter: %s", strerror(errno));
    TRY(sandbox_write_filter(fd, false, err));
    TRY(file_size(fd, &size, err));
    if (size > sizeof steps) return failure(err, ERROR_LIMIT, "the filter of calls is too long");
    TRY(file_read_at(fd, steps, size, 0, err));
    const struct sock_fprog filter = {.len = (unsigned short)(size / sizeof steps[0]), .filter = steps};
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0) return SUCCESS;
    return failure(err, ERROR_DENIED, "calls can't be forbidden: %s", strerror(errno));
}

/* Process 1 of its own namespace can't be killed from inside, and it can't be looked into, as it is not dumpable. */
static struct result confine(struct error *err)
{
    if (getpid() != 1) return failure(err, ERROR_DENIED, "the containers share their processes");
    TRY(sandbox_prepare(err));
    TRY(forbid_sockets(err));
    return allow_listed_calls(err);
}

/* ---- What it shows ---- */

static const char *what_is_open(void)
{
    static const char *const secrets[] = {"/var/run/secrets/kubernetes.io", "/run/secrets/kubernetes.io", "/run/sijil"};
    struct statvfs root;

    for (size_t i = 0; i < sizeof secrets / sizeof secrets[0]; i++)
        if (access(secrets[i], F_OK) == 0) return secrets[i];
    if (access(TERMINATION, W_OK) == 0) return TERMINATION;
    if (statvfs("/", &root) != 0 || (root.f_flag & ST_RDONLY) == 0) return "the image can be written to";
    for (size_t i = 1; i + 1 < message.count; i += 2)
        if (!closed_to(message.texts[i], message.texts[i + 1])) return message.texts[i];
    return closed_privileges();
}

static struct result tell(int channel, const char *what, const char *first, const char *second, struct error *err)
{
    const char *const texts[] = {what, first, second};

    return pod_send(channel, texts, first == NULL ? 1 : second == NULL ? 2 : 3, NULL, err);
}

static struct result expect(int channel, const char *what, size_t least, struct error *err)
{
    TRY(pod_receive(channel, &message, err));
    if (message.is_end) return failure(err, ERROR_UNAVAILABLE, "the agent has gone");
    return pod_is(&message, what, least) ? SUCCESS : failure(err, ERROR_INVALID, "the agent does not say %s", what);
}

static struct result show(int channel, struct error *err)
{
    TRY(tell(channel, "hello", NULL, NULL, err));
    TRY(expect(channel, "check", 1, err));
    const char *open = what_is_open();
    if (open == NULL) return tell(channel, "closed", NULL, NULL, err);
    (void)tell(channel, "open", open, NULL, err);
    return failure(err, ERROR_DENIED, "the pod is not closed: %s", open);
}

/* ---- The command ---- */

/* In the child. Its own group, so that a signal reaches all of it. */
static _Noreturn void become(char **arguments, char **variables)
{
    const struct rlimit none = {0, 0};
    sigset_t open;

    (void)sigemptyset(&open);
    (void)sigprocmask(SIG_SETMASK, &open, NULL);
    (void)setpgid(0, 0);
    (void)setrlimit(RLIMIT_CORE, &none);
    (void)umask(022);
    (void)!chdir("/code");
    if (dup2(message.pipes[0], STDOUT_FILENO) < 0 || dup2(message.pipes[1], STDERR_FILENO) < 0) _exit(POD_FAILED);
    (void)close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
    environ = variables; /* the path, too, is the command's own */
    (void)execvp(arguments[0], arguments);
    _exit(POD_NO_PROGRAM);
}

static struct result start(pid_t *child_out, struct error *err)
{
    uint64_t count = 0;
    static char *none[] = {NULL};

    if (!text_to_u64(bytes_of_text(message.texts[1]), POD_TEXTS_MAX, &count) || count == 0 || count > message.count - 2 ||
        message.pipes[0] < 0)
        return failure(err, ERROR_INVALID, "the agent's command is malformed");
    char **arguments = (char **)(uintptr_t)(message.texts + 2), **variables = none;
    static const char *environment[POD_TEXTS_MAX + 1];
    memcpy(environment, message.texts + 2 + count, (message.count - 2 - count) * sizeof environment[0]);
    variables = (char **)(uintptr_t)environment;
    arguments[count] = NULL;
    const pid_t child = fork();
    if (child == 0) become(arguments, variables);
    for (size_t i = 0; i < 2; i++) (void)close(message.pipes[i]);
    if (child < 0) return failure(err, ERROR_UNAVAILABLE, "no process for the command: %s", strerror(errno));
    *child_out = child;
    return SUCCESS;
}

/* Whether the command has. Process 1 inherits what the command's own children leave. */
static bool has_ended(pid_t child, int *status_out)
{
    int status = 0;

    for (pid_t ended; (ended = waitpid(-1, &status, WNOHANG)) > 0;)
        if (ended == child) {
            *status_out = status;
            return true;
        }
    return false;
}

/* Until the command has ended. False: the agent has gone. */
static bool await_end(int channel, pid_t child, int *status_out, const sigset_t *mask)
{
    struct pollfd polled = {.fd = channel, .events = POLLIN};
    struct error none;

    for (bool was_stopped = false;;) {
        if (has_ended(child, status_out)) return true;
        const int found = ppoll(&polled, 1, NULL, mask);
        if (found > 0 && (!pod_receive(channel, &message, &none).ok || message.is_end)) return false;
        if (found > 0 && pod_is(&message, "stop", 1)) was_told_to_stop = 1;
        if (was_told_to_stop != 0 && !was_stopped) (void)kill(-child, SIGTERM);
        was_stopped = was_told_to_stop != 0;
    }
}

static void end_all(void)
{
    (void)kill(-1, SIGKILL);
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR) {
    }
}

static struct result report(int channel, int status, int *exit_out, struct error *err)
{
    const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0, code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + signal;
    char codes[2][STATUS_TEXT];

    *exit_out = code;
    (void)snprintf(codes[0], STATUS_TEXT, "%d", code);
    (void)snprintf(codes[1], STATUS_TEXT, "%d", signal);
    return tell(channel, "ended", codes[0], codes[1], err);
}

static struct result run(int channel, int *exit_out, struct error *err)
{
    sigset_t held, before;
    pid_t child = 0;
    int status = 0;

    TRY(show(channel, err));
    TRY(expect(channel, "go", 3, err));
    (void)sigemptyset(&held);
    (void)sigaddset(&held, SIGCHLD);
    (void)sigaddset(&held, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &held, &before);
    TRY(start(&child, err));
    const bool is_whole = await_end(channel, child, &status, &before);
    end_all();
    if (!is_whole) return failure(err, ERROR_UNAVAILABLE, "the agent has gone");
    return report(channel, status, exit_out, err);
}

/* ---- The agent ---- */

static struct result call_agent(const char *folder, int *channel_out, struct error *err)
{
    const struct timespec pause = {.tv_nsec = 20000000};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    OWNED_FD channel = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    if (channel < 0 ||
        snprintf(address.sun_path, sizeof address.sun_path, "%s/" POD_SOCKET, folder) >= (int)sizeof address.sun_path)
        return failure(err, ERROR_UNAVAILABLE, "no socket for the agent");
    for (int waited = 0; connect(channel, (const struct sockaddr *)&address, sizeof address) != 0; waited += 20) {
        if (waited >= AGENT_MS || was_told_to_stop != 0)
            return failure(err, ERROR_UNAVAILABLE, "the agent does not listen: %s", strerror(errno));
        (void)nanosleep(&pause, NULL);
    }
    *channel_out = channel;
    channel = -1;
    return SUCCESS;
}

int pod_payload(const char *folder)
{
    const struct sigaction action = {.sa_handler = on_signal};
    OWNED_FD channel = -1;
    struct error err = {0};
    int status = POD_CLOSED;

    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGCHLD, &action, NULL);
    if (confine(&err).ok && call_agent(folder, &channel, &err).ok && run(channel, &status, &err).ok) return status;
    (void)fprintf(stderr, "sijil-pod: %s\n", err.message);
    if (channel >= 0) (void)tell(channel, "failed", err.message, NULL, &err);
    return POD_CLOSED;
}
