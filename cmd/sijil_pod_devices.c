/*
 * sijil-pod-devices: tells which devices the payload's container of a pod has (docs/kubernetes.md), as their driver says (NVML). It is linked with the image's own C library,
 * which loads the driver's; sijil-pod starts it, confined as the payload is, and reads its standard output:
 *
 *     device UUID|TYPE|BYTES|DRIVER      each device that is not in MIG mode, and each part
 *     all                                there are no more
 *     none WHY                           it can't tell
 *     use PERCENT|BYTES|...              then, once a second, the load of each
 *
 * usage: sijil-pod-devices [LIBRARY]
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "runner/devices/devices.h"

enum { SECOND = 1 };

/* Whole devices, and parts of those in MIG mode. */
static void list(const struct devices *devices, struct device_grant *all)
{
    for (size_t i = 0; i < devices_count(devices); i++)
        if (!devices_at(devices, i)->is_sliced) all->which[all->count++] = i;
}

static void tell_devices(const struct devices *devices, const struct device_grant *all)
{
    for (size_t i = 0; i < all->count; i++) {
        const struct device *device = devices_at(devices, all->which[i]);
        (void)printf("device %s|%s|%lld|%s\n", device->uuid, device->type, (long long)device->memory_bytes, device->driver);
    }
    (void)printf("all\n");
}

/* Nobody reads any more: this ends by SIGPIPE. */
static void tell_use(struct devices *devices, const struct device_grant *all)
{
    devices_sample(devices, all);
    (void)printf("use ");
    for (size_t i = 0; i < all->count; i++) {
        const struct device *device = devices_at(devices, all->which[i]);
        (void)printf("%s%lld|%lld", i == 0 ? "" : "|", (long long)device->use_percent, (long long)device->memory_in_use);
    }
    (void)printf("\n");
}

int main(int argc, char **argv)
{
    const struct sigaction ignored = {.sa_handler = SIG_IGN};
    struct device_grant all = {.count = 0};
    OWNED(devices) *devices = NULL;
    struct error err = {0};

    (void)prctl(PR_SET_DUMPABLE, 0);          /* the payload has the same user, and must not write into our output */
    (void)sigaction(SIGTERM, &ignored, NULL); /* it is for the payload; process 1 ends us */
    (void)setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    if (!devices_open(argc > 1 ? argv[1] : DEVICES_LIBRARY, &devices, &err).ok) {
        (void)printf("none %s\n", err.message);
        return 1;
    }
    list(devices, &all);
    tell_devices(devices, &all);
    while (all.count > 0) {
        (void)sleep(SECOND);
        tell_use(devices, &all);
    }
    return 0;
}
