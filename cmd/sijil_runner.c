/*
 * sijil-runner: `check` shows the isolation and the devices that this machine offers, `try` runs a command in the sandbox of a
 * run, `enroll` makes this machine a runner of a registry, `show` shows which, `serve` runs what the registry orders. `job` is what a
 * scheduler starts on a node.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/notify.h"
#include "base/process.h"
#include "base/text.h"
#include "base/typo.h"
#include "cmd/options.h"
#include "cmd/sijil_runner_enroll.h"
#include "cmd/sijil_runner_jobs.h"
#include "cmd/sijil_runner_pods.h"
#include "cmd/sijil_runner_serve.h"
#include "runner/attempt.h"
#include "runner/cluster.h"
#include "runner/machine.h"
#include "supervision/user.h"

#define COMMANDS "check, try, enroll, show, serve or job"

enum { EXIT_FLOOR = 1, EXIT_USAGE = 2, EXIT_NOT_KEPT = 123, EXIT_NOT_STARTED = 126, PATH_SIZE = 512, REPORT_MAX = 16 << 20 };

struct settings {
    struct attempt_options attempt;
    struct slurm_options slurm; /* url NULL: this machine */
    struct runner_pods pods;    /* likewise */
    struct user self;
    char work[PATH_SIZE], inside[PATH_SIZE];
    struct runner_enroll enroll;
    struct runner_serve serve;
    struct runner_schedule schedule;
    const char *jobs;    /* the socket; NULL: none */
    char gpus[WISH_MAX]; /* that Slurm has given to its job; "": it does not say */
    bool json, has_state, has_try_option, has_enroll_option, has_serve_option;
};

static volatile sig_atomic_t cancelled;

static void cancel(int number)
{
    (void)number;
    cancelled = 1;
}

static int misused(const char *why)
{
    (void)fprintf(stderr, "sijil-runner: %s\nTry 'sijil-runner --help'.\n", why);
    return EXIT_USAGE;
}

static int unknown_command(const char *given)
{
    static const char *const commands[] = {"check", "enroll", "job", "serve", "show", "try"};
    const char *nearest = typo_nearest(given, commands, sizeof commands / sizeof commands[0]);
    char why[160];

    (void)snprintf(why, sizeof why,
                   nearest == NULL ? "there is no command '%.60s'" : "there is no command '%.60s'; did you mean '%s'?", given,
                   nearest);
    return misused(why);
}

static int failed(const struct error *err)
{
    (void)fprintf(stderr, "sijil-runner: %s\n", err->message);
    return EXIT_NOT_STARTED;
}

/* Beside this program in a build, in libexec where it is installed. */
static void find_inside(char inside[PATH_SIZE])
{
    char own[PATH_SIZE] = "";
    const ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    char *slash = length > 0 ? strrchr(own, '/') : NULL;

    if (slash != NULL) *slash = '\0';
    (void)snprintf(inside, PATH_SIZE, "%.470s/../libexec/sijil/sijil-inside", own);
    if (access(inside, F_OK) != 0) (void)snprintf(inside, PATH_SIZE, "%.480s/sijil-inside", own);
}

static bool take_listed(const char **list, size_t *count, size_t most)
{
    if (*count == most) return false;
    list[(*count)++] = optarg;
    return true;
}

/* Sandboxes are made from another folder than this one. */
static const char *take_work(struct settings *settings)
{
    char here[PATH_SIZE];

    settings->attempt.work = optarg;
    if (optarg[0] == '/') return NULL;
    if (getcwd(here, sizeof here) == NULL ||
        snprintf(settings->work, sizeof settings->work, "%s/%s", here, optarg) >= (int)sizeof settings->work)
        return "--work: the path of the present folder is too long: name one that begins with /";
    settings->attempt.work = settings->work;
    return NULL;
}

static const char *take_input(struct attempt_options *attempt)
{
    const char *equals = strchr(optarg, '=');

    if (equals == NULL || equals == optarg || equals[1] == '\0') return "--input needs NAME=PATH";
    return take_listed(attempt->inputs, &attempt->input_count, RUN_INPUTS_MAX) ? NULL : "too many --input";
}

static const char *take_image_bytes(struct attempt_options *attempt)
{
    uint64_t bytes = 0;

    if (!text_to_u64(bytes_of_text(optarg), INT64_C(9007199254740991), &bytes) || bytes < IMAGE_BYTES_LEAST)
        return "--image-bytes is a number of bytes from 1048576";
    attempt->image_bytes = (int64_t)bytes;
    return NULL;
}

static const char *take_try_option(struct settings *settings, int option)
{
    struct attempt_options *attempt = &settings->attempt;

    settings->has_try_option = true;
    switch (option) {
    case RUNNER_CODE: attempt->code = optarg; return NULL;
    case RUNNER_OUTPUT: attempt->output = optarg; return NULL;
    case RUNNER_IMAGE: attempt->image = optarg; return NULL;
    case RUNNER_QUIET: attempt->quiet = true; return NULL;
    case RUNNER_INPUT: return take_input(attempt);
    case RUNNER_ADD: return take_listed(attempt->added, &attempt->added_count, PAYLOAD_ADDED_MAX) ? NULL : "too many --add";
    default: return "an option is not known or lacks its value";
    }
}

/* Whether it was one of them. */
static bool take_slurm_option(struct slurm_options *slurm, int option)
{
    switch (option) {
    case RUNNER_SLURM: slurm->url = optarg; return true;
    case RUNNER_SLURM_USER: slurm->user = optarg; return true;
    case RUNNER_SLURM_TOKEN: slurm->token_file = optarg; return true;
    case RUNNER_SLURM_CONFIG: slurm->config = optarg; return true;
    case RUNNER_SLURM_PROGRAMS: slurm->programs = optarg; return true;
    case RUNNER_CA: slurm->ca_file = optarg; return true;
    default: return false;
    }
}

static const char *take_other_option(struct settings *settings, int option)
{
    bool is_known = false;
    const char *wrong = runner_enroll_option(&settings->enroll, option, &is_known);

    if (is_known) settings->has_enroll_option = true;
    if (is_known) return wrong;
    wrong = runner_serve_option(&settings->serve, option, &is_known);
    if (is_known) settings->has_serve_option = true;
    if (is_known) return wrong;
    wrong = runner_schedule_option(&settings->schedule, option, &is_known);
    if (is_known || take_slurm_option(&settings->slurm, option)) return wrong;
    wrong = runner_pods_option(&settings->pods, option, &is_known);
    return is_known ? wrong : take_try_option(settings, option);
}

/* NULL, or what is wrong. */
static const char *take_option(struct settings *settings, int option)
{
    switch (option) {
    case RUNNER_LEAST:
        settings->attempt.has_least = isolation_find(optarg, &settings->attempt.least);
        return settings->attempt.has_least ? NULL : "--least is rlimits, cgroup-v1 or cgroup-v2";
    case RUNNER_JSON: settings->json = true; return NULL;
    case RUNNER_WORK: return take_work(settings);
    case RUNNER_USER: settings->attempt.user = optarg; return NULL;
    case RUNNER_CGROUP: settings->attempt.cgroup = optarg; return NULL;
    case RUNNER_NVML: settings->attempt.nvml = optarg; return NULL;
    case RUNNER_DEVICES: settings->attempt.devices = optarg; return NULL;
    case RUNNER_IMAGE_BYTES: return take_image_bytes(&settings->attempt);
    case RUNNER_STATE:
        settings->enroll.options.state = settings->serve.state = optarg;
        settings->has_state = true;
        return NULL;
    case RUNNER_JOBS: settings->jobs = settings->schedule.options.jobs = optarg; return NULL;
    default: return take_other_option(settings, option);
    }
}

static int show(const char *text)
{
    return fputs(text, stdout) >= 0 && fflush(stdout) == 0 ? 0 : EXIT_NOT_STARTED;
}

static struct machine_options machine_of(const struct settings *settings)
{
    const struct attempt_options *given = &settings->attempt;

    return (struct machine_options){.work = given->work,
                                    .user = given->user,
                                    .inside = given->inside,
                                    .cgroup = given->cgroup,
                                    .nvml = given->nvml,
                                    .least = given->least};
}

static int run_check(const struct settings *settings)
{
    struct machine_options options = machine_of(settings);
    struct buffer OWNED_BUFFER text = BUFFER(REPORT_MAX);
    struct machine machine;
    struct error err = {0};

    options.joins_nodes = true;
    if (!machine_look(&options, &machine, &err).ok) return failed(&err);
    const struct result written = (settings->json ? machine_json : machine_text)(&machine, &text, &err);
    machine_done(&machine);
    if (!written.ok) return failed(&err);
    const int shown = show(buffer_text(&text));
    return shown != 0 || machine.meets_floor ? shown : EXIT_FLOOR;
}

static void name_slurm_user(struct settings *settings)
{
    struct error ignored = {0};

    if (settings->slurm.user == NULL && user_self(&settings->self, &ignored).ok) settings->slurm.user = settings->self.name;
}

static int check_cluster(struct settings *settings)
{
    struct buffer OWNED_BUFFER text = BUFFER(REPORT_MAX);
    struct error err = {0};

    name_slurm_user(settings);
    if (!(settings->json ? cluster_json : cluster_text)(&settings->slurm, &text, &err).ok) {
        (void)fprintf(stderr, "sijil-runner: %s\n", err.message);
        return EXIT_FLOOR;
    }
    return show(buffer_text(&text));
}

static int check_pods(struct settings *settings)
{
    struct pods_options *pods = &settings->pods.check;

    if (settings->slurm.url != NULL || pods->cluster.url == NULL)
        return misused("check looks at one cluster: --slurm or --kubernetes");
    if (pods->cluster.token_file == NULL) return misused("--kubernetes needs --kubernetes-token");
    if (settings->pods.has_serve_option) return misused("an option for serve --kubernetes is given to check");
    pods->cluster.ca_file = settings->slurm.ca_file;
    pods->cancelled = &cancelled;
    return runner_pods_check(pods, settings->json);
}

static int run_attempt(const struct settings *settings)
{
    struct buffer OWNED_BUFFER report = BUFFER(REPORT_MAX), text = BUFFER(REPORT_MAX);
    struct error err = {0};
    int status = EXIT_NOT_STARTED;

    if (!attempt_run(&settings->attempt, &report, &status, &err).ok) return failed(&err);
    if (settings->json) return printf("%s\n", buffer_text(&report)) >= 0 && fflush(stdout) == 0 ? status : EXIT_NOT_KEPT;
    if (attempt_text(buffer_bytes(&report), &text, &err).ok)
        return fputs(buffer_text(&text), stderr) >= 0 ? status : EXIT_NOT_KEPT;
    (void)failed(&err);
    return EXIT_NOT_KEPT;
}

static int run_enroll(struct settings *settings, char **operands, int count)
{
    if (count > 2 || settings->has_try_option || settings->has_serve_option || settings->slurm.url != NULL)
        return misused("enroll takes at most a URL, and no option of check, try or serve");
    settings->enroll.options.url = count == 2 ? operands[1] : NULL;
    settings->enroll.options.ca_file = settings->slurm.ca_file;
    settings->enroll.json = settings->json;
    return runner_enroll(&settings->enroll, &cancelled);
}

static int run_show(struct settings *settings, int count)
{
    if (count > 1 || settings->has_try_option || settings->has_enroll_option || settings->has_serve_option)
        return misused("show takes --state and --json only");
    settings->enroll.json = settings->json;
    return runner_show(&settings->enroll);
}

static int run_schedule(struct settings *settings)
{
    if (settings->has_serve_option) return misused("serve --slurm runs nothing itself: it takes no limit of runs");
    name_slurm_user(settings);
    return runner_schedule(&settings->schedule, settings->serve.state, &settings->slurm, &cancelled);
}

static bool has_pods_option(const struct settings *settings)
{
    return settings->pods.has_check_option || settings->pods.has_serve_option;
}

/* NULL, or what is wrong. */
static const char *take_pods(struct settings *settings)
{
    if (!has_pods_option(settings)) return NULL;
    if (settings->slurm.url != NULL || settings->jobs != NULL) return "serve has one scheduler: --slurm, --jobs or --kubernetes";
    if (settings->serve.cpus == 0 || settings->serve.memory_bytes == 0)
        return "serve --kubernetes needs --cpus and --memory: what all of its runs together may take of the cluster";
    settings->pods.check.cluster.ca_file = settings->slurm.ca_file;
    settings->serve.pods = &settings->pods.place;
    return runner_pods_place(&settings->pods, settings->serve.parallel);
}

static int run_serve(struct settings *settings, int count)
{
    if (count > 1 || settings->has_try_option || settings->has_enroll_option || settings->json)
        return misused("serve takes no file, and no option of check, try or enroll");
    const char *wrong = take_pods(settings);
    if (wrong != NULL) return misused(wrong);
    if (settings->slurm.url != NULL) return run_schedule(settings);
    if (settings->schedule.was_given) return misused("an option for serve --slurm is given without --slurm");
    if (settings->serve.tunnel_address != NULL && settings->serve.tunnel_listen[0] == '\0')
        return misused("--tunnel-address is for --tunnel-listen");
    if (settings->serve.tunnel_listen[0] != '\0' && settings->serve.pods != NULL)
        return misused("pods don't reach each other: --tunnel-listen is not for --kubernetes");
    settings->serve.machine = machine_of(settings);
    settings->serve.devices = settings->attempt.devices;
    settings->serve.image_bytes = settings->attempt.image_bytes;
    return runner_serve(&settings->serve, settings->jobs, &cancelled);
}

static int run_job(const struct settings *settings, char **operands, int count)
{
    if (count != 3) return misused("job takes RUN and ATTEMPT");
    return runner_job(settings->schedule.options.jobs, operands + 1, settings->gpus[0] == '\0' ? NULL : settings->gpus,
                      &cancelled);
}

/* For `job`: which devices Slurm has given to its step. */
static void find_gpus(struct settings *settings)
{
    static const char *const names[] = {"SLURM_STEP_GPUS", "SLURM_JOB_GPUS"};

    for (size_t i = 0; i < sizeof names / sizeof names[0] && settings->gpus[0] == '\0'; i++) {
        const char *given = getenv(names[i]);
        if (given != NULL) (void)snprintf(settings->gpus, sizeof settings->gpus, "%s", given);
    }
}

static int run(struct settings *settings, char **operands, int count)
{
    static const char *const kept[] = {"LANG", "LC_*", "TZ", "ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", NULL};

    if (count == 0) return misused("a command is missing: " COMMANDS);
    notify_find();
    find_gpus(settings);
    environment_keep(kept);
    process_end_by(cancel); /* Ctrl-C at a terminal stops the run in order; a second Ctrl-C changes nothing */
    settings->attempt.cancelled = &cancelled;
    if (has_pods_option(settings) && strcmp(operands[0], "check") != 0 && strcmp(operands[0], "serve") != 0)
        return misused("--kubernetes is for check and serve");
    if (strcmp(operands[0], "enroll") == 0) return run_enroll(settings, operands, count);
    if (strcmp(operands[0], "show") == 0) return run_show(settings, count);
    if (strcmp(operands[0], "serve") == 0) return run_serve(settings, count);
    if (settings->has_state || settings->has_enroll_option || settings->has_serve_option || settings->schedule.was_given)
        return misused("an option of enroll or serve is given without that command");
    if (strcmp(operands[0], "job") == 0) return run_job(settings, operands, count);
    if (settings->jobs != NULL) return misused("--jobs is for serve and job");
    if (strcmp(operands[0], "check") == 0) {
        if (count > 1 || settings->has_try_option) return misused("check takes no file and no option of try");
        if (has_pods_option(settings)) return check_pods(settings);
        return settings->slurm.url == NULL ? run_check(settings) : check_cluster(settings);
    }
    if (strcmp(operands[0], "try") != 0) return unknown_command(operands[0]);
    if (count < 2) return misused("try needs the file of a specification");
    settings->attempt.spec_file = operands[1];
    settings->attempt.command = operands + 2;
    return run_attempt(settings);
}

int main(int argc, char **argv)
{
    struct option options[PROGRAM_OPTIONS_MAX + 1];
    struct settings settings = {
        .attempt = {.user = "sijil-run", .nvml = DEVICES_LIBRARY, .devices = DEVICES_FOLDER, .image_bytes = IMAGE_BYTES},
        .pods = RUNNER_PODS,
        .enroll = RUNNER_ENROLL,
        .serve = RUNNER_SERVE,
        .schedule = RUNNER_SCHEDULE};

    (void)snprintf(settings.work, sizeof settings.work, "/var/tmp/sijil-runner-%ld", (long)geteuid());
    find_inside(settings.inside);
    settings.attempt.work = settings.work;
    settings.attempt.inside = settings.inside;
    program_long_options(&runner_program, options);
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (option == RUNNER_HELP) {
            program_print_help(stdout, &runner_program);
            return show("");
        }
        if (option == RUNNER_VERSION) return show("sijil-runner " SIJIL_VERSION "\n");
        const char *wrong = take_option(&settings, option);
        if (wrong != NULL) return misused(wrong);
    }
    return run(&settings, argv + optind, argc - optind);
}
