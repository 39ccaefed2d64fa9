/* Sinks of strangers: each that is read goes to one address of its transport, for at least one class, and hides known parts only. */
#include <assert.h>
#include <string.h>

#include "documents/format/audit_sink.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_address(const struct audit_sink *sink)
{
    assert(sink->address[0] != '\0' && strlen(sink->address) <= AUDIT_SINK_ADDRESS_MAX);
    if (sink->transport == SINK_WEBHOOK) assert(strncmp(sink->address, "https://", 8) == 0 && strchr(sink->address, '@') == NULL);
    if (sink->transport == SINK_FILE) assert(strchr(sink->address, '/') == NULL && sink->address[0] != '.');
    if (sink->transport == SINK_SYSLOG) assert(strchr(sink->address, '/') == NULL && strchr(sink->address, ':') != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    OWNED(document) *document = NULL;
    struct audit_sink sink;
    struct error err = {0};

    if (!document_read_payload(DOCUMENT_AUDIT_SINK, (struct bytes){data, size}, &document, &err).ok) return 0;
    if (document->is_withdrawn || !audit_sink_read(document, &sink, &err).ok) return 0;
    check_address(&sink);
    assert(sink.classes != 0 && sink.classes < 1U << SINK_CLASS_COUNT && document->scope[0] == '\0' && document->expires_ms > 0);
    for (size_t i = 0; i < SINK_CLASS_COUNT; i++) assert(sink.hides[i] < 1U << SINK_FIELD_COUNT);
    assert(sink.purpose == NULL || sink.purpose[0] != '\0');
    return 0;
}
