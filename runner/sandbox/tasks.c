#include "runner/sandbox/tasks.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { STREAMS_MAX = 2 * TASKS_MAX, LINE_SIZE = 8192, NAME_SIZE = 24, NO_PROCESS = 126, LOOK_EACH_MS = 1000 };
enum { PIPE_BYTES = 65536 }; /* that a pipe has room for, unless a task has enlarged it */

/* One output of one task. A line that is longer than the buffer is cut. */
struct stream {
    int from, to; /* from -1: at its end */
    unsigned task;
    size_t length;
    char line[LINE_SIZE];
};

static struct stream streams[STREAMS_MAX];
static pid_t tasks[TASKS_MAX]; /* 0: it has ended */
static unsigned task_count;
static int first_failure;
static long long kill_at_ms;
static int (*become_program)(char **program);

static long long now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void write_all(int to, const char *text, size_t length)
{
    while (length > 0) {
        const ssize_t done = write(to, text, length);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return; /* nobody reads any more: the runner is gone */
        text += done;
        length -= (size_t)done;
    }
}

static void write_line(const struct stream *stream, size_t length)
{
    char text[LINE_SIZE + NAME_SIZE];
    const size_t begin = (size_t)snprintf(text, NAME_SIZE, "[%u] ", stream->task);

    memcpy(text + begin, stream->line, length);
    text[begin + length] = '\n';
    write_all(stream->to, text, begin + length + 1);
}

static void write_lines(struct stream *stream)
{
    const char *end = NULL;

    while ((end = memchr(stream->line, '\n', stream->length)) != NULL || stream->length == LINE_SIZE) {
        const size_t length = end == NULL ? stream->length : (size_t)(end - stream->line),
                     taken = end == NULL ? length : length + 1;
        write_line(stream, length);
        memmove(stream->line, stream->line + taken, stream->length - taken);
        stream->length -= taken;
    }
}

/* Returns how many bytes were there; 0 or less: nothing is there now. */
static ssize_t read_some(struct stream *stream)
{
    const ssize_t got = read(stream->from, stream->line + stream->length, LINE_SIZE - stream->length);

    if (got < 0) return got;
    stream->length += (size_t)got;
    write_lines(stream);
    if (got > 0) return got;
    if (stream->length > 0) write_line(stream, stream->length);
    stream->length = 0;
    (void)close(stream->from);
    stream->from = -1;
    return 0;
}

/*
 * Reads what is in the pipes now, so all that the ended tasks have written. A process that a task has left may hold a stream open, or write on and on: this
 * waits neither for its end nor for its last line.
 */
static void read_the_rest(void)
{
    for (unsigned i = 0; i < 2 * task_count; i++) {
        struct stream *stream = &streams[i];
        int there = 0;
        if (stream->from >= 0 && ioctl(stream->from, FIONREAD, &there) != 0) there = PIPE_BYTES;
        for (ssize_t got = 1; stream->from >= 0 && there > 0 && got > 0; there -= (int)got) got = read_some(stream);
        if (stream->length > 0) write_line(stream, stream->length);
    }
}

static void set_number(const char *name, unsigned long number)
{
    char text[NAME_SIZE];

    (void)snprintf(text, sizeof text, "%lu", number);
    (void)setenv(name, text, 1);
}

/* The runner wrote these digits. */
static unsigned long number_of(const char *digits)
{
    unsigned long number = 0;

    for (; *digits >= '0' && *digits <= '9'; digits++) number = number * 10 + (unsigned long)(*digits - '0');
    return number;
}

/* Sets the ranks as torchrun does. The runner has set the variables that are the same for all tasks. */
static void set_ranks(unsigned task)
{
    const char *node = getenv("GROUP_RANK");
    const unsigned long rank = (node == NULL ? 0 : number_of(node)) * task_count + task;

    set_number("RANK", rank);
    set_number("ROLE_RANK", rank);
    set_number("LOCAL_RANK", task);
}

static void handle(int number, void (*how)(int))
{
    const struct sigaction action = {.sa_handler = how};

    (void)sigaction(number, &action, NULL);
}

static _Noreturn void become_task(unsigned task, const int ends[4], char **program)
{
    sigset_t none;

    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    handle(SIGTERM, SIG_DFL);
    handle(SIGPIPE, SIG_DFL);
    set_ranks(task);
    if (dup2(ends[1], STDOUT_FILENO) < 0 || dup2(ends[3], STDERR_FILENO) < 0) _exit(NO_PROCESS);
    _exit(become_program(program));
}

static bool start(unsigned task, char **program)
{
    int ends[4];

    if (pipe2(ends, O_CLOEXEC) != 0 || pipe2(ends + 2, O_CLOEXEC) != 0) return false;
    tasks[task] = fork();
    if (tasks[task] == 0) become_task(task, ends, program);
    (void)close(ends[1]);
    (void)close(ends[3]);
    for (unsigned i = 0; i < 2; i++) {
        (void)fcntl(ends[2 * i], F_SETFL, O_NONBLOCK);
        streams[2 * task + i] = (struct stream){.from = ends[2 * i], .to = i == 0 ? STDOUT_FILENO : STDERR_FILENO, .task = task};
    }
    return tasks[task] > 0;
}

static void note_failure(const char *what, int status, unsigned long grace_s)
{
    char text[128];

    if (first_failure != 0) return;
    first_failure = status;
    const int length = snprintf(text, sizeof text, "[sijil] %s: all tasks are stopped\n", what);
    write_all(STDERR_FILENO, text, (size_t)length);
    kill_at_ms = now_ms() + (long long)grace_s * 1000;
    (void)kill(-1, SIGTERM); /* all processes of the sandbox but its first, and this one */
}

static void note_end(unsigned task, int status, unsigned long grace_s)
{
    char what[64];

    tasks[task] = 0;
    if (status == 0) return;
    if (WIFSIGNALED(status)) (void)snprintf(what, sizeof what, "task %u was ended by signal %d", task, WTERMSIG(status));
    else (void)snprintf(what, sizeof what, "task %u ended with status %d", task, WEXITSTATUS(status));
    note_failure(what, WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status), grace_s);
}

static void reap(unsigned long grace_s)
{
    pid_t ended = 0;
    int status = 0;

    while ((ended = waitpid(-1, &status, WNOHANG)) > 0)
        for (unsigned i = 0; i < task_count; i++)
            if (tasks[i] == ended) note_end(i, status, grace_s);
}

static bool runs(void)
{
    for (unsigned i = 0; i < task_count; i++)
        if (tasks[i] > 0) return true;
    return false;
}

static void look(int signals)
{
    struct pollfd polled[STREAMS_MAX + 1] = {{.fd = signals, .events = POLLIN}};
    struct signalfd_siginfo taken;

    for (unsigned i = 0; i < 2 * task_count; i++) polled[i + 1] = (struct pollfd){.fd = streams[i].from, .events = POLLIN};
    if (poll(polled, 2 * task_count + 1, LOOK_EACH_MS) <= 0) return;
    if (polled[0].revents != 0) (void)!read(signals, &taken, sizeof taken);
    for (unsigned i = 0; i < 2 * task_count; i++)
        if (polled[i + 1].revents != 0) (void)read_some(&streams[i]);
}

/* TERM of the runner goes to the whole process group: the tasks end by it, and this process waits for them. */
static int take_signals(void)
{
    sigset_t children;

    handle(SIGTERM, SIG_IGN);
    handle(SIGPIPE, SIG_IGN);
    (void)sigemptyset(&children);
    (void)sigaddset(&children, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &children, NULL);
    return signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
}

int tasks_run(unsigned count, unsigned long grace_s, char **program, int (*become)(char **program))
{
    const int signals = take_signals();

    if (signals < 0 || count == 0 || count > TASKS_MAX) return NO_PROCESS;
    (void)prctl(PR_SET_DUMPABLE, 0); /* no task looks into this process */
    task_count = count;
    become_program = become;
    for (unsigned i = 0; i < count; i++) streams[2 * i].from = streams[2 * i + 1].from = -1;
    for (unsigned i = 0; i < count && first_failure == 0; i++)
        if (!start(i, program)) note_failure("a task can't be started", NO_PROCESS, grace_s);
    while (runs()) {
        look(signals);
        reap(grace_s);
        if (first_failure != 0 && now_ms() >= kill_at_ms) (void)kill(-1, SIGKILL);
    }
    read_the_rest();
    return first_failure;
}
