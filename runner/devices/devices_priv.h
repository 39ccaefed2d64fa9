/*
 * runner/devices/devices_priv.h -- the list of devices, for the sources of this folder.
 */
#pragma once

#include "runner/devices/devices.h"
#include "runner/devices/nvml.h"

struct devices {
    struct nvml nvml;
    size_t count;
    nvml_device handles[DEVICES_MAX];
    struct device devices[DEVICES_MAX];
    bool is_taken[DEVICES_MAX];
    char library[DEVICE_PATH_SIZE];
    bool is_declared;                   /* by the runner's administrator; there is no driver */
    const char *resources[DEVICES_MAX]; /* of declared devices */
};

/** The UUID goes into an environment and a report: the driver's own form, `kind` ("GPU-" or "MIG-") and hex digits with hyphens. */
bool devices_is_uuid(const char *text, const char *kind);
/** The driver's name of a part ends with its profile: "NVIDIA H100 80GB HBM3 MIG 1g.10gb". False: of an unknown form. */
bool devices_take_profile(struct device *device);
/** Whether the device is what is asked for. */
bool devices_fit(const struct device *device, const struct run_devices *request);
