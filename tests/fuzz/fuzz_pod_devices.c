/* What a pod tells of its devices: only what was asked for is taken, and a text that is taken can be shown. */
#include <assert.h>
#include <string.h>

#include "base/text.h"
#include "runner/devices/declared.h"
#include "runner/talk/talk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_taken(const struct devices *devices, const struct device_grant *grant, const struct run_devices *request)
{
    for (size_t i = 0; i < grant->count; i++) {
        const struct device *device = devices_at(devices, grant->which[i]);
        assert(strlen(device->uuid) < DEVICE_UUID_SIZE && (device->uuid[0] == 'G' || device->uuid[0] == 'M'));
        assert(text_is_visible(bytes_of_text(device->type)) && text_is_visible(bytes_of_text(device->driver)));
        assert(device->memory_bytes >= request->memory_bytes && device->use_percent <= 100);
        for (size_t j = 0; j < i; j++) assert(strcmp(device->uuid, devices_at(devices, grant->which[j])->uuid) != 0);
    }
    json_t *shown = devices_json(devices, grant);
    assert(shown != NULL && json_array_size(shown) == grant->count);
    json_decref(shown);
}

/* The first byte chooses what is asked for; the rest are texts. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct talk_message message;
    struct declared_devices declared = {.count = 0};
    struct device_grant grant;
    struct error err = {0};
    OWNED(devices) *devices = NULL;

    if (size < 1 || size > TALK_MESSAGE_MAX) return 0;
    struct run_devices request = {.count = 1 + data[0] % 2, .memory_bytes = 1 << 20, .type = "H200"};
    if ((data[0] & 4) != 0) memcpy(request.mig, "1g.18gb", sizeof "1g.18gb");
    assert(declared_add(&declared, "nvidia.com/gpu=2:150754820096:NVIDIA H200") == NULL);
    assert(declared_add(&declared, "nvidia.com/mig-1g.18gb=2:19327352832:NVIDIA H200 MIG 1g.18gb") == NULL);
    if (!declared_open(&declared, &devices, &err).ok) return 0;
    assert(devices_grant(devices, &request, "", &grant, &err).ok);
    message.content = BUFFER(TALK_MESSAGE_MAX);
    if (buffer_add(&message.content, data + 1, size - 1, &err).ok && talk_texts(&message, 0, &err).ok) {
        declared_take_use(devices, &grant, message.texts, message.count);
        if (declared_take_seen(devices, &grant, &request, message.texts, message.count, &err).ok) {
            declared_take_use(devices, &grant, message.texts, message.count);
            check_taken(devices, &grant, &request);
        }
    }
    buffer_done(&message.content);
    return 0;
}
