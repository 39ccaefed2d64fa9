/*
 * delivery/message.h -- what leaves of one event: an event of OCSF 1.3, without what the sink's document leaves out (docs/delivery.md).
 */
#pragma once

#include "audit/format/leaf.h"
#include "documents/format/audit_sink.h"

#define DELIVERY_MESSAGE_MAX \
    ((size_t)128 * 1024) /* an entry in JSON, where each quote has a backslash, and a payload of a claim or two */

/** `payload`: the opened payload (JSON), or empty: names stay sealed. */
struct delivery_event {
    const struct audit_sink *sink;
    const char *origin; /* of the log */
    const struct leaf *leaf;
    struct bytes text; /* of the leaf */
    struct bytes payload;
};
/** Appends the event as one line of JSON. ERROR_LIMIT, ERROR_NO_MEMORY. */
RESULT delivery_message_write(const struct delivery_event *event, struct buffer *line, struct error *err);
/** Appends {"first":4711,"last":4713,"withheld":true}: nothing but the numbers of events leaves. */
RESULT delivery_withheld_write(uint64_t first, uint64_t last, struct buffer *line, struct error *err);
