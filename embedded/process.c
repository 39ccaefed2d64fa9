#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/priority.h"
#include "embedded/embedded_priv.h"
#include "supervision/child_pipe.h"

#define INPUT_FD        3
#define LOCK_FD         4
#define LOCKED_MAX      (512U << 20) /* bytes: all memory of sijil-keyd with its 32 threads */
#define BACKOFF_MIN_MS  100
#define BACKOFF_MAX_MS  5000
#define DEATH_WAIT_MS   5000
#define STEADY_AFTER_MS 5000 /* a process that ran this long is restarted at once */

/* sijil-keyd locks keys into memory, and the usual limit is too small for its cache. Without root the limit can't change. */
static void raise_lock_limit(void)
{
    const struct rlimit limit = {LOCKED_MAX, LOCKED_MAX};

    if (geteuid() == 0) (void)setrlimit(RLIMIT_MEMLOCK, &limit);
}

struct result process_begin(const struct user *user, int death_signal, pid_t parent, struct error *err)
{
    raise_lock_limit();
    return child_begin(user, death_signal, parent, err);
}

static struct result prepare(void *context, struct error *err)
{
    const struct process *process = context;

    if (process->groups != NULL) TRY(cgroup_enter(process->groups, err));
    if (process->is_database) priority_high(); /* before the change of user, which ends the right to do it */
    raise_lock_limit();
    return SUCCESS;
}

static struct result start(struct process *process, const struct child_descriptor *descriptors, size_t count, struct error *err)
{
    char language[] = "LC_ALL=C", path[] = "PATH=/usr/bin:/bin";
    /* mallopt(3). Without these two variables each transaction takes its memory from the kernel again, which costs 5 % of the time. The second
     * variable is needed, because the first variable alone leaves the second threshold small. */
    char trim[] = "MALLOC_TRIM_THRESHOLD_=4194304", map[] = "MALLOC_MMAP_THRESHOLD_=4194304";
    char *const environment[] = {language, path, process->is_database ? trim : NULL /* others: the list ends here */, map, NULL};
    const struct child_options options = {.arguments = process->arguments,
                                          .environment = environment,
                                          .user = process->user,
                                          .descriptors = descriptors,
                                          .descriptor_count = count,
                                          .death_signal = process->death_signal,
                                          .prepare = prepare,
                                          .context = process};

    return child_start(&options, &process->pid, err);
}

struct result process_start(struct process *process, int lock, struct error *err)
{
    OWNED_FD input = -1;
    OWNED_FD output = -1;
    struct child_descriptor descriptors[4] = {{lock, LOCK_FD}}; /* the lock, the input, and two for the output */
    size_t count = 1;

    if (process->input != NULL) {
        TRY(child_input((struct bytes){process->input->bytes, process->input->length}, &input, err));
        descriptors[count++] = (struct child_descriptor){input, INPUT_FD};
    }
    if (process->output != NULL) {
        TRY(file_open(process->output, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600, &output, err));
        descriptors[count++] = (struct child_descriptor){output, STDOUT_FILENO};
        descriptors[count++] = (struct child_descriptor){output, STDERR_FILENO};
    }
    TRY(start(process, descriptors, count, err));
    process->started_ms = clock_monotonic_ms();
    return SUCCESS;
}

void process_ended(struct process *process, int status)
{
    const int64_t now_ms = clock_monotonic_ms();
    char text[CHILD_STATUS_TEXT_SIZE];

    if (now_ms - process->started_ms > STEADY_AFTER_MS) process->backoff_ms = 0;
    process->restart_at_ms = now_ms + process->backoff_ms;
    process->backoff_ms = process->backoff_ms == 0 ? BACKOFF_MIN_MS : process->backoff_ms * 2;
    if (process->backoff_ms > BACKOFF_MAX_MS) process->backoff_ms = BACKOFF_MAX_MS;
    process->pid = 0;

    child_status_text(status, text);
    log_line(LOG_WARNING, "a process ended", "process", process->name, "with", text, NULL);
}

bool process_is_running(struct process *process)
{
    int status = 0;

    if (process->pid != 0 && child_has_ended(process->pid, &status)) process_ended(process, status);
    return process->pid != 0;
}

void process_stop(struct process *process, unsigned patience_ms)
{
    int ignored = 0;

    if (process->pid == 0) return;
    if (!child_end(process->pid, process->stop_signal, patience_ms, &ignored)) {
        log_line(LOG_WARNING, "a process does not stop and is killed", "process", process->name, NULL);
        if (!child_end(process->pid, process->death_signal, DEATH_WAIT_MS, &ignored))
            (void)child_end(process->pid, SIGKILL, DEATH_WAIT_MS, &ignored);
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

struct result embedded_add_argument(struct embedded *embedded, int process, size_t *count, struct error *err, const char *format,
                                    ...)
{
    assert(*count + 1 < ARGUMENTS_MAX);
    char *text = embedded->texts[process][*count];
    va_list values;

    va_start(values, format);
    const int length = vsnprintf(text, PATH_SIZE, format, values);
    va_end(values);
    if (length >= PATH_SIZE) return failure(err, ERROR_LIMIT, "%.60s... is too long", text);
    embedded->arguments[process][(*count)++] = text;
    embedded->arguments[process][*count] = NULL;
    return SUCCESS;
}
