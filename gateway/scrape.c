/* /metrics: some numbers are counted all the time, others are read for each scrape. */
#include <string.h>

#include "audit/metrics.h"
#include "authz/break_glass.h"
#include "base/clock.h"
#include "base/process.h"
#include "crypto/metrics.h"
#include "delivery/metrics.h"
#include "detection/metrics.h"
#include "documents/view.h"
#include "gateway/http/metrics.h"
#include "gateway/pipeline/gateway.h"
#include "gateway/pipeline/handler.h"
#include "gateway/pipeline/metrics.h"
#include "gateway/readiness.h"
#include "gateway/routes.h"
#include "policy/decider/metrics.h"
#include "registry/maintenance.h"
#include "registry/metrics.h"

#define METRICS_SIZE ((size_t)1024 * 1024) /* some hundred lines and about seventy histograms are below 200 KiB */

static void set(enum gateway_metric metric, int64_t value)
{
    metric_set(&metrics_gateway[metric], value);
}

/* ---- Read for each scrape ---- */

static void take_process(void)
{
    struct process_use use;
    struct error ignored = {0}; /* without /proc the other numbers are still shown */

    if (!process_use_read(&use, &ignored).ok) return;
    set(METRIC_PROCESS_CPU, use.cpu_us);
    set(METRIC_PROCESS_RESIDENT, use.resident_bytes);
    set(METRIC_PROCESS_VIRTUAL, use.virtual_bytes);
    set(METRIC_PROCESS_FILES, use.open_files);
    set(METRIC_PROCESS_FILES_MAX, use.open_files_max);
    set(METRIC_PROCESS_THREADS, use.threads);
    /* Set only once, so that a correction of the clock does not look like a restart. */
    if (metric_value(&metrics_gateway[METRIC_PROCESS_STARTED]) == 0) set(METRIC_PROCESS_STARTED, use.started_us);
}

static void take_identity(const struct keyd_identity *identity)
{
    set(METRIC_KEYD_SIGNED_SIZE, (int64_t)identity->log_size);
    set(METRIC_KEYD_UNWRAPS, (int64_t)identity->unwrap_count);
    for (int scope = 0; scope < MINT_SCOPES; scope++)
        set((enum gateway_metric)(METRIC_KEYD_MINTS_ADMINISTRATION + scope), (int64_t)identity->mints[scope]);
    set(METRIC_KEYD_LOST, (int64_t)identity->mints_lost);
    set(METRIC_KEYD_MINTERS, (int64_t)identity->minter_count);
    set(METRIC_KEYD_VERSION, identity->key_version);
    set(METRIC_KEYD_VERSIONS, (int64_t)identity->version_count);
    set(METRIC_KEYD_POLICY_EPOCH, (int64_t)identity->policy_epoch);
}

/* While sijil-keyd is away, its last numbers stay; sijil_ready shows that it is away. */
static void take_readiness(const struct gateway *gateway, struct pg *pg)
{
    struct ready_asker asker = {.gateway = gateway, .pg = pg};

    for (enum ready_part part = 0; part < READY_PARTS; part++) {
        struct error ignored = {0};
        const bool is_ready = ready_ask(&asker, part, &ignored).ok;
        set((enum gateway_metric)(METRIC_READY_LOG + (int)part), is_ready);
        if (part == READY_KEYD && is_ready) take_identity(&asker.identity);
    }
}

/* While the documents are not known, the last numbers stay; sijil_ready shows that. */
static void take_glasses(const struct gateway *gateway)
{
    struct broken_glass_counts counts;
    struct error ignored = {0};

    if (!broken_glass_count(gateway->documents, clock_wall_ms(), &counts, &ignored).ok) return;
    set(METRIC_GLASSES_IN_FORCE, counts.in_force);
    set(METRIC_GLASSES_UNREVIEWED, counts.unreviewed);
}

static void take_all(const struct gateway *gateway, struct pg *pg)
{
    set(METRIC_BUILD, 1);
    set(METRIC_WAITING_READERS, work_waiting(gateway->readers));
    set(METRIC_WAITING_RECEIVERS, work_waiting(gateway->receivers));
    set(METRIC_WAITING_SENDERS, work_waiting(gateway->senders));
    set(METRIC_DOCUMENTS_UNLOGGED, (int64_t)document_view_unlogged(gateway->documents));
    take_glasses(gateway);
    take_process();
    take_readiness(gateway, pg);
}

/* ---- The answer ---- */

/* A proxy on this machine forwards requests of clients elsewhere, and adds a header. Such requests are not local. */
static bool was_forwarded(const struct request *request)
{
    static const char *const said_by_proxies[] = {"Forwarded",         "X-Forwarded-For", "X-Forwarded-Host",
                                                  "X-Forwarded-Proto", "X-Real-IP",       "Via"};

    for (size_t i = 0; i < sizeof said_by_proxies / sizeof said_by_proxies[0]; i++)
        if (request_header(request, said_by_proxies[i]) != NULL) return true;
    return false;
}

static bool is_local(const struct request *request)
{
    if (was_forwarded(request)) return false;
    return strcmp(request->client_address, "127.0.0.1") == 0 || strcmp(request->client_address, "::1") == 0 ||
           strcmp(request->client_address, "unix") == 0;
}

static struct result metrics(struct request *request, struct pg *pg, struct error *err)
{
    static const struct metric_table *const tables[] = {
        &metric_table_http, &metric_table_gateway, &metric_table_duration, &keyd_call_metrics, &keyd_failure_metrics,
        &audit_metrics,     &delivery_metrics,     &detection_metrics,     &policy_metrics,    &registry_metrics};
    struct buffer OWNED_BUFFER text = BUFFER(METRICS_SIZE);

    if (!request->gateway->settings->metrics_public && !is_local(request)) {
        response_unknown(request);
        return SUCCESS;
    }
    take_all(request->gateway, pg);
    TRY(metrics_write(&text, tables, sizeof tables / sizeof tables[0], err));
    TRY(registry_write_metrics(request->gateway->registry, &text, err));
    const char *copy = arena_copy_text(request->arena, buffer_bytes(&text));
    if (copy == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the metrics");
    response_bytes(request, 200, "text/plain; version=0.0.4; charset=utf-8", bytes_of_text(copy));
    return SUCCESS;
}
const struct handler handler_metrics = {.handle = metrics};
