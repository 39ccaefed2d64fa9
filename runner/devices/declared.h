/*
 * runner/devices/declared.h -- devices that a runner gives to pods of a cluster. The runner's administrator declares them; which a pod really has, its own side tells
 * (runner/pod), and what was told takes the place of what was declared.
 */
#pragma once

#include "runner/devices/devices.h"

#define DECLARED_MAX   16
#define RESOURCE_SIZE  64
#define SEEN_TEXTS     4 /* of each device: UUID, type, bytes of memory, driver */
#define SEEN_USE_TEXTS 2 /* of each device: percent, bytes */

struct declared_kind {
    char resource[RESOURCE_SIZE], type[DEVICE_TEXT_SIZE];
    int64_t count, memory_bytes;
};
struct declared_devices {
    size_t count;
    struct declared_kind kinds[DECLARED_MAX];
};
/**
 * Adds "RESOURCE=COUNT:BYTES:TYPE", such as "nvidia.com/gpu=8:150754820096:NVIDIA H200", or of parts "nvidia.com/mig-1g.18gb=7:19327352832:NVIDIA H200 MIG 1g.18gb": bytes
 * of memory of each, and the driver's own name. NULL, or what is wrong.
 */
const char *declared_add(struct declared_devices *declared, const char *text);
/** The list for devices_grant(), which gives devices of one resource. *declared must live longer. ERROR_NO_MEMORY. */
RESULT declared_open(const struct declared_devices *declared, struct devices **devices_out, struct error *err);
/** The resource of a declared device. */
const char *declared_resource(const struct devices *devices, size_t at);
/**
 * What a pod has told of its devices: `count` texts, SEEN_TEXTS of each; or "" and a reason, if it can't tell. They take the place of the granted ones. ERROR_DENIED: they are not
 * as many as granted, or one of them is not what was asked for.
 */
RESULT declared_take_seen(struct devices *devices, const struct device_grant *grant, const struct run_devices *request,
                          const char *const *texts, size_t count, struct error *err);
/** What a pod has told of their load: SEEN_USE_TEXTS of each, in the same order. What has another form is ignored. */
void declared_take_use(struct devices *devices, const struct device_grant *grant, const char *const *texts, size_t count);
