/*
 * runner/devices/devices.h -- the accelerators of this machine, as their driver reports them (NVML), and the choice for a run.
 *
 * A run gets exactly the devices that it asked for, or it is refused. It never gets fewer devices, and never the processor in
 * their place. It sees only the nodes of its own devices. NVML is loaded at run time, so a machine without a driver needs no
 * library.
 */
#pragma once

#include "base/json.h"
#include "base/owned.h"
#include "training/format/spec.h"

#define DEVICES_MAX      64
#define DEVICE_TEXT_SIZE 96 /* NVML_DEVICE_NAME_V2_BUFFER_SIZE and NVML_DEVICE_UUID_V2_BUFFER_SIZE */
#define DEVICE_UUID_SIZE 48 /* of a UUID that the driver tells, with '\0' */
#define DEVICE_PATH_SIZE 256
#define DEVICE_NODES_MAX (DEVICES_MAX + 3) /* and nvidiactl, nvidia-uvm, nvidia-uvm-tools */
#define DEVICES_LIBRARY  "libnvidia-ml.so.1"
#define DEVICES_FOLDER   "/dev"

struct device {
    char uuid[DEVICE_TEXT_SIZE], type[DEVICE_TEXT_SIZE], driver[DEVICE_TEXT_SIZE];
    int64_t memory_bytes;
    unsigned minor;        /* of its node */
    bool is_sliced;        /* in MIG mode: it is not given as a whole */
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
    size_t node_count;
    char nodes[DEVICE_NODES_MAX][DEVICE_PATH_SIZE]; /* below the folder */
    char visible[DEVICES_MAX * 48];                 /* for CUDA_VISIBLE_DEVICES: their UUIDs */
    char library[DEVICE_PATH_SIZE];                 /* the file of NVML's library that answers */
};

/** Matches a request to devices whose nodes are in `folder`. ERROR_DENIED names the request, and the devices of this machine. */
RESULT devices_grant(const struct devices *devices, const struct run_devices *request, const char *folder,
                     struct device_grant *grant_out, struct error *err);
/** Measures the present load of the granted devices. */
void devices_sample(struct devices *devices, const struct device_grant *grant);
/** The granted devices as a run's result names them; NULL without memory. */
json_t *devices_json(const struct devices *devices, const struct device_grant *grant);
