/* How the runner of this machine is started, and when again. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "embedded/embedded_priv.h"
#include "supervision/child_pipe.h"

#define FIRST_START_MS   2000 /* after the gateway's, so that it does not slow down the start of the registry */
#define PAUSE_LEAST_MS   5000
#define PAUSE_MOST_MS    3600000
#define STATUS_FAILED    1 /* of `sijil-runner serve`: it can't serve, and has said why */
#define STATUS_SUSPENDED 3
#define REPORT_MAX       65536 /* of `sijil-runner check`: 64 devices */
#define WAY_OUT          "the registry works without it; docs/embedded.md, \"The runner\""

static void give_up(struct embedded *embedded, const char *why)
{
    int64_t *pause_ms = &embedded->runner_pause_ms;
    char next[24];

    *pause_ms = *pause_ms == 0 ? PAUSE_LEAST_MS : *pause_ms * 2;
    if (*pause_ms > PAUSE_MOST_MS) *pause_ms = PAUSE_MOST_MS;
    embedded->processes[PROCESS_RUNNER].restart_at_ms = clock_monotonic_ms() + *pause_ms;
    (void)snprintf(next, sizeof next, "%lld s", (long long)*pause_ms / 1000);
    log_line(LOG_WARNING, "this machine has no runner, so runs wait", "because", why, "see", WAY_OUT, "next try in", next, NULL);
}

void runner_try_again(struct embedded *embedded)
{
    if (embedded->processes[PROCESS_RUNNER].restart_at_ms == INT64_MAX) return;
    embedded->runner_pause_ms = 0;
    embedded->processes[PROCESS_RUNNER].restart_at_ms = 0;
}

void runner_ended(struct embedded *embedded, int status)
{
    struct process *process = &embedded->processes[PROCESS_RUNNER];
    const int64_t lived_ms = clock_monotonic_ms() - process->started_ms;

    process_ended(process, status);
    if (lived_ms > PAUSE_LEAST_MS) embedded->runner_pause_ms = 0;
    if (!WIFEXITED(status)) return;
    if (WEXITSTATUS(status) == STATUS_FAILED) give_up(embedded, "it can't serve: its last log line says why");
    if (WEXITSTATUS(status) != STATUS_SUSPENDED) return;
    process->restart_at_ms = INT64_MAX;
    log_line(LOG_ERROR, "the registry has suspended the key of this machine's runner: it is not started again", "see", WAY_OUT,
             NULL);
}

/* ---- what the machine gives ---- */

/* The runner's user could not make it a member later. The name is the same at each start, so a killed start leaves one group at most. */
void runner_find_groups(struct embedded *embedded)
{
    char name[32];
    struct error why = {0};

    if (embedded->options.no_runner || !embedded->users.separate) return;
    if (!users_find_runner(&embedded->users, &embedded->runner, &why).ok) return; /* said when the runner is to be started */
    (void)snprintf(name, sizeof name, "sijil-%.8s", embedded->paths.id);
    if (!cgroup_give(name, embedded->runner.uid, embedded->runner.gid, &embedded->groups, &why).ok)
        log_line(LOG_INFO, "the runner of this machine has no control groups", "because", why.message, NULL);
}

/* Of version 2. With version 1 the runner finds the groups that it is in. */
static bool has_own_folder(const struct embedded *embedded)
{
    return embedded->groups.isolation == ISOLATION_CGROUP_V2 && embedded->groups.count > 0;
}

static struct result take(void *context, enum child_stream stream, struct bytes piece, struct error *err)
{
    return stream == CHILD_OUTPUT ? buffer_add(context, piece.data, piece.length, err) : SUCCESS;
}

static struct result enter(void *context, struct error *err)
{
    const struct embedded *embedded = context;

    return cgroup_enter(&embedded->groups, err);
}

static struct result run_check(const struct embedded *embedded, char *const *arguments, struct buffer *report, struct error *err)
{
    char language[] = "LC_ALL=C", path[] = "PATH=/usr/bin:/bin";
    char *const environment[] = {language, path, NULL};
    const struct child_output_options wanted = {.maximum = REPORT_MAX, .take = take, .context = report};
    struct child_descriptor ends[CHILD_STREAMS];
    OWNED(child_output) *output = NULL;
    bool is_open = true;
    int status = 0;
    pid_t pid = 0;

    TRY(child_output_new(&wanted, &output, err));
    child_output_ends(output, ends);
    const struct child_options options = {.arguments = arguments,
                                          .environment = environment,
                                          .user = &embedded->runner,
                                          .prepare = enter,
                                          .context = (void *)(uintptr_t)embedded,
                                          .descriptors = ends,
                                          .descriptor_count = CHILD_STREAMS,
                                          .death_signal = SIGKILL};
    TRY(child_start(&options, &pid, err));
    struct result read = SUCCESS;
    while (read.ok && is_open) read = child_output_read(output, -1, &is_open, err);
    if (!read.ok) (void)kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return read;
}

static struct result read_report(struct bytes report, struct runner_place *place_out, struct error *err)
{
    OWNED_JSON json = NULL;
    struct error ignored = {0};

    if (!json_read(report, REPORT_MAX, &json, &ignored).ok || json_text_of(json, "isolation") == NULL)
        return failure(err, ERROR_UNAVAILABLE, "sijil-runner check tells nothing about this machine");
    const char *why = json_text_of(json, "why");
    if (!json_is_true(json_object_get(json, "sandbox")))
        return failure(err, ERROR_UNAVAILABLE, "no sandbox can be made: %.220s", why == NULL ? "" : why);
    (void)snprintf(place_out->isolation, sizeof place_out->isolation, "%s", json_text_of(json, "isolation"));
    place_out->devices = (int64_t)json_array_size(json_object_get(json, "devices"));
    return SUCCESS;
}

struct result runner_probe(const struct embedded *embedded, struct runner_place *place_out, struct error *err)
{
    struct buffer OWNED_BUFFER report = BUFFER(REPORT_MAX);
    char work[PATH_SIZE + 8], group[CGROUP_PATH_SIZE + 16], check[] = "check", json[] = "--json";

    (void)snprintf(work, sizeof work, "--work=%s", embedded->paths.runner_work);
    (void)snprintf(group, sizeof group, "--cgroup=%s", embedded->groups.folders[0]);
    char *const arguments[] = {embedded->arguments[PROCESS_RUNNER][0],  check, json, work,
                               has_own_folder(embedded) ? group : NULL, NULL};
    TRY(run_check(embedded, arguments, &report, err));
    return read_report(buffer_bytes(&report), place_out, err);
}

/* ---- starting ---- */

static struct result start(struct embedded *embedded, struct error *err)
{
    struct process *process = &embedded->processes[PROCESS_RUNNER];
    bool is_there = false;

    TRY(users_find_runner(&embedded->users, &embedded->runner, err));
    TRY(file_is_there(process->arguments[0], &is_there, err));
    if (!is_there) return failure(err, ERROR_NOT_FOUND, "%.200s is missing: it belongs beside sijild", process->arguments[0]);
    TRY(directory_make(embedded->paths.runner, &embedded->runner, embedded->runner.gid, 0700, err));
    TRY(runner_enrol(embedded, err));
    return process_start(process, embedded->paths.lock, err);
}

void runner_keep(struct embedded *embedded)
{
    struct process *process = &embedded->processes[PROCESS_RUNNER];
    struct error err = {0};

    if (embedded->options.no_runner || process->pid != 0 || clock_monotonic_ms() < process->restart_at_ms) return;
    if (start(embedded, &err).ok) return;
    if (!step_is_interrupted()) give_up(embedded, err.message);
}

/* Beside sijil-keyd. */
static struct result add_program(struct embedded *embedded, size_t *count, struct error *err)
{
    const char *keyd = embedded->paths.keyd_program;

    return embedded_add_argument(embedded, PROCESS_RUNNER, count, err, "%.*ssijil-runner", (int)(strrchr(keyd, '/') + 1 - keyd),
                                 keyd);
}

struct result runner_prepare(struct embedded *embedded, struct error *err)
{
    struct process *process = &embedded->processes[PROCESS_RUNNER];
    size_t count = 0;

    *process = (struct process){
        .name = "sijil-runner",
        .user = &embedded->runner,
        .death_signal = SIGKILL, /* nothing would get the result of a run that it finishes */
        .stop_signal = SIGTERM,
        .arguments = embedded->arguments[PROCESS_RUNNER],
        .groups = &embedded->groups,
        .restart_at_ms = clock_monotonic_ms() + FIRST_START_MS,
    };
    TRY(add_program(embedded, &count, err));
    TRY(embedded_add_argument(embedded, PROCESS_RUNNER, &count, err, "serve"));
    TRY(embedded_add_argument(embedded, PROCESS_RUNNER, &count, err, "--state=%s", embedded->paths.runner_state));
    TRY(embedded_add_argument(embedded, PROCESS_RUNNER, &count, err, "--work=%s", embedded->paths.runner_work));
    if (!has_own_folder(embedded)) return SUCCESS;
    return embedded_add_argument(embedded, PROCESS_RUNNER, &count, err, "--cgroup=%s", embedded->groups.folders[0]);
}
