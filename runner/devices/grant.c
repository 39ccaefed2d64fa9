/* The choice of devices for a run, and their nodes. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/text.h"
#include "runner/devices/devices_priv.h"
#include "training/format/form.h"

bool devices_fit(const struct device *device, const struct run_devices *request)
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

static bool is_of_another_resource(const struct devices *devices, const struct device_grant *grant, size_t at)
{
    return devices->is_declared && grant->count > 0 && strcmp(devices->resources[grant->which[0]], devices->resources[at]) != 0;
}

struct result devices_grant(const struct devices *devices, const struct run_devices *request, const char *folder,
                            struct device_grant *grant_out, struct error *err)
{
    struct device_grant grant = {0};
    size_t fitting = 0, taken = 0;

    for (size_t i = 0; i < devices->count; i++) {
        if (is_of_another_resource(devices, &grant, i)) {
            if ((int64_t)grant.count == request->count) break;
            grant.count = 0; /* all devices of a pod have one resource */
        }
        if (!devices_fit(&devices->devices[i], request)) continue;
        if (devices->is_taken[i]) {
            taken++;
            continue;
        }
        fitting++;
        if ((int64_t)grant.count < request->count) grant.which[grant.count++] = i;
    }
    if ((int64_t)grant.count < request->count) return refuse(devices, request, fitting, taken > 0, err);
    if (!devices->is_declared) TRY(add_nodes(devices, folder, &grant, err));
    (void)snprintf(grant.library, sizeof grant.library, "%s", devices->library);
    *grant_out = grant;
    return SUCCESS;
}
