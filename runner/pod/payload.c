/* The payload's side: it confines itself, shows that it is closed in, starts the command, and ends all that is left of it. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
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
#include "runner/pod/limits.h"
#include "runner/pod/mounts.h"
#include "runner/pod/pod.h"
#include "runner/sandbox/closed.h"

#define AGENT_MS    600000 /* until the agent listens */
#define FILTER_MAX  32768
#define NUMBER_TEXT 24
#define NUMBERS_MAX 8
#define LOOK_MS     1000
#define BEAT_SIZE   256 /* bytes of the first line */
#define OUTPUTS     "/out"
#define WALK_OPEN   32                     /* folders at the same time */
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
    TRY(sandbox_write_filter(fd, SANDBOX_CODE, err));
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

static const char *what_is_open(const char *folder)
{
    static const char *const secrets[] = {"/var/run/secrets/kubernetes.io", "/run/secrets/kubernetes.io", "/run/sijil"};
    struct statvfs root;

    for (size_t i = 0; i < sizeof secrets / sizeof secrets[0]; i++)
        if (access(secrets[i], F_OK) == 0) return secrets[i];
    if (access(TERMINATION, W_OK) == 0) return TERMINATION;
    if (statvfs("/", &root) != 0 || (root.f_flag & ST_RDONLY) == 0) return "the image can be written to";
    for (size_t i = 1; i + 1 < message.count; i += 2)
        if (!closed_to(message.texts[i], message.texts[i + 1])) return message.texts[i];
    const char *open = mounts_what_is_open(folder);
    return open != NULL ? open : closed_privileges();
}

static struct result tell(int channel, const char *what, const char *text, struct error *err)
{
    const char *const texts[] = {what, text};

    return pod_send(channel, texts, text == NULL ? 1 : 2, NULL, err);
}

static struct result tell_numbers(int channel, const char *what, const int64_t *numbers, size_t count, struct error *err)
{
    char words[NUMBERS_MAX][NUMBER_TEXT];
    const char *texts[NUMBERS_MAX + 1] = {what};

    for (size_t i = 0; i < count; i++) {
        (void)snprintf(words[i], NUMBER_TEXT, "%lld", (long long)numbers[i]);
        texts[i + 1] = words[i];
    }
    return pod_send(channel, texts, count + 1, NULL, err);
}

static struct result expect(int channel, const char *what, size_t least, struct error *err)
{
    TRY(pod_receive(channel, &message, err));
    if (message.is_end) return failure(err, ERROR_UNAVAILABLE, "the agent has gone");
    return pod_is(&message, what, least) ? SUCCESS : failure(err, ERROR_INVALID, "the agent does not say %s", what);
}

static struct result show(int channel, const char *folder, struct error *err)
{
    TRY(tell(channel, "hello", NULL, err));
    TRY(expect(channel, "check", 1, err));
    const char *open = what_is_open(folder);
    const struct pod_limits seen = pod_limits_see();
    const int64_t limits[] = {seen.version, seen.memory_bytes, seen.cpu_thousandths};
    if (open == NULL) return tell_numbers(channel, "closed", limits, 3, err);
    (void)tell(channel, "open", open, err);
    return failure(err, ERROR_DENIED, "the pod is not closed: %s", open);
}

/* ---- The command ---- */

/* In the child. Its own group, so that a signal reaches all of it. */
static _Noreturn void become(char **arguments, char **variables, uint64_t processes)
{
    const struct rlimit none = {0, 0}, few = {processes + 1, processes + 1}; /* of this user; one is process 1 */
    sigset_t open;

    (void)sigemptyset(&open);
    (void)sigprocmask(SIG_SETMASK, &open, NULL);
    (void)setpgid(0, 0);
    (void)setrlimit(RLIMIT_CORE, &none);
    if (processes > 0 && setrlimit(RLIMIT_NPROC, &few) != 0) _exit(POD_FAILED);
    (void)umask(022);
    (void)!chdir("/code");
    if (dup2(message.pipes[0], STDOUT_FILENO) < 0 || dup2(message.pipes[1], STDERR_FILENO) < 0) _exit(POD_FAILED);
    (void)close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
    environ = variables; /* PATH, too, is that of the command */
    (void)execvp(arguments[0], arguments);
    _exit(POD_NO_PROGRAM);
}

static struct result start(pid_t *child_out, struct error *err)
{
    uint64_t count = 0, processes = 0;

    if (!text_to_u64(bytes_of_text(message.texts[1]), POD_TEXTS_MAX, &count) || count == 0 || count > message.count - 3 ||
        !text_to_u64(bytes_of_text(message.texts[2]), INT32_MAX, &processes) || message.pipes[0] < 0)
        return failure(err, ERROR_INVALID, "the agent's command is malformed");
    char **arguments = (char **)(uintptr_t)(message.texts + 3);
    static const char *environment[POD_TEXTS_MAX + 1];
    memcpy(environment, message.texts + 3 + count, (message.count - 3 - count) * sizeof environment[0]);
    char **variables = (char **)(uintptr_t)environment;
    arguments[count] = NULL;
    const pid_t child = fork();
    if (child == 0) become(arguments, variables, processes);
    for (size_t i = 0; i < 2; i++) (void)close(message.pipes[i]);
    if (child < 0) return failure(err, ERROR_UNAVAILABLE, "no process for the command: %s", strerror(errno));
    *child_out = child;
    return SUCCESS;
}

/* Whether the command has ended. Also waits for processes that the command left: they are children of process 1 now. */
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

/* The command made this file, so it may be anything. Only a regular file is read, and without waiting. */
static void tell_beat(int channel, int64_t *seen_ns)
{
    OWNED_FD file = open(POD_HEARTBEAT, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY);
    struct stat about;
    char line[BEAT_SIZE];
    struct error none;

    if (file < 0 || fstat(file, &about) != 0 || !S_ISREG(about.st_mode)) return;
    const int64_t changed_ns = (int64_t)about.st_mtim.tv_sec * 1000000000 + about.st_mtim.tv_nsec;
    if (changed_ns == *seen_ns) return;
    const ssize_t length = read(file, line, sizeof line - 1);
    if (length <= 0) return;
    *seen_ns = changed_ns;
    line[length] = '\0';
    line[strcspn(line, "\n")] = '\0';
    (void)tell(channel, "beat", line, &none);
}

static void tell_use(int channel)
{
    const struct pod_use use = pod_limits_use();
    const int64_t numbers[] = {use.cpu_us, use.memory_bytes};
    struct error none;

    (void)tell_numbers(channel, "use", numbers, 2, &none);
}

/* False: the agent has gone. */
static bool hear(int channel)
{
    struct error none;

    if (!pod_receive(channel, &message, &none).ok || message.is_end) return false;
    if (pod_is(&message, "stop", 1)) was_told_to_stop = 1;
    if (pod_is(&message, "kill", 1)) (void)kill(-1, SIGKILL);
    return true;
}

/* Waits until the command has ended. False: the agent has gone. */
static bool await_end(int channel, pid_t child, int *status_out, const sigset_t *mask)
{
    const struct timespec patience = {.tv_sec = LOOK_MS / 1000};
    struct pollfd polled = {.fd = channel, .events = POLLIN};
    int64_t beat_ns = 0;

    for (bool was_stopped = false;;) {
        if (has_ended(child, status_out)) {
            tell_beat(channel, &beat_ns);
            return true;
        }
        const int found = ppoll(&polled, 1, &patience, mask);
        if (found > 0 && !hear(channel)) return false;
        if (found == 0) {
            tell_beat(channel, &beat_ns);
            tell_use(channel);
        }
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

/*
 * The agent has another user, and must be able to read what the command has left. Folders get the setgid bit from the volume; it is removed, because the walk of the outputs refuses it. Nothing of the command runs any
 * more, so nothing changes meanwhile.
 */
static int let_read(const char *path, const struct stat *about, int kind, struct FTW *place)
{
    const mode_t given = S_ISDIR(about->st_mode) ? (about->st_mode & 05777) | 0750 : (about->st_mode & 07777) | 0640;

    (void)place;
    if ((kind == FTW_F || kind == FTW_D || kind == FTW_DNR) && given != (about->st_mode & 07777)) (void)!chmod(path, given);
    return 0;
}

static void let_read_all(void)
{
    (void)nftw(OUTPUTS, let_read, WALK_OPEN, FTW_PHYS);
}

static struct result report(int channel, int status, int *exit_out, struct error *err)
{
    const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0, code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + signal;
    const struct pod_use use = pod_limits_use();
    const int64_t numbers[] = {code, signal, use.cpu_us, use.memory_bytes, use.kills};

    *exit_out = code;
    return tell_numbers(channel, "ended", numbers, 5, err);
}

static struct result run(int channel, const char *folder, int *exit_out, struct error *err)
{
    sigset_t held, before;
    pid_t child = 0;
    int status = 0;

    TRY(show(channel, folder, err));
    TRY(expect(channel, "go", 4, err));
    (void)sigemptyset(&held);
    (void)sigaddset(&held, SIGCHLD);
    (void)sigaddset(&held, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &held, &before);
    TRY(start(&child, err));
    const bool is_whole = await_end(channel, child, &status, &before);
    end_all();
    let_read_all();
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
    if (confine(&err).ok && call_agent(folder, &channel, &err).ok && run(channel, folder, &status, &err).ok) return status;
    (void)fprintf(stderr, "sijil-pod: %s\n", err.message);
    if (channel >= 0) (void)tell(channel, "failed", err.message, &err);
    return POD_CLOSED;
}
