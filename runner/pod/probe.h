/*
 * runner/pod/probe.h -- the devices of the payload's container: starts sijil-pod-devices there, and reads what it tells (cmd/sijil_pod_devices.c).
 */
#pragma once

#include <sys/types.h>

#include "base/result.h"

#define PROBE_PROGRAM   "sijil-pod-devices"
#define PROBE_TEXTS_MAX 256   /* four of each device */
#define PROBE_SIZE      16384 /* 64 lines of at most 250 bytes */

struct probe {
    pid_t child;
    int output;           /* -1: it has ended */
    size_t length, count; /* of what is read, and of the texts */
    const char *texts[PROBE_TEXTS_MAX];
    char read[PROBE_SIZE], told[PROBE_SIZE];
};

/** `folder` has the program. The caller's later confinement does not hold for it: it confines itself as the payload does, before the program begins. */
RESULT probe_start(struct probe *probe, const char *folder, struct error *err);
/** Waits for the list; then `texts` are four of each device, or "" and a reason. Never fails. */
void probe_await_devices(struct probe *probe);
/** When the output can be read. True: `texts` are two of each device, their newest load. */
bool probe_hear_use(struct probe *probe);
