#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/dump.h"
#include "base/environment.h"
#include "base/log.h"
#include "embedded/embedded_priv.h"

#define STOP_MOMENT_MS       2000
#define STOP_RUNNER_MS       20000 /* it cancels its runs and sends their results, which needs the gateway */
#define STOP_POSTGRES_MS     60000 /* its last checkpoint may write a gigabyte */
#define STOP_KEYD_MS         10000
#define CHECK_CERTIFICATE_MS 3600000
/* Deaths in a row, each soon after a start; then a person must act. All restarts share one memory layout (a fork of the supervisor), so
 * the number of tries is limited. A gateway that has served gets more tries, over minutes with the pauses. */
#define GATEWAY_DIES_FIRST_MAX 10
#define GATEWAY_DIES_LATER_MAX 100
#define GATEWAY_SERVES_MS      5000 /* a gateway that ran this long had correct settings and files */

void supervisor_stop(struct embedded *embedded)
{
    if (embedded->is_gateway) return; /* only the supervisor stops them */
    process_stop(&embedded->processes[PROCESS_RUNNER], STOP_MOMENT_MS);
    cgroup_take_back(&embedded->groups);
    process_stop(&embedded->processes[PROCESS_KEYD], STOP_KEYD_MS);
    process_stop(&embedded->processes[PROCESS_POSTGRES], STOP_POSTGRES_MS);
    paths_leave(&embedded->paths);
    secret_free(GIVE(embedded->passphrase));
}

static void count_as_gateway(struct process *gateway, pid_t pid)
{
    gateway->pid = pid;
    gateway->started_ms = clock_monotonic_ms();
}

/* In the child. The sanitizers inspect their own process, which the change of user would forbid. */
static struct result become_gateway(struct embedded *embedded, pid_t parent, struct error *err)
{
    for (size_t i = 0; i < PROCESS_COUNT; i++) embedded->processes[i].pid = 0; /* only the supervisor stops them */
    TRY(process_begin(&embedded->users.gateway, SIGKILL, parent, err));
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    (void)prctl(PR_SET_DUMPABLE, 1);
#endif
    if (!dump_forbid()) return failure(err, ERROR_UNAVAILABLE, "core dumps can't be forbidden: %s", strerror(errno));
    (void)umask(077);
    environment_keep(environment_of_servers);
    secret_free(GIVE(embedded->passphrase));
    return SUCCESS;
}

static int status_of(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static _Noreturn void finish(struct embedded *embedded, int code)
{
    supervisor_stop(embedded);
    log_line(LOG_INFO, "stopped", "directory", embedded->paths.directory, NULL);
    _exit(code);
}

/*
 * If a first start fails for a permanent reason, all processes end. A gateway is restarted if a signal ended it, if it has served before, or if
 * its peers were away while it started.
 */
static bool comes_back(const struct embedded *embedded, int status)
{
    if (WIFSIGNALED(status)) return true;
    return WEXITSTATUS(status) == EXIT_TRY_AGAIN || (WEXITSTATUS(status) != 0 && embedded->has_served);
}

static void gateway_ended(struct embedded *embedded, int status, bool stopping, unsigned *deaths)
{
    struct process *gateway = &embedded->processes[PROCESS_GATEWAY];
    const int64_t lived_ms = clock_monotonic_ms() - gateway->started_ms;

    if (lived_ms > GATEWAY_SERVES_MS) embedded->has_served = true;
    const unsigned most = embedded->has_served ? GATEWAY_DIES_LATER_MAX : GATEWAY_DIES_FIRST_MAX;
    if (stopping || !comes_back(embedded, status)) finish(embedded, status_of(status));
    process_ended(gateway, status);
    *deaths = lived_ms > 30000 ? 1 : *deaths + 1;
    if (*deaths > most && (WIFSIGNALED(status) || !embedded->has_served)) {
        log_line(LOG_ERROR, "the gateway dies again and again: giving up", NULL);
        finish(embedded, status_of(status));
    }
}

static void reap(struct embedded *embedded, bool stopping, unsigned *deaths)
{
    int status = 0;

    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        if (pid == embedded->processes[PROCESS_GATEWAY].pid) gateway_ended(embedded, status, stopping, deaths);
        else if (pid == embedded->processes[PROCESS_RUNNER].pid) runner_ended(embedded, status);
        for (size_t i = 0; i < PROCESS_RUNNER; i++)
            if (pid == embedded->processes[i].pid) process_ended(&embedded->processes[i], status);
    }
}

static bool all_run(const struct embedded *embedded)
{
    return embedded->processes[PROCESS_POSTGRES].pid != 0 && embedded->processes[PROCESS_KEYD].pid != 0;
}

static bool is_due(const struct process *process)
{
    return process->pid == 0 && clock_monotonic_ms() >= process->restart_at_ms;
}

/* A failed start counts as one more death, so that the pause grows. */
static void restart(struct embedded *embedded)
{
    static struct result (*const starts[])(struct embedded *,
                                           struct error *) = {[PROCESS_POSTGRES] = postgres_start, [PROCESS_KEYD] = keyd_start};
    struct error err = {0};

    for (size_t i = 0; i < PROCESS_RUNNER; i++) {
        struct process *process = &embedded->processes[i];
        if (!is_due(process)) continue;
        log_line(LOG_INFO, "starting a process again", "process", process->name, NULL);
        if (starts[i](embedded, &err).ok) continue;
        log_error("a process could not be started", &err);
        if (process->pid != 0) process_stop(process, 1000);
        process->restart_at_ms = clock_monotonic_ms() + 1000;
    }
}

/* A server runs longer than its certificate lasts, so the certificate is checked every hour, and on SIGHUP. */
static void renew_certificate(struct embedded *embedded)
{
    const pid_t gateway = embedded->processes[PROCESS_GATEWAY].pid;
    struct error err = {0};

    const struct result renewed = certificates_prepare(embedded, &err);
    if (!renewed.ok) log_error("the server certificate could not be renewed", &err);
    if (renewed.ok && gateway != 0) (void)kill(gateway, SIGHUP);
}

/* First the runner, while the gateway still takes the results of its runs; then the gateway, which ends the supervisor. */
struct ending {
    bool is_asked, is_gateway_told;
    int64_t gateway_at_ms; /* also if the runner has not ended by then */
};

static void stop_gateway(struct embedded *embedded, struct ending *ending)
{
    const pid_t gateway = embedded->processes[PROCESS_GATEWAY].pid;

    if (ending->is_gateway_told) return;
    ending->is_gateway_told = true;
    if (gateway == 0) finish(embedded, 0);
    (void)kill(gateway, SIGTERM);
}

/* A second request to stop does not wait for the runner. */
static void begin_to_end(struct embedded *embedded, struct ending *ending)
{
    const pid_t runner = embedded->processes[PROCESS_RUNNER].pid;

    ending->gateway_at_ms = ending->is_asked ? 0 : clock_monotonic_ms() + STOP_RUNNER_MS;
    ending->is_asked = true;
    if (runner != 0) (void)kill(runner, SIGTERM);
}

static void go_on_ending(struct embedded *embedded, struct ending *ending)
{
    if (embedded->processes[PROCESS_RUNNER].pid == 0 || clock_monotonic_ms() >= ending->gateway_at_ms)
        stop_gateway(embedded, ending);
}

static void forward(struct embedded *embedded, int signal, struct ending *ending)
{
    if (signal == SIGHUP) {
        renew_certificate(embedded);
        runner_try_again(embedded);
    }
    if (signal == SIGTERM || signal == SIGINT) begin_to_end(embedded, ending);
}

void supervisor_block_signals(sigset_t *set_out)
{
    (void)sigemptyset(set_out);
    (void)sigaddset(set_out, SIGCHLD);
    (void)sigaddset(set_out, SIGTERM);
    (void)sigaddset(set_out, SIGINT);
    (void)sigaddset(set_out, SIGHUP);
    (void)sigprocmask(SIG_BLOCK, set_out, NULL);
}

/* Returns when the gateway must be started. */
static void watch(struct embedded *embedded, unsigned *deaths)
{
    const struct timespec tick = {.tv_nsec = 200000000};
    const struct process *gateway = &embedded->processes[PROCESS_GATEWAY];
    sigset_t signals;
    int64_t looked_ms = clock_monotonic_ms();
    struct ending ending = {.is_asked = false};

    supervisor_block_signals(&signals);
    for (;;) {
        const int signal = sigtimedwait(&signals, NULL, &tick);
        if (signal > 0) forward(embedded, signal, &ending);
        reap(embedded, ending.is_asked, deaths);
        if (ending.is_asked) {
            go_on_ending(embedded, &ending);
            continue;
        }
        restart(embedded);
        if (clock_monotonic_ms() - looked_ms > CHECK_CERTIFICATE_MS) {
            looked_ms = clock_monotonic_ms();
            renew_certificate(embedded);
        }
        if (is_due(gateway) && all_run(embedded)) return;
        if (gateway->pid != 0 && all_run(embedded)) runner_keep(embedded); /* an enrolment needs all of them */
    }
}

struct result supervisor_fork(struct embedded *embedded, struct error *err)
{
    struct process *gateway = &embedded->processes[PROCESS_GATEWAY];
    unsigned deaths = 0;

    *gateway = (struct process){.name = "gateway", .user = &embedded->users.gateway};
    for (;; watch(embedded, &deaths)) {
        const pid_t parent = getpid(), pid = fork();
        if (pid == 0) return become_gateway(embedded, parent, err);
        if (pid < 0) return failure(err, ERROR_UNAVAILABLE, "no process: %s", strerror(errno));
        count_as_gateway(gateway, pid);
    }
}
