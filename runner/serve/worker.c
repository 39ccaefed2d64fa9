#include "runner/serve/worker.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "outgoing/addresses.h"
#include "runner/enrolment/certificate.h"
#include "runner/sandbox/work.h"
#include "runner/serve/kept.h"
#include "runner/serve/leased.h"
#include "runner/serve/room.h"
#include "runner/serve/worker_stop.h"
#include "supervision/child.h"

#define WAIT_S        30 /* the longest that the registry holds a question */
#define WAIT_BUSY_S   5  /* other runs may end meanwhile, and then more is free */
#define PAUSE_MOST_MS 60000
#define REFUSED_MS    200   /* the pause after a refusal, because the registry may give the same run again */
#define UNTAKEN_MS    10000 /* after one that the registry does not take: it gives the same lease until the attempt is lost */
#define ACTIVE_MS     2000  /* until the registry knows that a run has started */
#define ADDRESSES_MAX 4     /* of the registry, besides those of the machine */
#define UNNAMED_MS    2000  /* the pause after an answer that is no lease of this runner */
#define WAIT_JOB_S    2
#define JOB_MS        10000 /* a job whose run is not there by then is over: another runner had it, or it has ended */

static void on_signal(int number)
{
    (void)number;
    worker_cancel();
}

/* ---- the beginning and the end of the process ---- */

/* Anybody may connect to the door of a pod and go away at once: an answer to nobody must be an error, and not the worker's end. */
static void take_signals(void)
{
    const struct sigaction action = {.sa_handler = on_signal}, ignore = {.sa_handler = SIG_IGN};
    sigset_t none;

    (void)sigemptyset(&none);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGXFSZ, &ignore, NULL); /* a limit on the size of files is an error of a write, as a full disk is */
    (void)sigaction(SIGPIPE, &ignore, NULL); /* a program that this process starts gets the default again */
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* The payload must not reach the registry; a name that can't be resolved now is no address that it could use. */
static void find_addresses(struct worker *worker)
{
    struct outgoing_address found[ADDRESSES_MAX];
    const size_t count = outgoing_addresses(worker->options->state->registry.host, found, ADDRESSES_MAX);

    for (size_t i = 0; i < count; i++) {
        struct proof_address *address = &worker->addresses[worker->address_count++];
        (void)snprintf(address->address, sizeof address->address, "%s", found[i].address);
        (void)snprintf(address->port, sizeof address->port, "%s", found[i].port);
    }
}

static struct result connect_calls(struct worker *worker, struct error *err)
{
    TRY(calls_open(&worker->http, worker->session, &worker->calls, err));
    calls_give_up_when(worker->calls, &worker_gives_up);
    return SUCCESS;
}

static struct result begin(struct worker *worker, struct error *err)
{
    const struct runner_state *state = worker->options->state;

    TRY(child_begin(NULL, SIGKILL, worker->parent, err));
    (void)umask(022); /* folders of code and inputs are for the payload's user; private files have their own mode */
    take_signals();
    worker->http = (struct http_options){.host = state->registry.host,
                                         .ca_file = state->ca_file,
                                         .certificate_file = state->certificate_file,
                                         .key_file = state->key_file};
    return connect_calls(worker, err);
}

static _Noreturn void end(struct worker *worker, enum worker_status status)
{
    devices_free(worker->devices);
    calls_free(worker->calls);
    _exit(status);
}

static void end_lease(struct worker *worker, const struct taken_lease *lease)
{
    const struct channel_question question = {.topic = CHANNEL_END, .lease = *lease};
    struct channel_answer answer;
    struct error err = {0};

    if (!channel_ask(worker->channel, &question, &answer, &err).ok) log_error("the end of a lease is not recorded", &err);
}

/* What fetches inputs, and runs and watches the program, signs with the key of the attempt alone. */
static void forget_key(struct worker *worker)
{
    ecdsa_key_free(worker->options->state->key);
    worker->options->state->key = NULL;
}

/* ---- the certificate ---- */

static struct result renew(struct worker *worker, struct error *err)
{
    struct runner_state *state = worker->options->state;
    struct channel_question question = {.topic = CHANNEL_RENEWED};
    struct channel_answer answer;
    bool is_renewed = false;

    TRY(runner_renew(state, clock_wall_ms(), &is_renewed, err));
    if (!is_renewed) return SUCCESS;
    log_line(LOG_INFO, "the client certificate was renewed", NULL);
    calls_free(worker->calls); /* a kept connection has the old one */
    worker->calls = NULL;
    TRY(connect_calls(worker, err));
    question.from_ms = state->certificate_from_ms;
    question.until_ms = state->certificate_until_ms;
    return channel_ask(worker->channel, &question, &answer, err);
}

/* A failure leaves the present certificate in use. Without one there is nothing to ask with. */
static struct result renew_if_due(struct worker *worker, struct error *err)
{
    struct error why = {0};

    if (renew(worker, &why).ok) return SUCCESS;
    if (worker->calls == NULL || worker->options->state->certificate_until_ms <= clock_wall_ms())
        return failure(err, why.kind, "no client certificate: %.220s", why.message);
    log_error("the client certificate is not renewed", &why);
    return SUCCESS;
}

/* ---- asking ---- */

static bool is_for_job(const struct worker *worker)
{
    return worker->wish.run[0] != '\0';
}

/* Devices of the scheduler's other jobs are taken, too. */
static void set_taken(struct worker *worker, const struct device_names *by_runs)
{
    struct device_names taken = *by_runs;

    for (size_t i = 0; i < devices_count(worker->devices) && taken.count < DEVICES_MAX; i++) {
        const struct device *device = devices_at(worker->devices, i);
        if (!job_wish_allows(&worker->wish, device->minor))
            (void)snprintf(taken.uuids[taken.count++], DEVICE_UUID_SIZE, "%.47s", device->uuid);
    }
    devices_set_taken(worker->devices, &taken);
}

static int wait_seconds(const struct worker *worker, const struct channel_answer *offer)
{
    if (worker->announces) return 0;
    if (is_for_job(worker)) return WAIT_JOB_S;
    return offer->is_busy ? WAIT_BUSY_S : WAIT_S;
}

static json_t *free_devices(const struct worker *worker)
{
    OWNED_JSON list = json_array();

    for (size_t i = 0; list != NULL && worker->devices != NULL && i < devices_count(worker->devices); i++) {
        const struct device *device = devices_at(worker->devices, i);
        if (device->is_sliced || !devices_is_free(worker->devices, i)) continue;
        if (json_array_append_new(list, json_pack("{s:s s:s* s:I}", "type", device->type, "mig",
                                                  device->mig[0] == '\0' ? NULL : device->mig, "memory_bytes",
                                                  (json_int_t)device->memory_bytes)) != 0)
            return NULL;
    }
    return GIVE(list);
}

static struct result ask_once(struct worker *worker, struct channel_answer *offer, struct buffer *bundle,
                              enum lease_answer *answer_out, struct error *err)
{
    const struct channel_question question = {.topic = CHANNEL_OFFER};

    TRY(channel_ask(worker->channel, &question, offer, err));
    if (offer->is_stopping) worker_cancelled = 1;
    if (worker->announces) offer->cpus = offer->memory_bytes = 0;
    TRY(renew_if_due(worker, err));
    if (worker->devices != NULL) set_taken(worker, &offer->taken);
    OWNED_JSON devices = free_devices(worker);
    if (devices == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the list of devices");
    struct lease_offer wanted = {.generation = offer->generation,
                                 .wait_s = wait_seconds(worker, offer),
                                 .isolation = isolation_name(worker->options->isolation),
                                 .cpus = offer->cpus,
                                 .memory_bytes = offer->memory_bytes,
                                 .devices = devices,
                                 .run = is_for_job(worker) ? worker->wish.run : NULL,
                                 .attempt = worker->wish.attempt,
                                 .nodes = worker->options->tunnel_listen != NULL ? 1 : 0};
    memcpy(wanted.session, worker->session, sizeof wanted.session);
    *answer_out = LEASE_NONE;
    return worker_cancelled != 0 ? SUCCESS : calls_lease(worker->calls, &wanted, bundle, answer_out, err);
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static struct result judge(struct worker *worker, const struct channel_answer *offer, struct bytes bundle,
                           struct verdict *verdict, struct error *err)
{
    const struct runner_state *state = worker->options->state;
    const struct run_trust trust = runner_state_trust(state);
    struct order_terms terms = {.trust = &trust,
                                .audience = state->registry.audience,
                                .key = state->name,
                                .own = state->own,
                                .isolation = worker->options->isolation,
                                .most = worker->options->most,
                                .journal = worker->journal,
                                .devices = worker->devices,
                                .device_folder = worker->options->devices,
                                .in_pod = worker->options->pods != NULL,
                                .joins_nodes = worker->options->tunnel_listen != NULL,
                                .now_ms = clock_wall_ms()};

    terms.most.cpus = smaller(terms.most.cpus, offer->cpus);
    terms.most.memory_bytes = smaller(terms.most.memory_bytes, offer->memory_bytes);
    return verdict_make(bundle, &terms, state->root, verdict, err);
}

/* The bundle is kept first: a lease in the journal always has one. */
static struct result take(struct worker *worker, const struct verdict *verdict, struct bytes bundle, struct error *err)
{
    struct channel_question question = {.topic = CHANNEL_TAKE,
                                        .lease = verdict->taken,
                                        .cpus = verdict->spec->limits.cpus,
                                        .memory_bytes = verdict->spec->limits.memory_bytes,
                                        .uses.count = verdict->grant.count};
    struct channel_answer answer;

    for (size_t i = 0; i < verdict->grant.count; i++)
        (void)snprintf(question.uses.uuids[i], sizeof question.uses.uuids[i], "%.47s",
                       devices_at(worker->devices, verdict->grant.which[i])->uuid);
    TRY(kept_write(worker->kept, &verdict->taken, KEPT_BUNDLE, bundle, err));
    return channel_ask(worker->channel, &question, &answer, err);
}

/* Runs it, and ends the process with it. If it can't be taken now, the registry gives it again, to this runner or to another. */
static void take_and_run(struct worker *worker, const struct verdict *verdict, struct bytes bundle)
{
    struct error err = {0};

    if (is_for_job(worker) && strcmp(verdict->run, worker->wish.run) != 0) {
        log_line(LOG_ERROR, "the registry gave another run than the job names", "run", verdict->run, NULL);
        (void)worker_pause(UNNAMED_MS);
        return;
    }
    if (!take(worker, verdict, bundle, &err).ok) {
        if (err.kind != ERROR_CONFLICT) kept_remove(worker->kept, &verdict->taken);
        log_error("a lease can't be taken", &err);
        (void)worker_pause(WORKER_PAUSE_LEAST_MS);
        return;
    }
    forget_key(worker);
    log_line(LOG_INFO, "lease taken", "run", verdict->run, NULL);
    if (leased_execute(worker, verdict)) end_lease(worker, &verdict->taken);
    end(worker, worker->was_full ? WORKER_FULL : WORKER_DONE);
}

/* True: nobody works on it, and `refusal` says what becomes of it. A lease whose worker was killed before its first word is returned. */
static bool is_given_up(struct worker *worker, const struct taken_lease *lease, struct order_refusal *refusal)
{
    const struct channel_question question = {.topic = CHANNEL_TAKEN, .lease = *lease};
    struct channel_answer answer;
    struct error err;

    if (channel_ask(worker->channel, &question, &answer, &err).ok) return false;
    if (err.kind != ERROR_CONFLICT) return err.kind == ERROR_NOT_FOUND;
    refusal->check = RUN_CHECK_MACHINE;
    (void)snprintf(refusal->reason, sizeof refusal->reason, "%.256s", err.message);
    return true;
}

static void refuse(struct worker *worker, const struct verdict *verdict)
{
    const bool is_taken = leased_refuse(worker, verdict->lease, &verdict->refusal);

    if (is_for_job(worker)) worker_cancelled = 1; /* its attempt has ended */
    (void)worker_pause(is_taken ? REFUSED_MS : UNTAKEN_MS);
}

static void decide(struct worker *worker, const struct channel_answer *offer, struct bytes bundle)
{
    struct verdict verdict;
    struct error err = {0};

    if (!judge(worker, offer, bundle, &verdict, &err).ok) {
        log_error("a lease can't be checked", &err);
        (void)worker_pause(PAUSE_MOST_MS);
        return;
    }
    switch (verdict.kind) {
    case VERDICT_RUN: take_and_run(worker, &verdict, bundle); break;
    case VERDICT_TAKEN:
        if (!is_given_up(worker, &verdict.taken, &verdict.refusal)) {
            (void)worker_pause(ACTIVE_MS);
            break;
        }
        __attribute__((fallthrough));
    case VERDICT_REFUSE: refuse(worker, &verdict); break;
    case VERDICT_UNNAMED:
        log_line(LOG_ERROR, "the registry gave an answer that is no lease for this runner", "check", verdict.refusal.check,
                 "reason", verdict.refusal.reason, NULL);
        (void)worker_pause(UNNAMED_MS);
        break;
    }
    verdict_done(&verdict);
}

/* A run that can't begin here would lose an attempt. */
static struct result check_place(const struct worker *worker, struct error *err)
{
    if (worker->announces) return SUCCESS;
    TRY(room_check(worker->options->work, worker->kept, err));
    return worker->options->pods == NULL ? SUCCESS : attend_may_begin(worker->options->pods, &worker_gives_up, err);
}

static int64_t longer(int64_t pause_ms)
{
    return pause_ms == 0 ? WORKER_PAUSE_LEAST_MS : smaller(2 * pause_ms, PAUSE_MOST_MS);
}

/* Returns the pause before the next question. */
static int64_t ask(struct worker *worker, int64_t pause_ms)
{
    struct buffer OWNED_BUFFER bundle = BUFFER(RUN_BUNDLE_MAX);
    const int64_t began_ms = clock_monotonic_ms();
    enum lease_answer answer = LEASE_NONE;
    struct channel_answer offer;
    struct error err = {0};

    if (!check_place(worker, &err).ok) {
        log_error("no run is asked for", &err);
        return longer(pause_ms);
    }
    if (!ask_once(worker, &offer, &bundle, &answer, &err).ok) {
        if (worker_cancelled == 0) log_error("the registry gives no lease", &err);
        return longer(pause_ms);
    }
    if (answer == LEASE_SUSPENDED) end(worker, WORKER_SUSPENDED);
    if (worker->announces) end(worker, WORKER_DONE);
    if (answer == LEASE_GIVEN) {
        decide(worker, &offer, buffer_bytes(&bundle));
        return 0;
    }
    return clock_monotonic_ms() - began_ms < WORKER_PAUSE_LEAST_MS ? WORKER_PAUSE_LEAST_MS
                                                                   : 0; /* the registry did not hold the question */
}

/* A job that waits for a run that does not come would keep a node from other jobs. */
static bool is_over(const struct worker *worker, int64_t began_ms)
{
    return worker_cancelled != 0 || (is_for_job(worker) && clock_monotonic_ms() - began_ms > JOB_MS);
}

/* Without a driver, or without the administrator's word, there are none. */
static void open_devices(struct worker *worker)
{
    const struct attend_place *pods = worker->options->pods;
    struct error none;

    if (pods == NULL) (void)devices_open(worker->options->nvml, &worker->devices, &none).ok;
    else if (pods->devices.count > 0) (void)declared_open(&pods->devices, &worker->devices, &none).ok;
}

_Noreturn void worker_ask(struct worker *worker)
{
    const int64_t began_ms = clock_monotonic_ms();
    struct error err = {0};
    int64_t pause_ms = 0;

    if (!begin(worker, &err).ok) {
        log_error("a worker can't begin", &err);
        end(worker, WORKER_FAILED);
    }
    open_devices(worker);
    find_addresses(worker);
    while (!is_over(worker, began_ms)) {
        pause_ms = ask(worker, pause_ms);
        (void)worker_pause(pause_ms);
    }
    end(worker, WORKER_DONE);
}

_Noreturn void worker_sweep(struct worker *worker)
{
    struct cgroup_place place = {.isolation = ISOLATION_RLIMITS};
    struct error err = {0};
    bool is_clean = false;

    struct result swept = child_begin(NULL, SIGKILL, worker->parent, &err);
    if (worker->options->pods == NULL) cgroup_find(worker->options->cgroup, &place);
    if (swept.ok) swept = work_sweep(worker->options->work, &place, &is_clean, &err);
    if (!swept.ok) log_error("what a killed run has left is not removed", &err);
    end(worker, is_clean ? WORKER_DONE : WORKER_FAILED);
}

_Noreturn void worker_send(struct worker *worker, const struct taken_lease *lease)
{
    struct buffer OWNED_BUFFER body = BUFFER(UINT32_MAX);
    struct error err = {0};

    forget_key(worker);
    struct result begun = begin(worker, &err);
    if (begun.ok) begun = kept_read(worker->kept, lease, KEPT_RESULT, &body, &err);
    if (!begun.ok) {
        log_error("a kept result can't be sent", &err);
        end(worker, WORKER_FAILED);
    }
    if (leased_send(worker, lease, buffer_bytes(&body))) end_lease(worker, lease);
    buffer_done(&body);
    end(worker, WORKER_DONE);
}
