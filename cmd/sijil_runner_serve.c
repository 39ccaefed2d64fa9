#include "cmd/sijil_runner_serve.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/dump.h"
#include "base/log.h"
#include "base/notify.h"
#include "base/text.h"
#include "base/uuid.h"
#include "runner/sandbox/work.h"
#include "runner/talk/talk.h"
#include "supervision/user.h"

#define DRAIN_MAX_S 2592000
#define OWN_GROUP   "own"

static bool take_number(const char *text, uint64_t least, uint64_t most, uint64_t *number_out)
{
    uint64_t number = 0;

    if (!text_to_u64(bytes_of_text(text), most, &number) || number < least) return false;
    *number_out = number;
    return true;
}

static bool take_amount(const char *text, int64_t *amount_out)
{
    uint64_t amount = 0;

    if (!take_number(text, 1, INT64_C(9007199254740991), &amount)) return false;
    *amount_out = (int64_t)amount;
    return true;
}

/* NAME=VALUE of training/format/limits.def. */
static const char *take_limit(struct run_limits *most)
{
    const char *value = strchr(optarg, '=');
    uint64_t number = 0;

    if (value == NULL) return "--limit needs NAME=VALUE, such as time_s=86400";
    const size_t length = (size_t)(value - optarg);
#define X(name, least, largest, initial, what)                                          \
    if (length == strlen(#name) && strncmp(optarg, #name, length) == 0) {               \
        if (!take_number(value + 1, least, largest, &number))                           \
            return "--limit: " #name " is a whole number from " #least " to " #largest; \
        most->name = (int64_t)number;                                                   \
        return NULL;                                                                    \
    }
#include "training/format/limits.def"
#undef X
    return "--limit: not the name of a limit; 'man sijil-runner' lists them";
}

static const char *take_tunnel(struct runner_serve *settings)
{
    if (talk_where_read(optarg, settings->tunnel_listen, &settings->tunnel_port) &&
        settings->tunnel_port <= 65535 - SERVE_PARALLEL_MAX)
        return NULL;
    return "--tunnel-listen needs an IP address and a port up to 65471, such as 192.0.2.7:4700 or [2001:db8::7]:4700";
}

const char *runner_serve_option(struct runner_serve *settings, int option, bool *known_out)
{
    *known_out = true;
    switch (option) {
    case RUNNER_PARALLEL:
        return take_number(optarg, 1, SERVE_PARALLEL_MAX, &settings->parallel) ? NULL : "--parallel is a number from 1 to 64";
    case RUNNER_CPUS: return take_amount(optarg, &settings->cpus) ? NULL : "--cpus is a number from 1";
    case RUNNER_MEMORY: return take_amount(optarg, &settings->memory_bytes) ? NULL : "--memory is a number of bytes";
    case RUNNER_IMAGE_CACHE:
        return take_amount(optarg, &settings->image_cache_bytes) ? NULL : "--image-cache is a number of bytes";
    case RUNNER_LIMIT: return take_limit(&settings->most);
    case RUNNER_DRAIN:
        return take_number(optarg, 0, DRAIN_MAX_S, &settings->drain_s) ? NULL : "--drain is a number of seconds, at most 2592000";
    case RUNNER_JOBS_USER: settings->jobs_user = optarg; return NULL;
    case RUNNER_TUNNEL_LISTEN: return take_tunnel(settings);
    case RUNNER_TUNNEL_ADDRESS:
        settings->tunnel_address = optarg;
        return talk_is_address(optarg) ? NULL : "--tunnel-address needs an IP address";
    default: *known_out = false; return NULL;
    }
}

static int64_t or_else(int64_t value, int64_t otherwise)
{
    return value != 0 ? value : otherwise;
}

static int failed(const char *what, const struct error *err)
{
    log_error(what, err);
    return SERVE_EXIT_FAILED;
}

/* A real sandbox is started first: a machine that can't run anything asks for nothing. What a killed runner has left is removed by this. */
static struct result look(const struct runner_serve *settings, struct serve_options *options, struct error *err)
{
    struct machine_options wanted = settings->machine;
    struct machine machine;

    wanted.joins_nodes = options->tunnel_listen != NULL;
    TRY(machine_look(&wanted, &machine, err));
    machine_done(&machine);
    if (!machine.runs) return failure(err, ERROR_UNAVAILABLE, "no sandbox can be made: %.220s", machine.why);
    if (wanted.joins_nodes && !machine.joins_nodes)
        return failure(err, ERROR_UNAVAILABLE, "--tunnel-listen: %.220s", machine.no_nodes);
    options->isolation = machine.isolation;
    options->cpus = or_else(settings->cpus, machine.cpus);
    options->memory_bytes = or_else(settings->memory_bytes, machine.memory_bytes);
    if (machine.isolation >= settings->machine.least) return SUCCESS;
    return failure(err, ERROR_DENIED, "the isolation %s is demanded, and this machine gives %s",
                   isolation_name(settings->machine.least), isolation_name(machine.isolation));
}

/* The namespace must confine pods, and what an earlier process has left there is removed. Each pod shows its own isolation before it gets a byte of a run. */
static struct result look_at_pods(const struct runner_serve *settings, struct serve_options *options, struct error *err)
{
    const struct cgroup_place nowhere = {.isolation = ISOLATION_RLIMITS};
    OWNED(kubernetes) *cluster = NULL;
    struct work work = WORK_NONE;
    char runner[UUID_TEXT_SIZE], number[24];
    size_t count = 0;

    TRY(work_open(settings->machine.work, getegid(), &nowhere, &work, err)); /* and what killed runs have left here */
    TRY(work_remove(&work, err));
    TRY(attend_check(settings->pods, err));
    TRY(kubernetes_open(&settings->pods->cluster, &cluster, err));
    TRY(kubernetes_check_place(cluster, err));
    uuid_format(&options->state->own.runner, runner);
    TRY(kubernetes_sweep(cluster, runner, &count, err));
    (void)snprintf(number, sizeof number, "%zu", count);
    if (count > 0) log_line(LOG_WARNING, "jobs of an earlier process are removed", "count", number, NULL);
    options->isolation = settings->machine.least;
    options->cpus = settings->cpus;
    options->memory_bytes = settings->memory_bytes;
    options->pods = settings->pods;
    return SUCCESS;
}

/* --cgroup=own. On a machine without version 2 the isolation is the best of the others, as without the option. */
static struct result find_group(struct runner_serve *settings, char path[CGROUP_PATH_SIZE], struct error *err)
{
    struct error why;

    if (settings->machine.cgroup == NULL || strcmp(settings->machine.cgroup, OWN_GROUP) != 0) return SUCCESS;
    const bool is_aside = cgroup_step_aside(path, &why).ok;
    if (!is_aside && why.kind != ERROR_NOT_FOUND) return failure(err, why.kind, "%s", why.message);
    settings->machine.cgroup = is_aside ? path : NULL;
    return SUCCESS;
}

static int serve_until_stopped(const struct runner_serve *settings, struct serve_options *options)
{
    enum serve_end end = SERVE_STOPPED;
    struct error err = {0};

    if (settings->pods != NULL) {
        if (!look_at_pods(settings, options, &err).ok) return failed("the cluster can't run anything", &err);
    } else if (!look(settings, options, &err).ok) return failed("this machine can't run anything", &err);
    options->most = serve_limits(&settings->most, options->cpus, options->memory_bytes);
    if (!notify_connect(&err).ok) log_error("the service manager is not told", &err);
    if (!serve(options, &end, &err).ok) return failed("the runner can't serve", &err);
    if (end == SERVE_SUSPENDED) return SERVE_EXIT_SUSPENDED;
    return end == SERVE_KILLED ? SERVE_EXIT_KILLED : 0;
}

/* The payload's user is never heard, so a name that nobody has must not become it. */
static struct result find_caller(const char *name, uid_t *caller_out, struct error *err)
{
    struct user user;

    *caller_out = geteuid();
    if (name == NULL) return SUCCESS;
    TRY(user_find(name, &user, err));
    *caller_out = user.uid;
    return SUCCESS;
}

int runner_serve(const struct runner_serve *given, const char *jobs, const volatile sig_atomic_t *stops)
{
    struct runner_serve settings = *given;
    char group[CGROUP_PATH_SIZE];
    OWNED(runner_state) *state = NULL;
    struct error err = {0};
    uid_t caller = 0;

    if (!dump_forbid()) log_line(LOG_WARNING, "core files can't be forbidden", NULL);
    if (!find_group(&settings, group, &err).ok) return failed("the runner's own control group can't be used", &err);
    if (!runner_state_open(settings.state, &state, &err).ok) return failed("the runner's folder can't be used", &err);
    if (!find_caller(settings.jobs_user, &caller, &err).ok) return failed("the user of jobs can't be found", &err);
    struct serve_options options = {.state = state,
                                    .jobs = jobs,
                                    .jobs_user = caller,
                                    .work = settings.machine.work,
                                    .user = settings.machine.user,
                                    .inside = settings.machine.inside,
                                    .cgroup = settings.machine.cgroup,
                                    .nvml = settings.machine.nvml,
                                    .devices = settings.devices,
                                    .image_bytes = settings.image_bytes,
                                    .image_cache_bytes = settings.image_cache_bytes,
                                    .parallel = (unsigned)settings.parallel,
                                    .drain_ms = (int64_t)settings.drain_s * 1000,
                                    .tunnel_listen = settings.tunnel_listen[0] == '\0' ? NULL : settings.tunnel_listen,
                                    .tunnel_port = settings.tunnel_port,
                                    .tunnel_address =
                                        settings.tunnel_address == NULL ? settings.tunnel_listen : settings.tunnel_address,
                                    .stops = stops};
    return serve_until_stopped(&settings, &options);
}
