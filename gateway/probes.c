/* Handlers that say how the server is, and the ping of the registry protocol. */
#include <string.h>

#include "audit/metrics.h"
#include "audit/sequencer.h"
#include "crypto/keyd_client.h"
#include "gateway/gateway.h"
#include "gateway/handler.h"
#include "gateway/numbers_priv.h"
#include "policy/decider.h"
#include "policy/metrics.h"
#include "registry/registry.h"
#include "registry/metrics.h"

#define METRICS_SIZE ((size_t)512 * 1024) /* a few hundred lines and two dozen histograms are under 100 KiB */

static struct result alive(struct request *request, struct pg *pg, struct error *err)
{
    (void)pg;
    (void)err;
    response_text(request, 200, "alive\n");
    return SUCCESS;
}
const struct handler handler_alive = {.handle = alive};

/* Each part that a request needs; the first that is not ready is named. */
static struct result parts_are_ready(const struct gateway *gateway, struct pg *pg, struct error *err)
{
    struct keyd_identity identity;

    TRY(sequencer_is_ready(gateway->sequencer, err) ? SUCCESS : (struct result){.ok = false});
    TRY(decider_is_ready(gateway->decider, err) ? SUCCESS : (struct result){.ok = false});
    if (pg != NULL && pg_is_broken(pg)) return failure(err, ERROR_UNAVAILABLE, "the database can't be reached");
    TRY(registry_regions_ready(gateway->registry, err));
    return keyd_identify(gateway->keyd, &identity, err); /* without keys there are no tokens and no blobs */
}

static struct result ready(struct request *request, struct pg *pg, struct error *err)
{
    struct error why = {0};

    (void)err;
    if (parts_are_ready(request->gateway, pg, &why).ok)
        response_text(request, 200, "ready\n");
    else
        response_problem(request, 503, "Not ready", why.message);
    return SUCCESS;
}
const struct handler handler_ready = {.handle = ready};

/* A proxy on this machine brings strangers along, and says so: those are not local. */
static bool was_forwarded(const struct request *request)
{
    static const char *const said_by_proxies[] = {"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto",
                                                  "X-Real-IP", "Via"};

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
    static const struct metric_table *const tables[] = {&metric_table_gateway, &metric_table_duration, &audit_metrics,
                                                         &policy_metrics, &registry_metrics};
    struct buffer OWNED_BUFFER text = BUFFER(METRICS_SIZE);

    (void)pg;
    if (!request->gateway->settings->metrics_public && !is_local(request)) {
        response_unknown(request);
        return SUCCESS;
    }
    TRY(metrics_write(&text, tables, sizeof tables / sizeof tables[0], err));
    const char *copy = arena_copy_text(request->arena, buffer_bytes(&text));
    if (copy == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the metrics");
    response_bytes(request, 200, "text/plain; version=0.0.4; charset=utf-8", bytes_of_text(copy));
    return SUCCESS;
}
const struct handler handler_metrics = {.handle = metrics};

struct result target_system_ping(struct request *request, struct pg *pg, struct error *err)
{
    (void)pg;
    (void)err;
    (void)request_add_pair(request, ACTION_PING, "");
    return SUCCESS;
}

static bool recall_ping(struct request *request)
{
    response_bytes(request, 200, "application/json", bytes_of_text("{}"));
    return true;
}

static struct result ping(struct request *request, struct pg *pg, struct error *err)
{
    (void)pg;
    (void)err;
    (void)recall_ping(request);
    return SUCCESS;
}
const struct handler handler_ping = {.handle = ping, .recall = recall_ping, .decides_at_once = true};
