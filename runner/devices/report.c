/* Granted devices, as reports name them. */
#include "runner/devices/devices_priv.h"

#include <string.h>

static enum device_isolation isolation_of(const struct device *device)
{
    if (device->mig[0] == '\0') return DEVICE_WHOLE;
    return strstr(device->mig, "c.") == NULL ? DEVICE_GPU_INSTANCE : DEVICE_COMPUTE_INSTANCE; /* 1c.3g.40gb */
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
