#include "cmd/sijil_runner_jobs.h"

#include <stdio.h>
#include <string.h>

#include "base/dump.h"
#include "base/log.h"
#include "base/notify.h"
#include "base/text.h"
#include "cmd/sijil_runner_serve.h"

#define SECONDS_MAX 604800

enum { JOB_EXIT_FAILED = 1 };

static const char *take_gres(struct schedule_options *options)
{
    const char *equals = strchr(optarg, '=');

    if (equals == NULL || equals == optarg || !slurm_is_word(equals + 1))
        return "--slurm-gres needs TYPE=GRES, such as H200=gpu:h200";
    if (options->gres_count == SCHEDULE_GRES_MAX) return "too many --slurm-gres";
    options->gres[options->gres_count++] = optarg;
    return NULL;
}

static const char *take_region(struct schedule_options *options)
{
    if (options->region_count == QUEUE_REGIONS_MAX) return "too many --slurm-region";
    options->regions[options->region_count++] = optarg;
    return NULL;
}

static bool take_seconds(int64_t *seconds_out)
{
    uint64_t seconds = 0;

    if (!text_to_u64(bytes_of_text(optarg), SECONDS_MAX, &seconds)) return false;
    *seconds_out = (int64_t)seconds;
    return true;
}

static const char *take_patience(struct schedule_options *options)
{
    int64_t seconds = 0;

    if (!take_seconds(&seconds) || seconds == 0) return "--slurm-patience is a number of seconds, from 1 to 604800";
    options->patience_ms = 1000 * seconds;
    return NULL;
}

const char *runner_schedule_option(struct runner_schedule *settings, int option, bool *is_known_out)
{
    struct schedule_options *options = &settings->options;
    const bool was_given = settings->was_given;

    *is_known_out = settings->was_given = true;
    switch (option) {
    case RUNNER_SLURM_REGION: return take_region(options);
    case RUNNER_SLURM_GRES: return take_gres(options);
    case RUNNER_SLURM_EXTRA:
        return take_seconds(&options->extra_s) ? NULL : "--slurm-extra is a number of seconds, at most 604800";
    case RUNNER_SLURM_PATIENCE: return take_patience(options);
    case RUNNER_SLURM_PARTITION: options->partition = optarg; return NULL;
    case RUNNER_SLURM_RUNNER: options->program = optarg; return NULL;
    default:
        *is_known_out = false;
        settings->was_given = was_given;
        return NULL;
    }
}

static int failed(const char *what, const struct error *err)
{
    log_error(what, err);
    return SERVE_EXIT_FAILED;
}

int runner_schedule(const struct runner_schedule *settings, const char *folder, const struct slurm_options *slurm,
                    const volatile sig_atomic_t *stops)
{
    struct schedule_options options = settings->options;
    OWNED(runner_state) *state = NULL;
    struct error err = {0};
    bool is_suspended = false;

    if (!dump_forbid()) log_line(LOG_WARNING, "core files can't be forbidden", NULL);
    if (!runner_state_open(folder, &state, &err).ok) return failed("the runner's folder can't be used", &err);
    if (!notify_connect(&err).ok) log_error("the service manager is not told", &err);
    options.state = state;
    options.slurm = *slurm;
    options.stops = stops;
    if (!schedule(&options, &is_suspended, &err).ok) return failed("jobs can't be scheduled", &err);
    return is_suspended ? SERVE_EXIT_SUSPENDED : 0;
}

int runner_job(const char *socket, char *const words[2], const char *devices, const volatile sig_atomic_t *stops)
{
    struct buffer OWNED_BUFFER wish = BUFFER(WISH_MAX);
    struct error err = {0};
    bool ran = false;

    struct result done = job_wish_write(words[0], words[1], devices, &wish, &err);
    if (done.ok) done = job_wait(socket, buffer_bytes(&wish), stops, &ran, &err);
    if (!done.ok) (void)fprintf(stderr, "sijil-runner: %s\n", err.message);
    else if (!ran)
        (void)fprintf(stderr, "sijil-runner: the runner of this node did not get the run: another one had it, or it has ended\n");
    return done.ok && ran ? 0 : JOB_EXIT_FAILED;
}
