#include "runner/devices/devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "runner/devices/devices_priv.h"

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

bool devices_is_uuid(const char *text, const char *kind)
{
    return strlen(text) < DEVICE_UUID_SIZE && strncmp(text, kind, 4) == 0 &&
           text_consists_of(bytes_of_text(text + 4), "0123456789abcdef-");
}

static struct result describe(const struct nvml *nvml, nvml_device handle, const char *kind, struct device *device,
                              struct error *err)
{
    struct nvml_memory memory = {0};

    TRY(check(nvml->name(handle, device->type, sizeof device->type), "the name", err));
    TRY(check(nvml->uuid(handle, device->uuid, sizeof device->uuid), "the UUID", err));
    TRY(check(nvml->memory(handle, &memory), "the memory", err));
    TRY(check(nvml->driver(device->driver, sizeof device->driver), "the driver", err));
    device->type[sizeof device->type - 1] = device->uuid[sizeof device->uuid - 1] = device->driver[sizeof device->driver - 1] =
        '\0';
    if (!devices_is_uuid(device->uuid, kind))
        return failure(err, ERROR_UNAVAILABLE, "the driver tells a UUID of an unknown form");
    device->memory_bytes = (int64_t)memory.total;
    return SUCCESS;
}

static struct result add(struct devices *devices, nvml_device handle, const struct device *device, struct error *err)
{
    if (devices->count == DEVICES_MAX)
        return failure(err, ERROR_LIMIT, "the driver has more than %d devices and parts of devices", DEVICES_MAX);
    devices->handles[devices->count] = handle;
    devices->devices[devices->count++] = *device;
    return SUCCESS;
}

/* ---- parts of a device ---- */

bool devices_take_profile(struct device *device)
{
    const char *at = strstr(device->type, " MIG ");

    if (at == NULL || !text_consists_of(bytes_of_text(at + 5), "0123456789abcdefghijklmnopqrstuvwxyz.+-")) return false;
    if (at[5] == '\0' || strlen(at + 5) >= sizeof device->mig) return false;
    (void)snprintf(device->mig, sizeof device->mig, "%s", at + 5);
    return true;
}

static struct result look_part(struct devices *devices, const struct device *whole, nvml_device handle, struct error *err)
{
    struct device part = {.minor = whole->minor};
    const struct nvml *nvml = &devices->nvml;

    TRY(describe(nvml, handle, "MIG-", &part, err));
    TRY(check(nvml->gpu_instance(handle, &part.gpu_instance), "the GPU instance", err));
    TRY(check(nvml->compute_instance(handle, &part.compute_instance), "the compute instance", err));
    (void)snprintf(part.parent, sizeof part.parent, "%.47s", whole->uuid);
    return devices_take_profile(&part) ? add(devices, handle, &part, err) : SUCCESS; /* nobody can ask for it */
}

/* If an index has no part, the driver answers that there is none. A part that the driver does not describe in full is not given: drivers before 470 have UUIDs of
 * another form for them. */
static struct result look_parts(struct devices *devices, const struct device *whole, nvml_device handle, struct error *err)
{
    unsigned count = 0;

    if (!whole->is_sliced || devices->nvml.part_count(handle, &count) != 0) return SUCCESS;
    for (unsigned at = 0; at < count; at++) {
        nvml_device part = NULL;
        struct error why = {0};
        if (devices->nvml.part(handle, at, &part) != 0) continue;
        if (!look_part(devices, whole, part, &why).ok && why.kind != ERROR_UNAVAILABLE)
            return failure(err, why.kind, "%s", why.message);
    }
    return SUCCESS;
}

static struct result look(struct devices *devices, unsigned at, struct error *err)
{
    struct device device = {.minor = 0};
    const struct nvml *nvml = &devices->nvml;
    nvml_device handle = NULL;

    TRY(check(nvml->handle(at, &handle), "the handle", err));
    TRY(describe(nvml, handle, "GPU-", &device, err));
    TRY(check(nvml->minor(handle, &device.minor), "the number", err));
    device.is_sliced = is_sliced(nvml, handle);
    TRY(add(devices, handle, &device, err));
    return look_parts(devices, &device, handle, err);
}

struct result devices_open(const char *library, struct devices **devices_out, struct error *err)
{
    OWNED(devices) *devices = memory_zeroed(1, sizeof *devices);
    unsigned count = 0;

    if (devices == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the list of devices");
    TRY(nvml_open(library, &devices->nvml, err));
    nvml_path(&devices->nvml, devices->library, sizeof devices->library);
    TRY(check(devices->nvml.count(&count), "the number", err));
    for (unsigned at = 0; at < count; at++) TRY(look(devices, at, err));
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

void devices_sample(struct devices *devices, const struct device_grant *grant)
{
    if (devices->is_declared) return; /* a pod tells */
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
