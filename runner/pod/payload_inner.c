/* The process inside: it confines itself, shows what it sees, and becomes the command, or the process that runs it for each task. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "runner/pod/confine.h"
#include "runner/pod/limits.h"
#include "runner/pod/loopback.h"
#include "runner/pod/mounts.h"
#include "runner/pod/payload_priv.h"
#include "runner/sandbox/closed.h"
#include "runner/sandbox/tasks.h"

#define NUMBER_TEXT 24
#define GRACE_MAX   3600
#define WORDS       5                      /* of `go`, before the arguments */
#define DEVICES     "/dev/nvidiactl"       /* of the driver of devices */
#define TERMINATION "/dev/termination-log" /* what is written there becomes a part of the pod's status */

static struct pod_message message; /* 128 KiB */

/* ---- what it shows ---- */

static const char *what_answers(const struct pod_wishes *wishes)
{
    if (wishes->tasks) return loopback_what_is_open(message.texts + 1, message.count - 1);
    for (size_t i = 1; i + 1 < message.count; i += 2)
        if (!closed_to(message.texts[i], message.texts[i + 1])) return message.texts[i];
    return NULL;
}

static const char *what_is_open(const char *folder, const struct pod_wishes *wishes)
{
    static const char *const secrets[] = {"/var/run/secrets/kubernetes.io", "/run/secrets/kubernetes.io", "/run/sijil"};
    struct statvfs root;

    for (size_t i = 0; i < sizeof secrets / sizeof secrets[0]; i++)
        if (access(secrets[i], F_OK) == 0) return secrets[i];
    if (access(TERMINATION, W_OK) == 0) return TERMINATION;
    if (!wishes->devices && access(DEVICES, F_OK) == 0) return DEVICES; /* some clusters give all of them to each container */
    if (statvfs("/", &root) != 0 || (root.f_flag & ST_RDONLY) == 0) return "the image can be written to";
    const char *open = what_answers(wishes);
    if (open == NULL) open = mounts_what_is_open(folder);
    return open != NULL ? open : closed_privileges();
}

static struct result tell_limits(int channel, struct error *err)
{
    const struct pod_limits seen = pod_limits_see();
    const int64_t limits[] = {seen.version, seen.memory_bytes, seen.cpu_thousandths};
    char words[3][NUMBER_TEXT];
    const char *texts[4] = {"closed"};

    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(words[i], NUMBER_TEXT, "%lld", (long long)limits[i]);
        texts[i + 1] = words[i];
    }
    return pod_send(channel, texts, 4, NULL, err);
}

static struct result expect(int channel, const char *what, size_t least, struct error *err)
{
    TRY(pod_receive(channel, &message, err));
    if (message.is_end) return failure(err, ERROR_UNAVAILABLE, "the first process has gone");
    return pod_is(&message, what, least) ? SUCCESS : failure(err, ERROR_INVALID, "the agent does not say %s", what);
}

static struct result show(int channel, const char *folder, const struct pod_wishes *wishes, struct error *err)
{
    TRY(expect(channel, "check", 1, err));
    const char *open = what_is_open(folder, wishes);
    if (open == NULL) return tell_limits(channel, err);
    const char *const texts[] = {"open", open};
    struct error none;
    (void)pod_send(channel, texts, 2, NULL, &none).ok;
    return failure(err, ERROR_DENIED, "the pod is not closed: %s", open);
}

/* The listener goes to process 1 before anybody can ask it. */
static struct result confine(int channel, const struct pod_wishes *wishes, struct error *err)
{
    static const char *const hello[] = {"hello"};
    int listeners[2] = {-1, -1};

    TRY(pod_confine(wishes->tasks ? CONFINE_TASKS : CONFINE_ALONE, &listeners[0], err));
    listeners[1] = listeners[0]; /* messages have two descriptors */
    const struct result told = pod_send(channel, hello, 1, wishes->tasks ? listeners : NULL, err);
    if (wishes->tasks) (void)close(listeners[0]);
    return told;
}

/* ---- the command ---- */

struct command {
    size_t count;
    uint64_t processes, tasks, grace_s;
    char **arguments, **variables;
};

static struct result read_command(struct command *command, struct error *err)
{
    static const char *environment[POD_TEXTS_MAX + 1];
    uint64_t count = 0;

    if (!text_to_u64(bytes_of_text(message.texts[1]), POD_TEXTS_MAX, &count) || count == 0 || count > message.count - WORDS ||
        !text_to_u64(bytes_of_text(message.texts[2]), INT32_MAX, &command->processes) ||
        !text_to_u64(bytes_of_text(message.texts[3]), TASKS_MAX, &command->tasks) || command->tasks == 0 ||
        !text_to_u64(bytes_of_text(message.texts[4]), GRACE_MAX, &command->grace_s) || message.pipes[0] < 0)
        return failure(err, ERROR_INVALID, "the agent's command is malformed");
    command->arguments = (char **)(uintptr_t)(message.texts + WORDS);
    memcpy(environment, message.texts + WORDS + count, (message.count - WORDS - count) * sizeof environment[0]);
    command->variables = (char **)(uintptr_t)environment;
    command->arguments[count] = NULL;
    return SUCCESS;
}

static int become_program(char **arguments)
{
    (void)execvp(arguments[0], arguments);
    return POD_NO_PROGRAM;
}

/* Signals are as a program expects them; process 1 has set some, and a handler goes with the program that has it. */
static void open_signals(void)
{
    sigset_t open;

    (void)sigemptyset(&open);
    (void)sigprocmask(SIG_SETMASK, &open, NULL);
}

static _Noreturn void become(const struct command *command, const struct pod_wishes *wishes)
{
    const uint64_t most = command->processes + (wishes->devices ? 2 : 1); /* of this user: process 1, and what tells of devices */
    const struct rlimit none = {0, 0}, few = {most, most};

    open_signals();
    (void)setrlimit(RLIMIT_CORE, &none);
    if (command->processes > 0 && setrlimit(RLIMIT_NPROC, &few) != 0) _exit(POD_FAILED);
    (void)umask(022);
    (void)!chdir("/code");
    if (dup2(message.pipes[0], STDOUT_FILENO) < 0 || dup2(message.pipes[1], STDERR_FILENO) < 0) _exit(POD_FAILED);
    (void)close_range(STDERR_FILENO + 1, ~0U, command->tasks > 1 ? 0 : CLOSE_RANGE_CLOEXEC);
    environ = command->variables; /* PATH, too, is that of the command */
    if (command->tasks == 1) _exit(become_program(command->arguments));
    _exit(tasks_run((unsigned)command->tasks, command->grace_s, command->arguments, become_program));
}

void payload_inside(int channel, const char *folder, const struct pod_wishes *wishes)
{
    struct command command;
    struct error err = {0}, none;

    struct result done = confine(channel, wishes, &err);
    if (done.ok) done = show(channel, folder, wishes, &err);
    if (done.ok) done = expect(channel, "go", WORDS + 1, &err);
    if (done.ok) done = read_command(&command, &err);
    if (done.ok && command.tasks > 1 && !wishes->tasks)
        done = failure(&err, ERROR_INVALID, "the pod was not made for several tasks");
    if (done.ok) become(&command, wishes);
    const char *const texts[] = {"failed", err.message};
    (void)pod_send(channel, texts, 2, NULL, &none).ok;
    _exit(POD_CLOSED);
}
