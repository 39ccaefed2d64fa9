/*
 * runner/devices/devices.h -- the accelerators of this machine, as their driver reports them (NVML), and the choice for a run.
 *
 * A run gets exactly the devices that it asked for, or it is refused. It never gets fewer devices, and never the processor in
 * their place. It sees only the nodes of its own devices. NVML is loaded at run time, so a machine without a driver needs no
 * library.
 *
 * A device in MIG mode is not given as a whole. Each of its parts (a MIG device: a compute instance of a GPU instance) is a device of its own here, and
 * goes only to runs that ask for its profile.
 */
#pragma once

#include "base/json.h"
#include "base/owned.h"
#include "training/format/spec.h"

#define DEVICES_MAX      64
#define DEVICE_TEXT_SIZE 96 /* NVML_DEVICE_NAME_V2_BUFFER_SIZE and NVML_DEVICE_UUID_V2_BUFFER_SIZE */
#define DEVICE_UUID_SIZE 48 /* of a UUID that the driver tells, with '\0' */
#define DEVICE_PATH_SIZE 256
#define DEVICE_MIG_SIZE  32
#define DEVICE_NODES_MAX \
    (3 * DEVICES_MAX + 3) /* a device, and two capabilities of a part; nvidiactl, nvidia-uvm, nvidia-uvm-tools */
#define DEVICES_LIBRARY "libnvidia-ml.so.1"
#define DEVICES_FOLDER  "/dev"

/** With whom a run shares the device. */
enum device_isolation {
    DEVICE_WHOLE,           /* with nobody */
    DEVICE_GPU_INSTANCE,    /* a part with memory, caches and processors of its own */
    DEVICE_COMPUTE_INSTANCE /* a part with processors of its own; the memory's bandwidth may be shared within the GPU instance */
};

struct device {
    char uuid[DEVICE_TEXT_SIZE], type[DEVICE_TEXT_SIZE], driver[DEVICE_TEXT_SIZE];
    int64_t memory_bytes;
    unsigned minor; /* of its node; of a part: of the device's node */
    bool is_sliced; /* in MIG mode: it is not given as a whole */
    /* of a part: */
    char mig[DEVICE_MIG_SIZE];     /* its profile, such as 1g.10gb; "": a whole device */
    char parent[DEVICE_UUID_SIZE]; /* UUID of the device */
    unsigned gpu_instance, compute_instance;
    int64_t use_percent;   /* the highest value of devices_sample() */
    int64_t memory_in_use; /* bytes; the highest value of devices_sample() */
};

struct devices;
/** Asks the driver. `library` is a name or a path for dlopen(3). ERROR_NOT_FOUND: no driver; ERROR_UNAVAILABLE: it does not answer. */
RESULT devices_open(const char *library, struct devices **devices_out, struct error *err);
size_t devices_count(const struct devices *devices);
const struct device *devices_at(const struct devices *devices, size_t at);
void devices_free(struct devices *devices);
DEFINE_OWNED(devices);

/** Devices by their UUIDs. */
struct device_names {
    size_t count;
    char uuids[DEVICES_MAX][DEVICE_UUID_SIZE];
};
/** From now on other runs use exactly the devices with these names: devices_grant() gives none of them. */
void devices_set_taken(struct devices *devices, const struct device_names *names);
bool devices_is_free(const struct devices *devices, size_t at);

/** The devices that one run gets. */
struct device_grant {
    size_t count, which[DEVICES_MAX]; /* indexes into `devices` */
    size_t node_count, folder_length;
    char nodes[DEVICE_NODES_MAX][DEVICE_PATH_SIZE]; /* below the folder, whose path has folder_length bytes */
    char visible[DEVICES_MAX * 48];                 /* for CUDA_VISIBLE_DEVICES: their UUIDs */
    char library[DEVICE_PATH_SIZE];                 /* the file of NVML's library that answers */
};

/**
 * Matches a request to devices whose nodes are in `folder`. The driver says in /proc which nodes (nvidia-caps) open a part; if `folder` is not /dev, the
 * folder `capabilities` in it is read instead. ERROR_DENIED names the request, and the devices of this machine.
 */
RESULT devices_grant(const struct devices *devices, const struct run_devices *request, const char *folder,
                     struct device_grant *grant_out, struct error *err);
/** Measures the present load of the granted devices. The driver tells no utilisation of a part. */
void devices_sample(struct devices *devices, const struct device_grant *grant);
/** The granted devices as a run's result names them; NULL without memory. */
json_t *devices_json(const struct devices *devices, const struct device_grant *grant);
