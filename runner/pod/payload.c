/*
 * The payload's side. Process 1 can't be killed from inside, and it can't be looked into, as it is not dumpable. It passes messages between the agent and the process inside
 * (payload_inner.c), which becomes the command; makes the sockets of tasks; and ends all that is left of the command.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/sandbox.h"
#include "runner/pod/confine.h"
#include "runner/pod/limits.h"
#include "runner/pod/loopback.h"
#include "runner/pod/payload_priv.h"
#include "runner/pod/probe.h"

#define AGENT_MS    600000 /* until the agent listens */
#define NUMBER_TEXT 24
#define NUMBERS_MAX 8
#define LOOK_MS     1000
#define BEAT_SIZE   256 /* bytes of the first line */
#define OUTPUTS     "/out"
#define WALK_OPEN   32 /* folders at the same time */

struct first {
    int agent, inside, listener; /* inside: to the process inside, until it is the command. -1: none */
    pid_t child;
    bool has_begun, was_stopped;
    int status; /* of the child, when it has ended */
    int64_t look_at_ms, beat_ns;
};

static volatile sig_atomic_t was_told_to_stop;
static struct pod_message message; /* 128 KiB: of the one thread */
static struct probe probe = {.output = -1};

static void on_signal(int number)
{
    if (number == SIGTERM) was_told_to_stop = 1;
}

/* ---- What it tells ---- */

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

/* ---- What it hears ---- */

static void drop_pipes(void)
{
    for (size_t i = 0; i < 2; i++)
        if (message.pipes[i] >= 0) (void)close(message.pipes[i]);
}

static struct result pass_to_inside(const struct first *first, struct error *err)
{
    const struct result passed =
        pod_send(first->inside, message.texts, message.count, message.pipes[0] < 0 ? NULL : message.pipes, err);

    drop_pipes();
    return passed;
}

/* What the agent says. Before the command begins, it is for the process inside. */
static struct result hear_agent(struct first *first, struct error *err)
{
    TRY(pod_receive(first->agent, &message, err));
    if (message.is_end) return failure(err, ERROR_UNAVAILABLE, "the agent has gone");
    if (pod_is(&message, "go", 1)) first->has_begun = true;
    if (pod_is(&message, "go", 1) || pod_is(&message, "check", 1)) return pass_to_inside(first, err);
    drop_pipes();
    if (pod_is(&message, "stop", 1)) was_told_to_stop = 1;
    if (pod_is(&message, "kill", 1)) (void)kill(-1, SIGKILL);
    return SUCCESS;
}

/* With what the driver tells, if the run has devices. */
static struct result pass_closed(const struct first *first, struct error *err)
{
    const char *texts[4 + PROBE_TEXTS_MAX];

    if (probe.output < 0 || message.count != 4) return pod_send(first->agent, message.texts, message.count, NULL, err);
    probe_await_devices(&probe);
    memcpy(texts, message.texts, 4 * sizeof texts[0]);
    memcpy(texts + 4, probe.texts, probe.count * sizeof texts[0]);
    return pod_send(first->agent, texts, 4 + probe.count, NULL, err);
}

static void tell_devices(const struct first *first)
{
    const char *texts[1 + PROBE_TEXTS_MAX] = {"devices"};
    struct error none;

    if (!probe_hear_use(&probe) || !first->has_begun) return;
    memcpy(texts + 1, probe.texts, probe.count * sizeof texts[0]);
    (void)pod_send(first->agent, texts, 1 + probe.count, NULL, &none).ok;
}

/* What the process inside says, until it is the command. */
static struct result hear_inside(struct first *first, struct error *err)
{
    TRY(pod_receive(first->inside, &message, err));
    if (message.is_end) {
        file_close_owned(&first->inside);
        first->inside = -1;
        return SUCCESS;
    }
    if (pod_is(&message, "hello", 1) && first->listener < 0) {
        first->listener = message.pipes[0];
        message.pipes[0] = -1;
    }
    drop_pipes();
    if (pod_is(&message, "failed", 1)) first->has_begun = false;
    if (pod_is(&message, "closed", 1)) return pass_closed(first, err);
    return pod_send(first->agent, message.texts, message.count, NULL, err);
}

/* Also waits for processes that the command left: they are children of process 1 now. */
static bool has_ended(struct first *first)
{
    int status = 0;

    for (pid_t ended; (ended = waitpid(-1, &status, WNOHANG)) > 0;)
        if (ended == first->child) {
            first->status = status;
            return true;
        }
    return false;
}

/* No process is left that could ask. */
static void forget_listener(struct first *first)
{
    file_close_owned(&first->listener);
    first->listener = -1;
}

static struct result hear(struct first *first, const sigset_t *mask, struct error *err)
{
    const struct timespec patience = {.tv_sec = LOOK_MS / 1000};
    struct pollfd polled[4] = {{.fd = first->agent, .events = POLLIN},
                               {.fd = first->inside, .events = POLLIN},
                               {.fd = first->listener, .events = POLLIN},
                               {.fd = first->has_begun ? probe.output : -1, .events = POLLIN}};

    if (ppoll(polled, 4, &patience, mask) <= 0) return SUCCESS;
    if (polled[1].revents != 0) TRY(hear_inside(first, err));
    if (polled[0].revents != 0) TRY(hear_agent(first, err));
    if ((polled[2].revents & POLLIN) != 0) loopback_answer(first->listener);
    else if (polled[2].revents != 0) forget_listener(first);
    if (polled[3].revents != 0) tell_devices(first);
    return SUCCESS;
}

static void look(struct first *first)
{
    if (!first->has_begun || clock_monotonic_ms() < first->look_at_ms) return;
    first->look_at_ms = clock_monotonic_ms() + LOOK_MS;
    tell_beat(first->agent, &first->beat_ns);
    tell_use(first->agent);
}

/* Until the command has ended. */
static struct result await_end(struct first *first, const sigset_t *mask, struct error *err)
{
    while (!has_ended(first)) {
        TRY(hear(first, mask, err));
        look(first);
        if (was_told_to_stop == 0) continue;
        if (!first->has_begun) return failure(err, ERROR_UNAVAILABLE, "the pod was told to stop");
        if (!first->was_stopped) (void)kill(-first->child, SIGTERM);
        first->was_stopped = true;
    }
    while (first->inside >= 0) TRY(hear_inside(first, err)); /* why it has not begun */
    if (!first->has_begun) return failure(err, ERROR_DENIED, "the command has not begun");
    tell_beat(first->agent, &first->beat_ns);
    return SUCCESS;
}

/* ---- The end ---- */

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

/* ---- The beginning ---- */

/* In a group of its own, so that a signal reaches all of the command. */
static struct result start_inside(struct first *first, const char *folder, const struct pod_wishes *wishes, struct error *err)
{
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return failure(err, ERROR_UNAVAILABLE, "no sockets for the process inside: %s", strerror(errno));
    first->child = fork();
    if (first->child == 0) {
        (void)close(ends[0]);
        (void)setpgid(0, 0);
        payload_inside(ends[1], folder, wishes);
    }
    (void)close(ends[1]);
    first->inside = ends[0];
    if (first->child < 0) return failure(err, ERROR_UNAVAILABLE, "no process for the command: %s", strerror(errno));
    (void)setpgid(first->child, first->child);
    return SUCCESS;
}

static struct result call_agent(const char *folder, const sigset_t *mask, int *channel_out, struct error *err)
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
        (void)ppoll(NULL, 0, &pause, mask);
    }
    *channel_out = channel;
    channel = -1;
    return SUCCESS;
}

static struct result report(const struct first *first, int *exit_out, struct error *err)
{
    const int status = first->status, signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + signal;
    const struct pod_use use = pod_limits_use();
    const int64_t numbers[] = {code, signal, use.cpu_us, use.memory_bytes, use.kills};

    *exit_out = code;
    return tell_numbers(first->agent, "ended", numbers, 5, err);
}

static struct result run(struct first *first, const char *folder, const struct pod_wishes *wishes, int *exit_out,
                         struct error *err)
{
    sigset_t held, before;
    int none = -1;

    (void)sigemptyset(&held);
    (void)sigaddset(&held, SIGCHLD);
    (void)sigaddset(&held, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &held, &before);
    TRY(start_inside(first, folder, wishes, err));
    if (wishes->devices) TRY(probe_start(&probe, folder, err));
    TRY(pod_confine(wishes->tasks ? CONFINE_LISTENER : CONFINE_ALONE, &none, err));
    TRY(call_agent(folder, &before, &first->agent, err));
    const struct result awaited = await_end(first, &before, err);
    end_all();
    let_read_all();
    TRY(awaited);
    return report(first, exit_out, err);
}

int pod_payload(const char *folder, const struct pod_wishes *wishes)
{
    const struct sigaction action = {.sa_handler = on_signal};
    struct first first = {.agent = -1, .inside = -1, .listener = -1};
    struct error err = {0}, none;
    int status = POD_CLOSED;

    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGCHLD, &action, NULL);
    struct result done = getpid() == 1 ? SUCCESS : failure(&err, ERROR_DENIED, "the containers share their processes");
    if (done.ok) done = sandbox_prepare(&err);
    if (done.ok) done = run(&first, folder, wishes, &status, &err);
    if (!done.ok) {
        (void)fprintf(stderr, "sijil-pod: %s\n", err.message);
        if (first.agent >= 0) (void)tell(first.agent, "failed", err.message, &none);
    }
    file_close_owned(&first.agent);
    file_close_owned(&first.inside);
    file_close_owned(&first.listener);
    file_close_owned(&probe.output);
    return done.ok ? status : POD_CLOSED;
}
