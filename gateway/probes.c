/* Handlers of the probes, and the ping of the registry protocol. */
#include <stdatomic.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "gateway/pipeline/gateway.h"
#include "gateway/pipeline/handler.h"
#include "gateway/pipeline/response.h"
#include "gateway/readiness.h"
#include "registry/maintenance.h"

#define NOTED_EVERY_MS 10000

static struct result alive(struct request *request, struct pg *pg, struct error *err)
{
    (void)pg;
    (void)err;
    response_text(request, 200, "alive\n");
    return SUCCESS;
}
const struct handler handler_alive = {.handle = alive};

/* Asks each part that requests need; the error names the first one that is not ready. */
static struct result parts_are_ready(const struct gateway *gateway, struct pg *pg, struct error *err)
{
    struct ready_asker asker = {.gateway = gateway, .pg = pg};

    if (atomic_load(&gateway->is_starting)) return failure(err, ERROR_UNAVAILABLE, "the gateway is starting");

    for (enum ready_part part = 0; part < READY_PARTS; part++) TRY(ready_ask(&asker, part, err));
    return SUCCESS;
}

/* Logs it rarely, because any client may ask as often as it likes. */
static void note(const struct error *why)
{
    static _Atomic int64_t last_ms;
    const int64_t now_ms = clock_monotonic_ms();
    int64_t before_ms = atomic_load(&last_ms);

    if (before_ms != 0 && now_ms - before_ms < NOTED_EVERY_MS) return;
    if (atomic_compare_exchange_strong(&last_ms, &before_ms, now_ms)) log_error("not ready", why);
}

/* The other regions still serve, so a load balancer keeps the gateway. */
static void answer_ready(struct request *request)
{
    char closed[512], text[sizeof closed + 80];

    registry_closed_regions(request->gateway->registry, closed, sizeof closed);
    (void)snprintf(text, sizeof text,
                   closed[0] == '\0' ? "ready\n%s" : "ready\nregions that are quarantined or retired, or without keys: %s\n",
                   closed);
    response_text(request, 200, text);
}

static struct result ready(struct request *request, struct pg *pg, struct error *err)
{
    struct error why = {0};
    char words[sizeof why.message];

    (void)err;
    if (parts_are_ready(request->gateway, pg, &why).ok) {
        answer_ready(request);
        return SUCCESS;
    }
    note(&why);
    failure_words(&why, words);
    response_problem(request, 503, "Not ready", words);
    return SUCCESS;
}
const struct handler handler_ready = {.handle = ready};

struct result target_system_ping(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup;
    (void)err;
    (void)request_add_pair(request, ACTION_PING, "");
    return SUCCESS;
}

static bool ping_fast_path(struct request *request)
{
    response_bytes(request, 200, "application/json", bytes_of_text("{}"));
    return true;
}

static struct result ping(struct request *request, struct pg *pg, struct error *err)
{
    (void)pg;
    (void)err;
    (void)ping_fast_path(request);
    return SUCCESS;
}
const struct handler handler_ping = {.handle = ping, .fast_path = ping_fast_path, .decides_on_event_thread = true};
