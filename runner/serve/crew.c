#include "runner/serve/crew.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "runner/serve/kept.h"
#include "runner/serve/signatures.h"
#include "supervision/child.h"

#define PAUSE_LEAST_MS 1000
#define PAUSE_MOST_MS  60000
#define SWEEP_LEAST_MS 200

size_t crew_count(const struct crew *crew, enum job job)
{
    size_t count = 0;

    for (size_t i = 0; i < CREW_MAX; i++) count += crew->members[i].job == job ? 1 : 0;
    return count;
}

/* ---- what is free ---- */

static int64_t free_cpus(const struct crew *crew)
{
    int64_t cpus = crew->options->cpus;

    for (size_t i = 0; i < CREW_MAX; i++) cpus -= crew->members[i].job == JOB_RUN ? crew->members[i].cpus : 0;
    return cpus;
}

static int64_t free_memory(const struct crew *crew)
{
    int64_t bytes = crew->options->memory_bytes;

    for (size_t i = 0; i < CREW_MAX; i++) bytes -= crew->members[i].job == JOB_RUN ? crew->members[i].memory_bytes : 0;
    return bytes;
}

static bool is_taken(const struct crew *crew, const char *uuid)
{
    for (size_t i = 0; i < CREW_MAX; i++) {
        const struct member *member = &crew->members[i];
        for (size_t j = 0; member->job == JOB_RUN && j < member->uses.count; j++)
            if (strcmp(member->uses.uuids[j], uuid) == 0) return true;
    }
    return false;
}

bool crew_has_room(const struct crew *crew)
{
    return crew_count(crew, JOB_RUN) < crew->options->parallel && free_cpus(crew) > 0 && free_memory(crew) > 0 &&
           lease_journal_has_room(crew->journal);
}

static void list_taken(const struct crew *crew, struct device_names *taken)
{
    for (size_t i = 0; i < CREW_MAX; i++) {
        const struct member *member = &crew->members[i];
        for (size_t j = 0; member->job == JOB_RUN && j < member->uses.count && taken->count < DEVICES_MAX; j++)
            memcpy(taken->uuids[taken->count++], member->uses.uuids[j], DEVICE_UUID_SIZE);
    }
}

/* ---- questions ---- */

static struct result check_room(const struct crew *crew, const struct channel_question *question, struct error *err)
{
    if (crew->is_stopping) return failure(err, ERROR_UNAVAILABLE, "this runner is told to stop");
    if (!crew_has_room(crew) || question->cpus > free_cpus(crew) || question->memory_bytes > free_memory(crew))
        return failure(err, ERROR_LIMIT, "the run needs more than is free on this machine");
    for (size_t i = 0; i < question->uses.count; i++)
        if (is_taken(crew, question->uses.uuids[i]))
            return failure(err, ERROR_LIMIT, "the device %.48s is in use by another run", question->uses.uuids[i]);
    return SUCCESS;
}

static struct result take(struct crew *crew, struct member *member, const struct channel_question *question, struct error *err)
{
    if (member->job != JOB_ASK) return failure(err, ERROR_CONFLICT, "a worker takes one lease");
    TRY(check_room(crew, question, err));
    TRY(lease_journal_take(crew->journal, &question->lease, clock_wall_ms(), err));
    member->job = JOB_RUN;
    member->lease = question->lease;
    member->cpus = question->cpus;
    member->memory_bytes = question->memory_bytes;
    member->uses = question->uses;
    crew->pause_ms = 0;
    return SUCCESS;
}

static void end_lease(struct crew *crew, const struct taken_lease *lease)
{
    struct error err = {0};

    if (lease_journal_end(crew->journal, lease->nonce, &err).ok) kept_remove(crew->kept, lease);
    else log_error("the end of a lease is not recorded", &err);
}

static struct result end(struct crew *crew, struct member *member, const struct channel_question *question, struct error *err)
{
    if (member->job == JOB_ASK || memcmp(question->lease.nonce, member->lease.nonce, LEASE_NONCE_SIZE) != 0)
        return failure(err, ERROR_CONFLICT, "a worker ends its own lease");
    end_lease(crew, &member->lease);
    member->has_ended = true;
    return SUCCESS;
}

/* Once: whoever has robbed a worker gets no second key. */
static struct result certify(struct crew *crew, struct member *member, const struct channel_question *question,
                             struct channel_answer *said, struct error *err)
{
    if (member->job != JOB_RUN || member->has_ended || member->is_certified ||
        memcmp(question->lease.nonce, member->lease.nonce, LEASE_NONCE_SIZE) != 0)
        return failure(err, ERROR_CONFLICT, "a key is certified once, for the worker that has taken the lease");
    TRY(signatures_certify(crew->options->state, &member->lease, question, said->envelope, err));
    member->is_certified = true;
    return SUCCESS;
}

/* A worker that asks may refuse what it is given; one that has taken a lease, only this one. */
static struct result refuse(const struct crew *crew, const struct member *member, const struct channel_question *question,
                            struct channel_answer *said, struct error *err)
{
    if (member->job != JOB_ASK && memcmp(question->lease.digest, member->lease.digest, LEASE_DIGEST_SIZE) != 0)
        return failure(err, ERROR_CONFLICT, "a worker refuses its own lease");
    return signatures_refuse(crew->options->state, question, said->envelope, err);
}

static bool is_at_work(const struct crew *crew, const struct taken_lease *lease)
{
    for (size_t i = 0; i < CREW_MAX; i++) {
        const struct member *member = &crew->members[i];
        if ((member->job == JOB_RUN || member->job == JOB_SEND) &&
            memcmp(member->lease.nonce, lease->nonce, LEASE_NONCE_SIZE) == 0)
            return true;
    }
    return false;
}

static bool was_interrupted(const struct crew *crew, const struct taken_lease *lease)
{
    for (size_t i = 0; i < INTERRUPTED_MAX && i < crew->interrupted_count; i++)
        if (memcmp(crew->interrupted[i], lease->nonce, LEASE_NONCE_SIZE) == 0) return true;
    return false;
}

/* A registry gives the lease again only if it has not heard a word of it. So the program has not begun. */
static struct result find_worker(const struct crew *crew, const struct taken_lease *lease, struct error *err)
{
    if (is_at_work(crew, lease)) return SUCCESS;
    if (was_interrupted(crew, lease)) return failure(err, ERROR_CONFLICT, "the runner's process for this run was killed");
    return failure(err, ERROR_NOT_FOUND, "nobody works on the lease");
}

static struct result answer(struct crew *crew, struct member *member, const struct channel_question *question,
                            struct channel_answer *said, struct error *err)
{
    switch (question->topic) {
    case CHANNEL_OFFER: return SUCCESS;
    case CHANNEL_TAKEN: return find_worker(crew, &question->lease, err);
    case CHANNEL_TAKE: return take(crew, member, question, err);
    case CHANNEL_END: return end(crew, member, question, err);
    case CHANNEL_RENEWED:
        crew->options->state->certificate_from_ms = question->from_ms;
        crew->options->state->certificate_until_ms = question->until_ms;
        return SUCCESS;
    case CHANNEL_CERTIFY: return certify(crew, member, question, said, err);
    case CHANNEL_REFUSE: return refuse(crew, member, question, said, err);
    }
    return failure(err, ERROR_INVALID, "an unknown question of a worker");
}

void crew_answer(struct crew *crew, struct member *member)
{
    struct channel_question question;

    while (channel_hear(member->channel, &question)) {
        struct channel_answer said = {.refused = ERROR_NONE};
        struct error err = {0};
        if (!answer(crew, member, &question, &said, &err).ok) {
            said.refused = err.kind;
            (void)snprintf(said.why, sizeof said.why, "%s", err.message);
        }
        said.generation = lease_journal_generation(crew->journal);
        said.cpus = free_cpus(crew);
        said.memory_bytes = free_memory(crew);
        said.is_stopping = crew->is_stopping;
        said.is_busy = crew_count(crew, JOB_RUN) > 0;
        list_taken(crew, &said.taken);
        (void)channel_reply(member->channel, &said);
    }
}

/* ---- workers begin and end ---- */

/* A copy of a connection would keep it open. */
static void close_copies(struct crew *crew)
{
    for (size_t i = 0; i < CREW_MAX; i++) {
        const struct member *member = &crew->members[i];
        if (member->job == JOB_NONE) continue;
        (void)close(member->channel);
        if (member->link >= 0) (void)close(member->link);
    }
    links_forget(&crew->links);
}

static _Noreturn void become_worker(struct crew *crew, const struct errand *errand, int channel, pid_t parent)
{
    struct worker worker = {.options = crew->options,
                            .journal = crew->journal,
                            .channel = channel,
                            .kept = crew->kept,
                            .images = crew->images,
                            .parent = parent};

    close_copies(crew);
    memcpy(worker.session, crew->session, sizeof worker.session);
    worker.announces = errand->announces;
    if (errand->job == JOB_SEND) worker_send(&worker, errand->lease);
    if (errand->job == JOB_SWEEP) worker_sweep(&worker);
    if (errand->link != NULL) {
        worker.wish = errand->link->wish;
        (void)close(errand->link->connection);
    }
    worker_ask(&worker);
}

struct result crew_start(struct crew *crew, const struct errand *errand, struct error *err)
{
    const pid_t parent = getpid();
    struct member *member = crew->members;
    int ends[2];

    while (member < crew->members + CREW_MAX && member->job != JOB_NONE) member++;
    if (member == crew->members + CREW_MAX) return failure(err, ERROR_LIMIT, "there are %d workers", CREW_MAX);
    TRY(channel_open(ends, err));
    const pid_t pid = fork();
    if (pid == 0) {
        (void)close(ends[0]);
        become_worker(crew, errand, ends[1], parent);
    }
    const int problem = errno;
    (void)close(ends[1]);
    if (pid > 0) {
        *member = (struct member){.job = errand->job,
                                  .pid = pid,
                                  .channel = ends[0],
                                  .link = errand->link == NULL ? -1 : errand->link->connection,
                                  .announces = errand->announces};
        if (errand->lease != NULL) member->lease = *errand->lease;
        return SUCCESS;
    }
    (void)close(ends[0]);
    return failure(err, ERROR_UNAVAILABLE, "no process for a worker: %s", strerror(problem));
}

static void hold_back(struct crew *crew)
{
    crew->pause_ms = crew->pause_ms == 0 ? PAUSE_LEAST_MS : 2 * crew->pause_ms;
    if (crew->pause_ms > PAUSE_MOST_MS) crew->pause_ms = PAUSE_MOST_MS;
    crew->next_ask_ms = clock_monotonic_ms() + crew->pause_ms;
}

static bool has_to_send(const struct crew *crew, const struct taken_lease *lease)
{
    return lease->expires_ms > clock_wall_ms() && kept_has_result(crew->kept, lease);
}

/* Sends the kept result, or gives the lease up (true): then the registry loses the attempt by silence, and may give another one. */
static bool settle(struct crew *crew, const struct taken_lease *lease)
{
    char run[UUID_TEXT_SIZE];
    struct error err = {0};

    uuid_format(&lease->run, run);
    if (has_to_send(crew, lease)) {
        if (crew->is_stopping) return false; /* the next process sends it */
        if (crew_start(crew, &(struct errand){.job = JOB_SEND, .lease = lease}, &err).ok) return false;
        log_error("a kept result can't be sent", &err);
    }
    log_line(LOG_WARNING, "a run was interrupted", "run", run, NULL);
    end_lease(crew, lease);
    crew->has_litter = true;
    return true;
}

static void note_announced(struct crew *crew)
{
    if (crew->is_stopping) return;
    crew->is_known = true;
    crew->waits = false;
    crew_recover(crew);
}

static void note_interrupted(struct crew *crew, const struct taken_lease *lease)
{
    memcpy(crew->interrupted[crew->interrupted_count % INTERRUPTED_MAX], lease->nonce, LEASE_NONCE_SIZE);
    crew->interrupted_count++;
}

/* It may have written the bundle of a lease that it did not take. No other worker asks now. */
static void clear_bundles(struct crew *crew)
{
    struct error err = {0};

    if (!kept_sweep(crew->kept, crew->journal, &err).ok) log_error("what a worker has kept is not removed", &err);
}

/* Processes of a killed worker live a moment longer. */
static void note_swept(struct crew *crew, int status)
{
    if (status == 0) {
        crew->sweep_pause_ms = 0;
        return;
    }
    crew->has_litter = true;
    crew->sweep_pause_ms = crew->sweep_pause_ms == 0 ? SWEEP_LEAST_MS : 2 * crew->sweep_pause_ms;
    if (crew->sweep_pause_ms > PAUSE_MOST_MS) crew->sweep_pause_ms = PAUSE_MOST_MS;
    crew->next_sweep_ms = clock_monotonic_ms() + crew->sweep_pause_ms;
}

static void note_end(struct crew *crew, struct member *member, int status)
{
    char text[CHILD_STATUS_TEXT_SIZE];

    crew_answer(crew, member); /* it may have ended right after its last question, such as the one that took a lease */
    const struct member ended = *member;
    (void)close(member->channel);
    if (member->link >= 0) job_dismiss(member->link, ended.job == JOB_RUN ? JOB_RAN : JOB_NOTHING);
    *member = (struct member){.job = JOB_NONE, .channel = -1, .link = -1};
    if (ended.job == JOB_SWEEP) {
        note_swept(crew, status);
        return;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == WORKER_FULL) {
        crew->next_ask_ms = clock_monotonic_ms() + PAUSE_MOST_MS; /* each run that does not fit loses an attempt */
    } else if (status != 0) {
        child_status_text(status, text);
        log_line(LOG_ERROR, "a worker failed", "status", text, NULL);
        crew->has_litter = true;
        hold_back(crew);
    }
    const bool has_failed = WIFEXITED(status) && WEXITSTATUS(status) == WORKER_FAILED;
    if (ended.job == JOB_ASK && WIFEXITED(status) && WEXITSTATUS(status) == WORKER_SUSPENDED) crew->is_suspended = true;
    if (ended.announces && status == 0) note_announced(crew);
    if (ended.job == JOB_ASK) clear_bundles(crew);
    if (ended.job == JOB_ASK || ended.has_ended) return;
    if (ended.job == JOB_SEND && has_failed) end_lease(crew, &ended.lease); /* it can't be read */
    else if (settle(crew, &ended.lease) && ended.job == JOB_RUN) note_interrupted(crew, &ended.lease);
}

void crew_look_at_jobs(struct crew *crew)
{
    for (size_t i = 0; i < CREW_MAX; i++) {
        struct member *member = &crew->members[i];
        if (member->job == JOB_NONE || member->link < 0 || !job_is_gone(member->link)) continue;
        log_line(LOG_WARNING, "a job has ended before its run", NULL);
        (void)close(member->link);
        member->link = -1;
        (void)kill(member->pid, SIGTERM);
    }
}

void crew_reap(struct crew *crew)
{
    for (size_t i = 0; i < CREW_MAX; i++) {
        struct member *member = &crew->members[i];
        int status = 0;
        if (member->job != JOB_NONE && child_has_ended(member->pid, &status)) note_end(crew, member, status);
    }
}

void crew_sweep(struct crew *crew)
{
    struct error err = {0};

    if (!crew->has_litter || clock_monotonic_ms() < crew->next_sweep_ms || crew_count(crew, JOB_SWEEP) > 0) return;
    crew->has_litter = false;
    if (crew_start(crew, &(struct errand){.job = JOB_SWEEP}, &err).ok) return;
    log_error("what a killed run has left is not removed", &err);
    note_swept(crew, WORKER_FAILED);
}

void crew_signal(struct crew *crew, enum job job, int number)
{
    for (size_t i = 0; i < CREW_MAX; i++)
        if (crew->members[i].job == job) (void)kill(crew->members[i].pid, number);
}

void crew_recover(struct crew *crew)
{
    static struct taken_lease leases[LEASES_MAX]; /* of the one serving process; too large for a stack */
    const size_t count = lease_journal_list(crew->journal, leases, LEASES_MAX);

    for (size_t i = 0; i < count; i++) {
        if (is_at_work(crew, &leases[i])) continue;
        if (crew->is_known || !has_to_send(crew, &leases[i])) (void)settle(crew, &leases[i]);
        else crew->waits = true;
    }
}
