/* A batch as CloudEvents 1.0 in JSON (application/cloudevents-batch+json), and the head of the answer. */
#include <inttypes.h>
#include <stdio.h>
#include <strings.h>

#include "base/clock.h"
#include "base/text.h"
#include "delivery/peer_priv.h"

#define RETRY_AFTER        "retry-after:"
#define RETRY_AFTER_LENGTH (sizeof RETRY_AFTER - 1)

/* Source and id name an event for ever, so a receiver knows what it has already. */
static struct result write_event(const struct delivery_batch *batch, size_t index, const char *origin, struct buffer *body,
                                 struct error *err)
{
    const struct delivery_message *message = &batch->messages[index];
    const struct bytes data = delivery_batch_text(batch, index);
    char time[CLOCK_TEXT_SIZE];

    clock_format(message->time_ms, time);
    TRY(buffer_format(body, err, "%s{\"data\":", index == 0 ? "" : ","));
    TRY(buffer_add(body, data.data, data.length, err));
    return buffer_format(body, err,
                         ",\"datacontenttype\":\"application/json\",\"id\":\"%" PRIu64 "\",\"sequence\":\"%020" PRIu64
                         "\",\"source\":\"//%s\",\"specversion\":\"1.0\",\"time\":\"%s\",\"type\":\"%s\"}",
                         message->first, message->first, origin, time,
                         message->is_withheld ? "sijil.audit.withheld" : "sijil.audit.event");
}

struct result cloud_events_write(const struct delivery_batch *batch, const char *origin, struct buffer *body, struct error *err)
{
    TRY(buffer_add_u8(body, '[', err));
    for (size_t i = 0; i < batch->count; i++) TRY(write_event(batch, i, origin, body, err));
    return buffer_add_u8(body, ']', err);
}

unsigned retry_after_of(struct bytes line)
{
    uint64_t seconds = 0;

    if (line.length < RETRY_AFTER_LENGTH || strncasecmp((const char *)line.data, RETRY_AFTER, RETRY_AFTER_LENGTH) != 0) return 0;
    struct bytes value = {line.data + RETRY_AFTER_LENGTH, line.length - RETRY_AFTER_LENGTH};
    while (value.length > 0 && (value.data[0] == ' ' || value.data[0] == '\t')) value.data++, value.length--;
    while (value.length > 0 &&
           (value.data[value.length - 1] == '\r' || value.data[value.length - 1] == '\n' || value.data[value.length - 1] == ' '))
        value.length--;
    if (!text_to_u64(value, UINT32_MAX, &seconds)) return 0; /* a date, or nothing that we know: our own time counts */
    return seconds > PEER_WAIT_MAX_S ? PEER_WAIT_MAX_S : (unsigned)seconds;
}
