#include "runner/devices/devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/memory.h"
#include "base/text.h"
#include "runner/devices/nvml.h"
#include "training/format/form.h"

struct devices {
    struct nvml nvml;
    size_t count;
    nvml_device handles[DEVICES_MAX];
    struct device devices[DEVICES_MAX];
    bool is_taken[DEVICES_MAX];
    char library[DEVICE_PATH_SIZE];
};

static struct result check(int problem, const char *what, struct error *err)
{
    if (problem == 0) return SUCCESS;
    return failure(err, ERROR_UNAVAILABLE, "the driver does not tell %s of a device (NVML error %d)", what, problem);
}

/* A device without MIG mode answers that this function is not supported. */
static bool is_sliced(const struct nvml *nvml, nvml_device handle)
{
    unsigned now = 0, pending = 0;

    return nvml->mig(handle, &now, &pending) == 0 && (now != 0 || pending != 0);
}

/* The UUID goes into an environment and a report: the driver's own form, "GPU-" and hex digits with hyphens. */
static bool is_uuid(const char *text)
{
    return strlen(text) < DEVICE_UUID_SIZE && strncmp(text, "GPU-", 4) == 0 &&
           text_consists_of(bytes_of_text(text + 4), "0123456789abcdef-");
}

static struct result look(struct devices *devices, unsigned at, struct error *err)
{
    struct device *device = &devices->devices[at];
    const struct nvml *nvml = &devices->nvml;
    struct nvml_memory memory = {0};
    nvml_device handle = NULL;

    TRY(check(nvml->handle(at, &handle), "the handle", err));
    TRY(check(nvml->name(handle, device->type, sizeof device->type), "the name", err));
    TRY(check(nvml->uuid(handle, device->uuid, sizeof device->uuid), "the UUID", err));
    TRY(check(nvml->minor(handle, &device->minor), "the number", err));
    TRY(check(nvml->memory(handle, &memory), "the memory", err));
    TRY(check(nvml->driver(device->driver, sizeof device->driver), "the driver", err));
    device->type[sizeof device->type - 1] = device->uuid[sizeof device->uuid - 1] = device->driver[sizeof device->driver - 1] =
        '\0';
    if (!is_uuid(device->uuid)) return failure(err, ERROR_UNAVAILABLE, "the driver tells a UUID of an unknown form");
    device->memory_bytes = (int64_t)memory.total;
    device->is_sliced = is_sliced(nvml, handle);
    devices->handles[at] = handle;
    return SUCCESS;
}

struct result devices_open(const char *library, struct devices **devices_out, struct error *err)
{
    OWNED(devices) *devices = memory_zeroed(1, sizeof *devices);
    unsigned count = 0;

    if (devices == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the list of devices");
    TRY(nvml_open(library, &devices->nvml, err));
    nvml_path(&devices->nvml, devices->library, sizeof devices->library);
    TRY(check(devices->nvml.count(&count), "the number", err));
    if (count > DEVICES_MAX)
        return failure(err, ERROR_LIMIT, "the driver has %u devices, and at most %d are known", count, DEVICES_MAX);
    for (unsigned at = 0; at < count; at++) TRY(look(devices, at, err));
    devices->count = count;
    *devices_out = GIVE(devices);
    return SUCCESS;
}

void devices_free(struct devices *devices)
{
    if (devices == NULL) return;
    nvml_close(&devices->nvml);
    free(devices);
}

size_t devices_count(const struct devices *devices)
{
    return devices->count;
}

const struct device *devices_at(const struct devices *devices, size_t at)
{
    return &devices->devices[at];
}

void devices_set_taken(struct devices *devices, const struct device_names *names)
{
    for (size_t i = 0; i < devices->count; i++) {
        devices->is_taken[i] = false;
        for (size_t j = 0; j < names->count; j++)
            if (strcmp(devices->devices[i].uuid, names->uuids[j]) == 0) devices->is_taken[i] = true;
    }
}

bool devices_is_free(const struct devices *devices, size_t at)
{
    return !devices->is_taken[at];
}

static bool fits(const struct device *device, const struct run_devices *request)
{
    return !device->is_sliced && device->memory_bytes >= request->memory_bytes && form_is_of_type(device->type, request->type);
}

static struct result add_node(struct device_grant *grant, const char *folder, const char *name, bool is_needed, struct error *err)
{
    char *path = grant->nodes[grant->node_count];
    struct stat about;

    (void)snprintf(path, DEVICE_PATH_SIZE, "%.200s/%s", folder, name);
    if (stat(path, &about) == 0 && S_ISCHR(about.st_mode)) grant->node_count++;
    else if (is_needed) return failure(err, ERROR_DENIED, "a device is granted, and its node %.200s is not there", path);
    return SUCCESS;
}

static struct result add_nodes(const struct devices *devices, const char *folder, struct device_grant *grant, struct error *err)
{
    char name[32]; /* a number */

    for (size_t i = 0; i < grant->count; i++) {
        const struct device *device = &devices->devices[grant->which[i]];
        const size_t length = strlen(grant->visible);
        (void)snprintf(name, sizeof name, "nvidia%u", device->minor);
        TRY(add_node(grant, folder, name, true, err));
        (void)snprintf(grant->visible + length, sizeof grant->visible - length, "%s%s", i == 0 ? "" : ",", device->uuid);
    }
    TRY(add_node(grant, folder, "nvidiactl", true, err));
    TRY(add_node(grant, folder, "nvidia-uvm", false, err));
    return add_node(grant, folder, "nvidia-uvm-tools", false, err);
}

struct result devices_grant(const struct devices *devices, const struct run_devices *request, const char *folder,
                            struct device_grant *grant_out, struct error *err)
{
    struct device_grant grant = {0};
    size_t fitting = 0, taken = 0;

    if (request->mig[0] != '\0')
        return failure(err, ERROR_DENIED, "the MIG profile %s is asked for, and this runner gives whole devices", request->mig);
    for (size_t i = 0; i < devices->count; i++) {
        if (!fits(&devices->devices[i], request)) continue;
        if (devices->is_taken[i]) {
            taken++;
            continue;
        }
        fitting++;
        if ((int64_t)grant.count < request->count) grant.which[grant.count++] = i;
    }
    if ((int64_t)grant.count < request->count)
        return failure(err, ERROR_DENIED,
                       "%lld devices%s%s with %lld MiB each are asked for; this machine has %zu devices, and %zu fit%s",
                       (long long)request->count, request->type[0] == '\0' ? "" : " ", request->type,
                       (long long)request->memory_bytes >> 20, devices->count, fitting, taken > 0 ? "; others are in use" : "");
    TRY(add_nodes(devices, folder, &grant, err));
    (void)snprintf(grant.library, sizeof grant.library, "%s", devices->library);
    *grant_out = grant;
    return SUCCESS;
}

void devices_sample(struct devices *devices, const struct device_grant *grant)
{
    for (size_t i = 0; i < grant->count; i++) {
        struct device *device = &devices->devices[grant->which[i]];
        const nvml_device handle = devices->handles[grant->which[i]];
        struct nvml_memory memory;
        struct nvml_use use;
        if (devices->nvml.use(handle, &use) == 0 && use.gpu <= 100 && use.gpu > device->use_percent)
            device->use_percent = use.gpu;
        if (devices->nvml.memory(handle, &memory) == 0 && (int64_t)memory.used > device->memory_in_use)
            device->memory_in_use = (int64_t)memory.used;
    }
}

json_t *devices_json(const struct devices *devices, const struct device_grant *grant)
{
    json_t *list = json_array();

    for (size_t i = 0; i < grant->count && list != NULL; i++) {
        const struct device *device = &devices->devices[grant->which[i]];
        if (json_array_append_new(list, json_pack("{s:s s:s s:s s:I s:I s:I}", "uuid", device->uuid, "type", device->type,
                                                  "driver", device->driver, "memory_bytes", (json_int_t)device->memory_bytes,
                                                  "utilisation_percent", (json_int_t)device->use_percent, "memory_in_use",
                                                  (json_int_t)device->memory_in_use)) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}
