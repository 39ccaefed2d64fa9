#include "gateway/background/copying.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/priority.h"
#include "base/thread.h"
#include "gateway/pipeline/gateway.h"
#include "outgoing/call.h"
#include "registry/copies/copier.h"
#include "registry/copies/placement_jobs.h"

#define LOOK_EVERY_MS  1000
#define COUNT_EVERY_MS 10000

struct copying {
    struct gateway *gateway;
    struct pg *pg;
    struct outgoing *outgoing; /* to the gateways of other regions; NULL: nothing is fetched */
    atomic_bool gives_up;
    struct thread thread;
    int64_t counted_ms;
    char said[256]; /* the newest log line, so that it is not repeated */
};

static bool is_stopping(void *context)
{
    struct copying *copying = context;

    return thread_is_stopping(&copying->thread);
}

static void say(struct copying *copying, const char *what, const struct error *why)
{
    if (strcmp(copying->said, why->message) == 0) return;
    (void)snprintf(copying->said, sizeof copying->said, "%s", why->message);
    log_error(what, why);
}

/* All pages that are due. False: after a failure. */
static bool look_at_places(struct copying *copying, const struct copier_options *options)
{
    bool worked = true;

    while (worked && !is_stopping(copying)) {
        struct error err = {0};
        if (placement_work(copying->gateway->registry, copying->pg, options, &worked, &err).ok) {
            if (worked) copying->counted_ms = 0; /* an alert waits for the number */
            continue;
        }
        say(copying, "whether content is where it may be is not known; it is tried again", &err);
        return false;
    }
    return true;
}

/* Works until nothing is due. Places come first: a copy may take long. */
static void work(struct copying *copying)
{
    const struct gateway *gateway = copying->gateway;
    const struct copier_options options = {.decider = gateway->decider,
                                           .instance = gateway->settings->instance,
                                           .is_stopping = is_stopping,
                                           .context = copying,
                                           .lease_bytes = (uint64_t)gateway->settings->lease_size,
                                           .lease_ms = (unsigned)gateway->settings->lease_time * 1000,
                                           .outgoing = copying->outgoing,
                                           .gives_up = &copying->gives_up};
    bool worked = true, has_looked = true;

    while (worked && !is_stopping(copying)) {
        struct error err = {0};
        has_looked = look_at_places(copying, &options) && has_looked;
        if (copier_work(gateway->registry, copying->pg, &options, &worked, &err).ok) continue;
        say(copying, "copies in a further region are not made; it is tried again", &err);
        return;
    }
    if (has_looked) copying->said[0] = '\0';
}

static void count(struct copying *copying)
{
    struct error err = {0};

    if (copying->counted_ms != 0 && clock_monotonic_ms() - copying->counted_ms < COUNT_EVERY_MS) return;
    copying->counted_ms = clock_monotonic_ms();
    if (!copier_count(copying->gateway->registry, copying->pg, &err).ok || !placement_count(copying->pg, &err).ok)
        say(copying, "copies and places are not counted; it is tried again", &err);
}

static void *copying_main(void *argument)
{
    struct copying *copying = argument;
    struct error ignored = {0}; /* the readers log it already */

    priority_background();
    while (thread_sleep(&copying->thread, LOOK_EVERY_MS)) {
        if (pg_is_broken(copying->pg) && !pg_reopen(copying->pg, &ignored).ok) continue;
        work(copying);
        count(copying);
    }
    return NULL;
}

static struct result open_way(const struct settings *settings, struct outgoing **outgoing_out, struct error *err)
{
    struct networks networks = {0};

    if (settings->region_peers[0] == '\0' || settings->peer_certificate[0] == '\0') return SUCCESS;
    TRY(networks_parse("peer_networks", settings->peer_networks, &networks, err));
    const struct outgoing_options rules = {.reach = networks.count == 0 ? OUTGOING_USUAL : OUTGOING_LISTED,
                                           .networks = networks,
                                           .ca_file = settings->peer_ca,
                                           .certificate_file = settings->peer_certificate,
                                           .key_file = settings->peer_key};
    return outgoing_new(&rules, outgoing_out, err);
}

struct result copying_start(struct gateway *gateway, struct copying **copying_out, struct error *err)
{
    OWNED(copying) *copying = memory_zeroed(1, sizeof *copying);

    if (copying == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for copies");
    copying->gateway = gateway;
    TRY(open_way(gateway->settings, &copying->outgoing, err));
    TRY(pg_open_lazily(gateway->settings->database, gateway->tables, &copying->pg, err));
    TRY(thread_start(&copying->thread, copying_main, copying, "copies content into further regions", err));
    *copying_out = GIVE(copying);
    return SUCCESS;
}

void copying_free(struct copying *copying)
{
    if (copying == NULL) return;
    atomic_store(&copying->gives_up, true);
    thread_stop(&copying->thread);
    pg_free(copying->pg);
    outgoing_free(copying->outgoing);
    free(copying);
}
