#include "gateway/background/delivery.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "audit/query.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/thread.h"
#include "delivery/deliverer.h"
#include "delivery/metrics.h"
#include "gateway/pipeline/gateway.h"

#define LOOK_EVERY_MS 2000  /* for sinks that came into force */
#define FAILED_MS     2000  /* until the next try after a failure on this side */
#define UNKNOWN_MS    30000 /* after this it is not known which sinks are still in force, so nothing leaves until it is */

/* A sink in force, and its thread. */
struct worker {
    struct gateway *gateway;
    struct deliverer *deliverer; /* NULL: this place is free */
    uint64_t sequence;           /* of the document's event */
    bool is_wanted;              /* only the thread of `delivery` uses it */
    bool is_failed;              /* the log says so already */
    atomic_bool gives_up;
    _Atomic uint64_t lag;
    atomic_bool is_holder, is_stopped;
    struct thread thread;
};

struct delivery {
    struct gateway *gateway;
    struct pg *pg;
    bool is_failed;
    int64_t now_ms;   /* of a look */
    int64_t known_ms; /* when the sinks in force were read last; monotonic */
    struct worker workers[DELIVERY_SINKS_MAX];
    struct thread thread;
};

/* ---- the thread of one sink ---- */

static int64_t failed(struct worker *worker, const struct error *why)
{
    if (why->kind == ERROR_FORKED) sequencer_set_forked(worker->gateway->sequencer, why);
    if (!worker->is_failed) log_error("the log can't be delivered to a sink; it is tried again", why);
    worker->is_failed = true;
    return FAILED_MS;
}

static void note(struct worker *worker, const struct deliverer_report *report)
{
    const bool was_stopped = atomic_load(&worker->is_stopped);

    worker->is_failed = false;
    metric_add(DELIVERY_METRIC(delivery_events), (int64_t)report->delivered);
    metric_add(DELIVERY_METRIC(delivery_withheld), (int64_t)report->withheld);
    if (report->has_failed) metric_add(DELIVERY_METRIC(delivery_failures), 1);
    atomic_store(&worker->is_holder, report->is_holder);
    atomic_store(&worker->is_stopped, report->is_stopped);
    atomic_store(&worker->lag, report->lag);
    if (report->is_stopped && !was_stopped)
        log_line(LOG_WARNING, "a sink takes no events", "sink", deliverer_name(worker->deliverer), "problem", report->problem,
                 NULL);
    if (!report->is_stopped && was_stopped)
        log_line(LOG_INFO, "a sink takes events again", "sink", deliverer_name(worker->deliverer), NULL);
}

static int64_t step(struct worker *worker)
{
    struct deliverer_report report;
    struct error err = {0};

    if (!deliverer_step(worker->deliverer, &report, &err).ok) return failed(worker, &err);
    note(worker, &report);
    return report.wait_ms;
}

static void *worker_main(void *argument)
{
    struct worker *worker = argument;

    while (thread_sleep(&worker->thread, step(worker))) continue;
    return NULL;
}

static void end(struct worker *worker)
{
    if (worker->deliverer == NULL) return;
    atomic_store(&worker->gives_up, true);
    thread_stop(&worker->thread);
    deliverer_free(GIVE(worker->deliverer));
}

static struct result begin(struct gateway *gateway, struct worker *worker, const struct pinned_document *pinned,
                           struct error *err)
{
    const struct settings *settings = gateway->settings;
    const struct deliverer_options options = {.conninfo = settings->database,
                                              .origin = gateway->origin,
                                              .log_name = gateway->log_name,
                                              .folder = settings->delivery_folder,
                                              .certificate = settings->delivery_certificate,
                                              .key = settings->delivery_key,
                                              .keyd = gateway->keyd,
                                              .sequencer = gateway->sequencer,
                                              .decider = gateway->decider,
                                              .gives_up = &worker->gives_up};

    memset(worker, 0, sizeof *worker);
    worker->gateway = gateway;
    worker->sequence = pinned->sequence;
    worker->is_wanted = true;
    TRY(deliverer_new(&options, pinned, &worker->deliverer, err));
    const struct result started = thread_start(&worker->thread, worker_main, worker, "delivers the log", err);
    if (!started.ok) deliverer_free(GIVE(worker->deliverer));
    return started;
}

/* ---- the sinks in force ---- */

static bool is_at_work(const struct worker *worker, const struct pinned_document *pinned)
{
    return worker->deliverer != NULL && worker->sequence == pinned->sequence;
}

/* With the view locked: it only marks what goes on, and copies what begins. */
struct wanted {
    struct delivery *delivery;
    size_t count;
    struct pinned_document fresh[DELIVERY_SINKS_MAX];
};

static struct result want(void *context, const struct pinned_document *pinned, struct error *err)
{
    struct wanted *wanted = context;
    struct pinned_document *fresh = &wanted->fresh[wanted->count];
    struct document *copy = NULL;

    if (!document_is_in_force(pinned->document, wanted->delivery->now_ms)) return SUCCESS;
    for (size_t i = 0; i < DELIVERY_SINKS_MAX; i++)
        if (is_at_work(&wanted->delivery->workers[i], pinned)) {
            wanted->delivery->workers[i].is_wanted = true;
            return SUCCESS;
        }
    if (wanted->count == DELIVERY_SINKS_MAX) return SUCCESS;
    TRY(document_read_payload(DOCUMENT_AUDIT_SINK, document_payload(pinned->document), &copy, err));
    *fresh = (struct pinned_document){copy, pinned->sequence};
    wanted->count++;
    return SUCCESS;
}

static void free_wanted(struct wanted *wanted)
{
    for (size_t i = 0; i < wanted->count; i++) document_free((struct document *)(uintptr_t)wanted->fresh[i].document);
}

/* A sink that changed ends before its new version begins: both would want one lock. */
static struct result begin_fresh(struct delivery *delivery, const struct wanted *wanted, struct error *err)
{
    for (size_t i = 0; i < DELIVERY_SINKS_MAX; i++)
        if (!delivery->workers[i].is_wanted) end(&delivery->workers[i]);
    for (size_t i = 0, place = 0; i < wanted->count; i++) {
        while (place < DELIVERY_SINKS_MAX && delivery->workers[place].deliverer != NULL) place++;
        if (place == DELIVERY_SINKS_MAX) return failure(err, ERROR_LIMIT, "more than %d sinks are in force", DELIVERY_SINKS_MAX);
        TRY(begin(delivery->gateway, &delivery->workers[place], &wanted->fresh[i], err));
    }
    return SUCCESS;
}

static struct result look(struct delivery *delivery, struct error *err)
{
    const struct gateway *gateway = delivery->gateway;
    const struct document_source source = {delivery->pg, gateway->keyd, gateway->sequencer};
    struct wanted wanted = {.delivery = delivery};
    const struct document_visit visit = {want, &wanted};
    struct document_reading reading;

    if (pg_is_broken(delivery->pg)) TRY(pg_reopen(delivery->pg, err));
    delivery->now_ms = clock_wall_ms();
    TRY(document_view_update(gateway->documents, DOCUMENT_AUDIT_SINK, &source, &reading, err));
    for (size_t i = 0; i < DELIVERY_SINKS_MAX; i++) delivery->workers[i].is_wanted = false;
    const struct result visited = document_view_read(gateway->documents, DOCUMENT_AUDIT_SINK, &visit, err);
    if (visited.ok) delivery->known_ms = clock_monotonic_ms();
    const struct result begun = visited.ok ? begin_fresh(delivery, &wanted, err) : visited;
    free_wanted(&wanted);
    return begun;
}

static void show(const struct delivery *delivery)
{
    int64_t held = 0, stopped = 0;
    uint64_t lag = 0;

    for (size_t i = 0; i < DELIVERY_SINKS_MAX; i++) {
        const struct worker *worker = &delivery->workers[i];
        if (worker->deliverer == NULL || !atomic_load(&worker->is_holder)) continue;
        const bool is_stopped = atomic_load(&worker->is_stopped);
        held += is_stopped ? 0 : 1;
        stopped += is_stopped ? 1 : 0;
        if (atomic_load(&worker->lag) > lag) lag = atomic_load(&worker->lag);
    }
    metric_set(DELIVERY_METRIC(delivery_held), held);
    metric_set(DELIVERY_METRIC(delivery_stopped), stopped);
    metric_set(DELIVERY_METRIC(delivery_lag), (int64_t)lag);
}

/* A sink may have been withdrawn, or be over, without this gateway knowing it. */
static void end_unknown(struct delivery *delivery)
{
    if (clock_monotonic_ms() - delivery->known_ms <= UNKNOWN_MS) return;
    for (size_t i = 0; i < DELIVERY_SINKS_MAX; i++) end(&delivery->workers[i]);
}

static void *delivery_main(void *argument)
{
    struct delivery *delivery = argument;

    do {
        struct error err = {0};
        const bool is_well = look(delivery, &err).ok;
        if (!is_well && !delivery->is_failed) log_error("the sinks of the log can't be read; it is tried again", &err);
        delivery->is_failed = !is_well;
        end_unknown(delivery);
        show(delivery);
    } while (thread_sleep(&delivery->thread, LOOK_EVERY_MS));
    return NULL;
}

struct result delivery_start(struct gateway *gateway, struct delivery **delivery_out, struct error *err)
{
    static const struct pg_table *const tables[] = {&document_table, &audit_tree_table, NULL};
    OWNED(delivery) *delivery = memory_zeroed(1, sizeof *delivery);

    if (delivery == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for deliveries");
    delivery->gateway = gateway;
    TRY(pg_open_lazily(gateway->settings->database, tables, &delivery->pg, err));
    TRY(thread_start(&delivery->thread, delivery_main, delivery, "looks for sinks of the log", err));
    *delivery_out = GIVE(delivery);
    return SUCCESS;
}

void delivery_free(struct delivery *delivery)
{
    if (delivery == NULL) return;
    thread_stop(&delivery->thread);
    for (size_t i = 0; i < DELIVERY_SINKS_MAX; i++) atomic_store(&delivery->workers[i].gives_up, true);
    for (size_t i = 0; i < DELIVERY_SINKS_MAX; i++) end(&delivery->workers[i]);
    pg_free(delivery->pg);
    free(delivery);
}
