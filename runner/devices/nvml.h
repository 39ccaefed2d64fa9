/*
 * runner/devices/nvml.h -- the functions of NVML that the runner calls, found at run time.
 *
 * The types are those of nvml.h of the CUDA toolkit, which is not needed to build: a device is an opaque pointer, 0 is success,
 * the caller passes the size of each buffer.
 */
#pragma once

#include <stddef.h>

#include "base/result.h"

typedef struct nvml_device *nvml_device;

struct nvml_memory {
    unsigned long long total, free, used; /* bytes */
};
struct nvml_use {
    unsigned gpu, memory; /* percent of the last sample period */
};

/* member, symbol, parameters */
#define NVML_FUNCTIONS(X)                                                                                \
    X(init, "nvmlInit_v2", (void))                                                                       \
    X(shutdown, "nvmlShutdown", (void))                                                                  \
    X(driver, "nvmlSystemGetDriverVersion", (char *text, unsigned size))                                 \
    X(count, "nvmlDeviceGetCount_v2", (unsigned *count))                                                 \
    X(handle, "nvmlDeviceGetHandleByIndex_v2", (unsigned at, nvml_device *device))                       \
    X(name, "nvmlDeviceGetName", (nvml_device device, char *text, unsigned size))                        \
    X(uuid, "nvmlDeviceGetUUID", (nvml_device device, char *text, unsigned size))                        \
    X(minor, "nvmlDeviceGetMinorNumber", (nvml_device device, unsigned *minor))                          \
    X(memory, "nvmlDeviceGetMemoryInfo", (nvml_device device, struct nvml_memory * memory))              \
    X(use, "nvmlDeviceGetUtilizationRates", (nvml_device device, struct nvml_use * use))                 \
    X(mig, "nvmlDeviceGetMigMode", (nvml_device device, unsigned *now, unsigned *pending))               \
    X(part_count, "nvmlDeviceGetMaxMigDeviceCount", (nvml_device device, unsigned *count))               \
    X(part, "nvmlDeviceGetMigDeviceHandleByIndex", (nvml_device device, unsigned at, nvml_device *part)) \
    X(gpu_instance, "nvmlDeviceGetGpuInstanceId", (nvml_device part, unsigned *id))                      \
    X(compute_instance, "nvmlDeviceGetComputeInstanceId", (nvml_device part, unsigned *id))

struct nvml {
    void *library;
#define X(member, symbol, parameters) int(*member) parameters;
    NVML_FUNCTIONS(X)
#undef X
};

/** Loads the library and starts it. ERROR_NOT_FOUND, ERROR_UNAVAILABLE. */
RESULT nvml_open(const char *library, struct nvml *nvml_out, struct error *err);
/** The path of its file; "" if it is not known. */
void nvml_path(const struct nvml *nvml, char *path, size_t size);
void nvml_close(struct nvml *nvml);
