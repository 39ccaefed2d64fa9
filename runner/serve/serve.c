#include "runner/serve/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/notify.h"
#include "crypto/random.h"
#include "runner/sandbox/copy.h"
#include "runner/serve/crew.h"
#include "runner/serve/kept.h"
#include "training/format/form.h"

#define ASSURANCE_DECLARED 1
#define LOOK_MS            1000  /* for a worker that can't be started now */
#define SWEEP_MS           5000  /* for the processes of a killed run to end */
#define FINISH_MS          60000 /* after a run was cancelled: for its grace, its log and its result */

static void wake(int number)
{
    (void)number; /* it interrupts ppoll(2) */
}

/* Blocked but while we wait, so that none is missed. `before` is the mask to wait with. */
static void take_signals(sigset_t *before)
{
    const struct sigaction action = {.sa_handler = wake}, ignored = {.sa_handler = SIG_IGN};
    sigset_t held;

    (void)sigaction(SIGCHLD, &action, NULL);
    (void)sigaction(SIGPIPE, &ignored, NULL);
    (void)sigemptyset(&held);
    (void)sigaddset(&held, SIGCHLD);
    (void)sigaddset(&held, SIGTERM);
    (void)sigaddset(&held, SIGINT);
    (void)sigaddset(&held, SIGHUP);
    (void)sigprocmask(SIG_BLOCK, &held, before);
}

/* For the job that has waited longest; or, without a scheduler, for any run. */
static bool start_worker(struct crew *crew, struct error *err)
{
    if (crew->waits || crew->links.door == NULL)
        return crew_start(crew, &(struct errand){.job = JOB_ASK, .announces = crew->waits}, err).ok;
    const struct link next = links_next(&crew->links);
    if (crew_start(crew, &(struct errand){.job = JOB_ASK, .link = &next}, err).ok) return true;
    links_return(&crew->links, &next);
    return false;
}

/* One at a time: the registry takes two generations of the journal at once for two runners with one key. */
static bool has_to_ask(const struct crew *crew)
{
    if (crew->is_stopping || crew_count(crew, JOB_ASK) > 0) return false;
    if (crew->waits) return true;
    return crew_has_room(crew) && (crew->links.door == NULL || links_are_waiting(&crew->links));
}

static void start_asking(struct crew *crew)
{
    struct error err = {0};

    if (!has_to_ask(crew)) return;
    if (clock_monotonic_ms() < crew->next_ask_ms || start_worker(crew, &err)) return;
    log_error("no worker asks for a run", &err);
    crew->next_ask_ms = clock_monotonic_ms() + LOOK_MS;
}

static size_t poll_jobs(const struct crew *crew, struct pollfd *polled)
{
    size_t count = 0;

    if (crew->links.door == NULL) return 0;
    if (crew->links.count < LINKS_MAX)
        polled[count++] = (struct pollfd){.fd = job_door_descriptor(crew->links.door), .events = POLLIN};
    for (size_t i = 0; i < crew->links.count; i++)
        polled[count++] = (struct pollfd){.fd = crew->links.waiting[i].connection, .events = POLLIN};
    for (size_t i = 0; i < CREW_MAX; i++)
        if (crew->members[i].job != JOB_NONE && crew->members[i].link >= 0)
            polled[count++] = (struct pollfd){.fd = crew->members[i].link, .events = POLLIN};
    return count;
}

static void wait_for_events(struct crew *crew, const sigset_t *mask)
{
    const struct timespec patience = {.tv_sec = LOOK_MS / 1000};
    struct pollfd polled[2 * CREW_MAX + LINKS_MAX + 1];
    struct member *members[CREW_MAX];
    size_t count = 0;

    for (size_t i = 0; i < CREW_MAX; i++) {
        if (crew->members[i].job == JOB_NONE) continue;
        members[count] = &crew->members[i];
        polled[count++] = (struct pollfd){.fd = crew->members[i].channel, .events = POLLIN};
    }
    const int found = ppoll(polled, count + poll_jobs(crew, polled + count), &patience, mask);
    for (size_t i = 0; found > 0 && i < count; i++)
        if ((polled[i].revents & POLLIN) != 0) crew_answer(crew, members[i]);
    links_look(&crew->links);
    crew_look_at_jobs(crew);
    crew_reap(crew);
}

static bool is_alone(const struct crew *crew)
{
    return crew_count(crew, JOB_NONE) == CREW_MAX;
}

/* What is left after that, the next start removes. */
static void sweep_last(struct crew *crew, const sigset_t *mask)
{
    const int64_t until_ms = clock_monotonic_ms() + SWEEP_MS;

    while ((crew->has_litter || !is_alone(crew)) && clock_monotonic_ms() < until_ms) {
        crew_sweep(crew);
        wait_for_events(crew, mask);
    }
}

/* Runs may go on for drain_ms; then they are cancelled, and their results are sent. What is left after that is killed. */
static void stop(struct crew *crew, const sigset_t *mask)
{
    const int64_t cancel_ms = clock_monotonic_ms() + crew->options->drain_ms, kill_ms = cancel_ms + FINISH_MS;
    bool is_cancelled = false;

    crew->is_stopping = true;
    (void)notify_send("STOPPING=1");
    log_line(LOG_INFO, "stopping", NULL);
    crew_signal(crew, JOB_ASK, SIGTERM);
    crew_signal(crew, JOB_SEND, SIGTERM);
    while (!is_alone(crew)) {
        const int64_t now_ms = clock_monotonic_ms();
        if (now_ms >= cancel_ms && !is_cancelled) {
            is_cancelled = true;
            crew_signal(crew, JOB_RUN, SIGTERM);
        }
        if (now_ms >= kill_ms) {
            crew->was_killed = true;
            for (enum job job = JOB_ASK; job <= JOB_SWEEP; job++) crew_signal(crew, job, SIGKILL);
        }
        wait_for_events(crew, mask);
    }
    sweep_last(crew, mask);
}

static struct result check_isolation(const struct serve_options *options, struct error *err)
{
    const char *floor = options->state->own.isolation;

    if ((int)options->isolation >= form_isolation_rank(floor)) return SUCCESS;
    return failure(err, ERROR_DENIED, "this runner was enrolled with the isolation %.16s, and its machine gives %.16s", floor,
                   isolation_name(options->isolation));
}

/* What an earlier process has kept can't be read any more. */
static struct result open_images(struct crew *crew, struct error *err)
{
    static const char name[] = "images";
    OWNED_FD work = -1;

    TRY(file_open(crew->options->work, O_RDONLY | O_DIRECTORY, 0, &work, err));
    if (crew->options->image_cache_bytes == 0) return copy_remove(work, name, err);
    return image_cache_new(work, name, crew->options->image_cache_bytes, &crew->images, err);
}

/* On a node of a cluster others start programs as this user, too: they could read the key. */
static struct result check_key(const struct serve_options *options, struct error *err)
{
    if (options->jobs == NULL || geteuid() == 0 || options->state->own.assurance <= 1) return SUCCESS;
    return failure(
        err, ERROR_DENIED,
        "this runner was enrolled with the assurance %lld, and its runs could read its key, because root does not start it: start it "
        "as root, or enrol it with the assurance 1",
        (long long)options->state->own.assurance);
}

/* Without the names of nodes that somebody has enrolled, the place of a pod is the cluster's word. */
static struct result check_nodes(const struct serve_options *options, struct error *err)
{
    const struct runner_key *own = &options->state->own;

    if (options->pods == NULL || own->nodes != NULL || own->assurance <= ASSURANCE_DECLARED) return SUCCESS;
    return failure(
        err, ERROR_DENIED,
        "this runner was enrolled with the assurance %lld and without nodes of a cluster, so the place of its pods is only declared: enrol "
        "it with the UIDs of the nodes, or with the assurance %d",
        (long long)own->assurance, ASSURANCE_DECLARED);
}

static struct result open_crew(struct crew *crew, struct error *err)
{
    const int folder = crew->options->state->folder;

    TRY(check_isolation(crew->options, err));
    TRY(check_key(crew->options, err));
    TRY(check_nodes(crew->options, err));
    TRY(lease_journal_open(folder, &crew->journal, err));
    TRY(kept_open(folder, &crew->kept, err));
    TRY(kept_sweep(crew->kept, crew->journal, err));
    random_bytes(crew->session, sizeof crew->session);
    if (crew->options->jobs != NULL) TRY(job_door_open(crew->options->jobs, crew->options->jobs_user, &crew->links.door, err));
    return open_images(crew, err);
}

static void say_begin(const struct crew *crew)
{
    const struct serve_options *options = crew->options;
    char runner[UUID_TEXT_SIZE], parallel[16];

    uuid_format(&options->state->own.runner, runner);
    (void)snprintf(parallel, sizeof parallel, "%u", options->parallel);
    log_line(LOG_INFO, "serving", "registry", options->state->registry.host, "runner", runner, "pool", options->state->own.pool,
             "isolation", isolation_name(options->isolation), "parallel", parallel, "jobs", options->jobs, "kubernetes",
             options->pods == NULL ? NULL : options->pods->cluster.url, NULL);
}

static struct result run(struct crew *crew, enum serve_end *end_out, struct error *err)
{
    sigset_t mask;

    TRY(open_crew(crew, err));
    take_signals(&mask);
    say_begin(crew);
    crew_recover(crew);
    crew->has_litter = true; /* processes of an earlier process may have lived until now, and kept their control groups */
    (void)notify_send("READY=1");
    while (*crew->options->stops == 0 && !crew->is_suspended) {
        crew_sweep(crew);
        start_asking(crew);
        wait_for_events(crew, &mask);
    }
    if (crew->is_suspended)
        log_line(LOG_ERROR, "the registry has suspended this runner's key: revoke it, and enrol the runner anew", NULL);
    stop(crew, &mask);
    TRY(kept_sweep(crew->kept, crew->journal, err));
    log_line(LOG_INFO, "stopped", NULL);
    *end_out = crew->is_suspended ? SERVE_SUSPENDED : crew->was_killed ? SERVE_KILLED : SERVE_STOPPED;
    return SUCCESS;
}

struct result serve(const struct serve_options *options, enum serve_end *end_out, struct error *err)
{
    struct crew *crew = memory_zeroed(1, sizeof *crew); /* 128 lists of devices */

    if (crew == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for workers");
    crew->options = options;
    crew->kept = -1;
    const struct result done = run(crew, end_out, err);
    links_done(&crew->links);
    lease_journal_free(crew->journal);
    image_cache_remove(crew->images);
    image_cache_free(crew->images);
    file_close_owned(&crew->kept);
    free(crew);
    return done;
}
