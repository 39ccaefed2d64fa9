#include "runner/pod/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "runner/pod/confine.h"
#include "runner/pod/pod.h"

#define PATIENCE_MS 60000 /* a driver that nobody uses may take seconds to begin */
#define LIBRARIES \
    "LD_LIBRARY_PATH=/usr/local/nvidia/lib64:/usr/local/nvidia/lib" /* where some clusters mount them; else the linker's own folders */

/* ---- the program ---- */

static _Noreturn void become(const char *folder, int output)
{
    char path[POD_PATH_SIZE], libraries[] = LIBRARIES;
    char *const words[] = {path, NULL}, *const variables[] = {libraries, NULL};
    struct error err = {0};
    sigset_t open;
    int none = -1;

    (void)sigemptyset(&open);
    (void)sigprocmask(SIG_SETMASK, &open, NULL);
    (void)snprintf(path, sizeof path, "%.80s/" PROBE_PROGRAM, folder);
    if (dup2(output, STDOUT_FILENO) >= 0 && pod_confine(CONFINE_ALONE, &none, &err).ok) {
        (void)close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
        (void)execve(path, words, variables);
        (void)dprintf(STDOUT_FILENO, "none %s can't begin: %s (the image needs the GNU C library, 2.34 or newer)\n", path,
                      strerror(errno));
    }
    _exit(POD_NO_PROGRAM);
}

struct result probe_start(struct probe *probe, const char *folder, struct error *err)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0) return failure(err, ERROR_UNAVAILABLE, "no pipe: %s", strerror(errno));
    probe->child = fork();
    if (probe->child == 0) become(folder, ends[1]);
    (void)close(ends[1]);
    probe->output = ends[0];
    probe->length = probe->count = 0;
    return probe->child > 0 ? SUCCESS : failure(err, ERROR_UNAVAILABLE, "no process for devices: %s", strerror(errno));
}

/* ---- what it tells ---- */

static void stop_reading(struct probe *probe)
{
    file_close_owned(&probe->output);
    probe->output = -1;
}

static void read_some(struct probe *probe)
{
    const size_t room = sizeof probe->read - 1 - probe->length;
    const ssize_t got = room == 0 ? 0 : read(probe->output, probe->read + probe->length, room);

    if (got > 0) probe->length += (size_t)got;
    else if (got == 0 || errno != EINTR) stop_reading(probe);
}

/* The next whole line of what is read goes to the end of `told`; NULL: there is none. */
static char *next_line(struct probe *probe, size_t *used)
{
    char *end = memchr(probe->read, '\n', probe->length);
    const size_t length = end == NULL ? 0 : (size_t)(end - probe->read);
    char *line = probe->told + *used;

    if (end == NULL || *used + length + 1 > sizeof probe->told) return NULL;
    memcpy(line, probe->read, length);
    line[length] = '\0';
    *used += length + 1;
    probe->length -= length + 1;
    memmove(probe->read, end + 1, probe->length);
    return line;
}

/* The texts between the bars. */
static void split(struct probe *probe, char *text)
{
    for (char *next = text; next != NULL && probe->count < PROBE_TEXTS_MAX;) {
        probe->texts[probe->count++] = next;
        next = strchr(next, '|');
        if (next != NULL) *next++ = '\0';
    }
}

static void fail(struct probe *probe, const char *why)
{
    probe->texts[0] = "";
    probe->texts[1] = why;
    probe->count = 2;
    stop_reading(probe);
}

/* True: the list is complete. */
static bool take_line(struct probe *probe, char *line)
{
    if (strncmp(line, "device ", 7) == 0) split(probe, line + 7);
    else if (strncmp(line, "none ", 5) == 0) fail(probe, line + 5);
    return strncmp(line, "device ", 7) != 0;
}

void probe_await_devices(struct probe *probe)
{
    const int64_t until_ms = clock_monotonic_ms() + PATIENCE_MS;
    size_t used = 0;

    while (clock_monotonic_ms() < until_ms && probe->output >= 0) {
        struct pollfd polled = {.fd = probe->output, .events = POLLIN};
        if (poll(&polled, 1, 1000) > 0) read_some(probe);
        for (char *line = next_line(probe, &used); line != NULL; line = next_line(probe, &used))
            if (take_line(probe, line)) return;
    }
    fail(probe, PROBE_PROGRAM " tells nothing: the image needs the GNU C library, 2.34 or newer");
}

bool probe_hear_use(struct probe *probe)
{
    size_t used = 0;

    read_some(probe);
    probe->count = 0;
    for (char *line = next_line(probe, &used); line != NULL; line = next_line(probe, &used)) {
        if (strncmp(line, "use ", 4) != 0) continue;
        probe->count = 0;
        split(probe, line + 4);
    }
    return probe->count > 0;
}
