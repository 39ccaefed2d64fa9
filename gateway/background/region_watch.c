#include "gateway/background/region_watch.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/thread.h"
#include "gateway/pipeline/gateway.h"
#include "registry/maintenance.h"
#include "registry/registry.h"

#define CHECK_INTERVAL_MS 5000

struct region_watch {
    struct gateway *gateway;
    struct thread thread;
    char said[256];    /* the newest log line, so that it is not repeated */
    char refused[256]; /* likewise, of regions of the policy set */
    char keyless[256]; /* likewise, of regions with a sijil-keyd of their own */
};

static void check_stores(struct region_watch *watch)
{
    struct error err = {0};

    if (registry_check_stores(watch->gateway->registry, &err).ok) {
        if (watch->said[0] != '\0') log_line(LOG_INFO, "all regions can be used again", NULL);
        watch->said[0] = '\0';
    } else if (strcmp(watch->said, err.message) != 0) {
        log_error("a region can't be used", &err);
        (void)snprintf(watch->said, sizeof watch->said, "%s", err.message);
    }
}

static void follow_keys(struct region_watch *watch)
{
    struct error err = {0};

    if (registry_follow_keys(watch->gateway->registry, watch->gateway->decider, &err).ok) watch->keyless[0] = '\0';
    else if (strcmp(watch->keyless, err.message) != 0) {
        log_error("the sijil-keyd of a region is not as it must be", &err);
        (void)snprintf(watch->keyless, sizeof watch->keyless, "%s", err.message);
    }
}

/* An error of the log or of sijil-keyd passes; the next look tries again. */
static void scan(struct region_watch *watch)
{
    const struct gateway *gateway = watch->gateway;
    struct error err = {0};

    if (registry_open_recorded(gateway->registry, gateway->decider, &err).ok) watch->refused[0] = '\0';
    else if (strcmp(watch->refused, err.message) != 0) {
        log_error("a region of the policy set can't be served here", &err);
        (void)snprintf(watch->refused, sizeof watch->refused, "%s", err.message);
    }
    if (!registry_scan_regions(gateway->registry, gateway->decider, gateway->settings->region_scan_interval * 1000, &err).ok)
        log_error("a region's store was compared with its record, and the outcome is not recorded", &err);
}

static void *region_watch_main(void *argument)
{
    struct region_watch *watch = argument;

    while (thread_sleep(&watch->thread, CHECK_INTERVAL_MS)) {
        check_stores(watch);
        follow_keys(watch);
        scan(watch);
    }
    return NULL;
}

struct result region_watch_start(struct gateway *gateway, struct region_watch **watch_out, struct error *err)
{
    OWNED(region_watch) *watch = memory_zeroed(1, sizeof *watch);

    if (watch == NULL) return failure(err, ERROR_NO_MEMORY, "no memory to watch regions");
    watch->gateway = gateway;
    TRY(thread_start(&watch->thread, region_watch_main, watch, "watches regions", err));
    *watch_out = GIVE(watch);
    return SUCCESS;
}

void region_watch_free(struct region_watch *watch)
{
    if (watch == NULL) return;
    thread_stop(&watch->thread);
    free(watch);
}
