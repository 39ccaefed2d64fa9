#include "runner/devices/devices.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
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

/* The UUID goes into an environment and a report: the driver's own form, "GPU-" or "MIG-" and hex digits with hyphens. */
static bool is_uuid(const char *text, const char *kind)
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
    if (!is_uuid(device->uuid, kind)) return failure(err, ERROR_UNAVAILABLE, "the driver tells a UUID of an unknown form");
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

/* The driver's name of a part ends with its profile: "NVIDIA H100 80GB HBM3 MIG 1g.10gb". False: of an unknown form. */
static bool take_profile(struct device *device)
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
    return take_profile(&part) ? add(devices, handle, &part, err) : SUCCESS; /* nobody can ask for it */
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

static enum device_isolation isolation_of(const struct device *device)
{
    if (device->mig[0] == '\0') return DEVICE_WHOLE;
    return strstr(device->mig, "c.") == NULL ? DEVICE_GPU_INSTANCE : DEVICE_COMPUTE_INSTANCE; /* 1c.3g.40gb */
}

static bool fits(const struct device *device, const struct run_devices *request)
{
    return !device->is_sliced && strcmp(device->mig, request->mig) == 0 && device->memory_bytes >= request->memory_bytes &&
           form_is_of_type(device->type, request->type);
}

/* ---- nodes ---- */

static struct result add_node(struct device_grant *grant, const char *folder, const char *name, bool is_needed, struct error *err)
{
    char *path = grant->nodes[grant->node_count];
    struct stat about;

    (void)snprintf(path, DEVICE_PATH_SIZE, "%.200s/%s", folder, name);
    for (size_t i = 0; i < grant->node_count; i++)
        if (strcmp(grant->nodes[i], path) == 0)
            return SUCCESS; /* of another part of the same device, or of the same GPU instance */
    if (stat(path, &about) == 0 && S_ISCHR(about.st_mode)) grant->node_count++;
    else if (is_needed) return failure(err, ERROR_DENIED, "a device is granted, and its node %.200s is not there", path);
    return SUCCESS;
}

/* The file says `DeviceFileMinor: 12`, among other lines. */
static struct result read_capability(const char *path, unsigned *minor_out, struct error *err)
{
    static const char label[] = "DeviceFileMinor: ";
    uint8_t text[256] = {0}; /* three short lines */
    size_t length = 0;
    uint64_t minor = 0;
    OWNED_FD fd = -1;

    TRY(file_open(path, O_RDONLY, 0, &fd, err));
    TRY(file_read_some(fd, text, sizeof text - 1, 0, &length, err));
    const char *at = strstr((const char *)text, label);
    if (at != NULL) at += sizeof label - 1;
    if (at == NULL || !text_to_u64((struct bytes){(const uint8_t *)at, strcspn(at, "\n")}, UINT16_MAX, &minor))
        return failure(err, ERROR_UNAVAILABLE, "%.200s does not name a node", path);
    *minor_out = (unsigned)minor;
    return SUCCESS;
}

static struct result add_capability(const char *folder, const struct device *part, bool is_compute, struct device_grant *grant,
                                    struct error *err)
{
    const bool is_usual = strcmp(folder, DEVICES_FOLDER) == 0;
    char path[DEVICE_PATH_SIZE], compute[32] = "", name[48];
    struct error why = {0};
    unsigned minor = 0;

    if (is_compute) (void)snprintf(compute, sizeof compute, "/ci%u", part->compute_instance);
    (void)snprintf(path, sizeof path, "%.150s%s/gpu%u/mig/gi%u%s/access", is_usual ? "/proc/driver/nvidia" : folder,
                   "/capabilities", part->minor, part->gpu_instance, compute);
    if (!read_capability(path, &minor, &why).ok)
        return failure(err, ERROR_DENIED, "a part of a device is granted, and its access is not known: %.160s", why.message);
    (void)snprintf(name, sizeof name, "nvidia-caps/nvidia-cap%u", minor);
    return add_node(grant, folder, name, true, err);
}

static struct result add_nodes(const struct devices *devices, const char *folder, struct device_grant *grant, struct error *err)
{
    char name[32]; /* a number */

    grant->folder_length = strlen(folder);
    for (size_t i = 0; i < grant->count; i++) {
        const struct device *device = &devices->devices[grant->which[i]];
        const size_t length = strlen(grant->visible);
        (void)snprintf(name, sizeof name, "nvidia%u", device->minor);
        TRY(add_node(grant, folder, name, true, err));
        (void)snprintf(grant->visible + length, sizeof grant->visible - length, "%s%s", i == 0 ? "" : ",", device->uuid);
        if (device->mig[0] == '\0') continue;
        TRY(add_capability(folder, device, false, grant, err));
        TRY(add_capability(folder, device, true, grant, err));
    }
    TRY(add_node(grant, folder, "nvidiactl", true, err));
    TRY(add_node(grant, folder, "nvidia-uvm", false, err));
    return add_node(grant, folder, "nvidia-uvm-tools", false, err);
}

/* ---- the choice ---- */

static struct result refuse(const struct devices *devices, const struct run_devices *request, size_t fitting, bool has_taken,
                            struct error *err)
{
    const char *type = request->type, *mig = request->mig;

    return failure(err, ERROR_DENIED,
                   "%lld devices%s%s%s%s with %lld MiB each are asked for; this machine has %zu devices, and %zu fit%s",
                   (long long)request->count, type[0] == '\0' ? "" : " ", type, mig[0] == '\0' ? "" : " of the MIG profile ", mig,
                   (long long)request->memory_bytes >> 20, devices->count, fitting, has_taken ? "; others are in use" : "");
}

struct result devices_grant(const struct devices *devices, const struct run_devices *request, const char *folder,
                            struct device_grant *grant_out, struct error *err)
{
    struct device_grant grant = {0};
    size_t fitting = 0, taken = 0;

    for (size_t i = 0; i < devices->count; i++) {
        if (!fits(&devices->devices[i], request)) continue;
        if (devices->is_taken[i]) {
            taken++;
            continue;
        }
        fitting++;
        if ((int64_t)grant.count < request->count) grant.which[grant.count++] = i;
    }
    if ((int64_t)grant.count < request->count) return refuse(devices, request, fitting, taken > 0, err);
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

static bool add_part(json_t *json, const struct device *device)
{
    if (device->mig[0] == '\0') return true;
    return json_object_set_new(json, "mig", json_string(device->mig)) == 0 &&
           json_object_set_new(json, "part_of", json_string(device->parent)) == 0;
}

static json_t *device_json(const struct device *device)
{
    static const char *const isolations[] = {"device", "gpu-instance", "compute-instance"};
    OWNED_JSON json =
        json_pack("{s:s s:s s:s s:s s:I s:I s:I}", "uuid", device->uuid, "type", device->type, "driver", device->driver,
                  "isolation", isolations[isolation_of(device)], "memory_bytes", (json_int_t)device->memory_bytes,
                  "utilisation_percent", (json_int_t)device->use_percent, "memory_in_use", (json_int_t)device->memory_in_use);

    return json != NULL && add_part(json, device) ? GIVE(json) : NULL;
}

json_t *devices_json(const struct devices *devices, const struct device_grant *grant)
{
    OWNED_JSON list = json_array();

    for (size_t i = 0; i < grant->count && list != NULL; i++)
        if (json_array_append_new(list, device_json(&devices->devices[grant->which[i]])) != 0) return NULL;
    return GIVE(list);
}
