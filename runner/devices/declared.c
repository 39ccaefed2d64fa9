#include "runner/devices/declared.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "runner/devices/devices_priv.h"

#define RESOURCE_LETTERS "abcdefghijklmnopqrstuvwxyz0123456789./-"
#define BYTES_MAX        (INT64_C(1) << 53)
#define LINE_MAX_BYTES   63 /* of a result (docs/formats/run.md) */

/* ---- what is declared ---- */

/* The part of the text before the letter; *text then begins after it. False: there is no such letter, or the part has no room. */
static bool cut(const char **text, char letter, char *part_out, size_t size)
{
    const char *end = strchr(*text, letter);
    const size_t length = end == NULL ? 0 : (size_t)(end - *text);

    if (length == 0 || length >= size) return false;
    memcpy(part_out, *text, length);
    part_out[length] = '\0';
    *text = end + 1;
    return true;
}

static size_t total(const struct declared_devices *declared)
{
    int64_t count = 0;

    for (size_t i = 0; i < declared->count; i++) count += declared->kinds[i].count;
    return (size_t)count;
}

/* A part whose profile can't be read would be offered as a whole device, and no pod would ever have it. */
static bool has_known_profile(const char *type)
{
    struct device device = {.memory_bytes = 0};

    (void)snprintf(device.type, sizeof device.type, "%s", type);
    return strstr(type, " MIG ") == NULL || devices_take_profile(&device);
}

static bool is_resource(const char *resource)
{
    const char *slash = strchr(resource, '/');

    return text_consists_of(bytes_of_text(resource), RESOURCE_LETTERS) && slash != NULL && slash != resource &&
           slash[1] != '\0' && strchr(slash + 1, '/') == NULL;
}

#define WRONG(part, what) "--kubernetes-device RESOURCE=COUNT:BYTES:TYPE: " part " " what

static const char *take_kind(const char *text, struct declared_kind *kind)
{
    char number[24], bytes[24];
    uint64_t count = 0, memory = 0;

    if (!cut(&text, '=', kind->resource, RESOURCE_SIZE) || !is_resource(kind->resource))
        return WRONG("RESOURCE",
                     "is the cluster's name of the device, in small letters with one '/', and '=' follows: nvidia.com/gpu=8:...");
    if (!cut(&text, ':', number, sizeof number) || !text_to_u64(bytes_of_text(number), DEVICES_MAX, &count) || count == 0)
        return WRONG("COUNT", "is a number from 1 to 64, and ':' follows");
    if (!cut(&text, ':', bytes, sizeof bytes) || !text_to_u64(bytes_of_text(bytes), BYTES_MAX, &memory) || memory == 0)
        return WRONG("BYTES", "is the memory of each device in bytes, a number without a unit (150754820096), and ':' follows");
    if (text[0] == '\0' || strlen(text) >= DEVICE_TEXT_SIZE || !text_is_visible(bytes_of_text(text)))
        return WRONG("TYPE", "is the driver's name of the device, 1 to 63 visible bytes: NVIDIA H200");
    if (!has_known_profile(text))
        return WRONG("TYPE", "has a profile of MIG that is not known: NVIDIA H200 MIG 1g.18gb has a known one");
    kind->count = (int64_t)count;
    kind->memory_bytes = (int64_t)memory;
    memcpy(kind->type, text, strlen(text) + 1);
    return NULL;
}

const char *declared_add(struct declared_devices *declared, const char *text)
{
    if (declared->count == DECLARED_MAX) return "--kubernetes-device: there are at most 16";
    const char *wrong = take_kind(text, &declared->kinds[declared->count]);
    if (wrong != NULL) return wrong;
    declared->count++;
    return total(declared) <= DEVICES_MAX ? NULL : "--kubernetes-device: there are at most 64 devices";
}

/* Until a pod tells their UUIDs, devices have numbers, by which the serving process knows what is in use. */
static void add(struct devices *devices, const struct declared_devices *declared, size_t kind)
{
    for (int64_t i = 0; i < declared->kinds[kind].count && devices->count < DEVICES_MAX; i++) {
        struct device *device = &devices->devices[devices->count];
        memcpy(device->type, declared->kinds[kind].type, sizeof device->type);
        (void)snprintf(device->uuid, sizeof device->uuid, "declared-%zu-%lld", kind, (long long)i);
        device->memory_bytes = declared->kinds[kind].memory_bytes;
        if (strstr(device->type, " MIG ") != NULL) (void)devices_take_profile(device);
        devices->resources[devices->count++] = declared->kinds[kind].resource;
    }
}

struct result declared_open(const struct declared_devices *declared, struct devices **devices_out, struct error *err)
{
    struct devices *devices = memory_zeroed(1, sizeof *devices);

    if (devices == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the list of devices");
    devices->is_declared = true;
    for (size_t i = 0; i < declared->count; i++) add(devices, declared, i);
    *devices_out = devices;
    return SUCCESS;
}

const char *declared_resource(const struct devices *devices, size_t at)
{
    return devices->resources[at];
}

/* ---- what a pod tells ---- */

static bool take_text(char into[DEVICE_TEXT_SIZE], const char *text)
{
    const struct bytes bytes = bytes_of_text(text);

    if (bytes.length == 0 || bytes.length > LINE_MAX_BYTES || !text_is_visible(bytes)) return false;
    memcpy(into, text, bytes.length + 1);
    return true;
}

static bool read_seen(const char *const *texts, struct device *seen)
{
    uint64_t memory = 0;

    *seen = (struct device){.memory_bytes = 0};
    if (!devices_is_uuid(texts[0], "GPU-") && !devices_is_uuid(texts[0], "MIG-")) return false;
    if (!take_text(seen->uuid, texts[0]) || !take_text(seen->type, texts[1]) || !take_text(seen->driver, texts[3])) return false;
    if (!text_to_u64(bytes_of_text(texts[2]), BYTES_MAX, &memory)) return false;
    seen->memory_bytes = (int64_t)memory;
    return texts[0][0] != 'M' || devices_take_profile(seen);
}

static bool is_among(const struct device *seen, size_t count, const char *uuid)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(seen[i].uuid, uuid) == 0) return true;
    return false;
}

struct result declared_take_seen(struct devices *devices, const struct device_grant *grant, const struct run_devices *request,
                                 const char *const *texts, size_t count, struct error *err)
{
    struct device seen[DEVICES_MAX];
    const size_t told = count / SEEN_TEXTS;

    if (count >= 2 && texts[0][0] == '\0')
        return failure(err, ERROR_DENIED, "the pod can't tell which devices it has: %.160s", texts[1]);
    if (told != grant->count || count % SEEN_TEXTS != 0)
        return failure(err, ERROR_DENIED, "%zu devices are ordered, and the pod has %zu", grant->count, told);
    for (size_t i = 0; i < told; i++) {
        if (!read_seen(texts + i * SEEN_TEXTS, &seen[i]) || is_among(seen, i, seen[i].uuid))
            return failure(err, ERROR_DENIED, "the pod tells a device of an unknown form, or one twice");
        if (!devices_fit(&seen[i], request))
            return failure(err, ERROR_DENIED, "the pod has the device %.90s with %lld MiB, which is not what was ordered",
                           seen[i].type, (long long)seen[i].memory_bytes >> 20);
    }
    for (size_t i = 0; i < told; i++) devices->devices[grant->which[i]] = seen[i];
    return SUCCESS;
}

void declared_take_use(struct devices *devices, const struct device_grant *grant, const char *const *texts, size_t count)
{
    uint64_t percent = 0, memory = 0;

    for (size_t i = 0; i < grant->count && (i + 1) * SEEN_USE_TEXTS <= count; i++) {
        struct device *device = &devices->devices[grant->which[i]];
        if (!text_to_u64(bytes_of_text(texts[i * SEEN_USE_TEXTS]), 100, &percent) ||
            !text_to_u64(bytes_of_text(texts[i * SEEN_USE_TEXTS + 1]), BYTES_MAX, &memory))
            return;
        if ((int64_t)percent > device->use_percent) device->use_percent = (int64_t)percent;
        if ((int64_t)memory > device->memory_in_use) device->memory_in_use = (int64_t)memory;
    }
}
