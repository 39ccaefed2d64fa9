/* Sinks and detection rules as people write them, and what the registry answers about one: from each that is accepted a document follows that the registry accepts. */
#include <assert.h>
#include <string.h>

#include "client/commands/log_document_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_kind(const struct log_document_kind *kind, struct bytes text)
{
    struct buffer OWNED_BUFFER payload = BUFFER((size_t)16 * 1024);
    OWNED_LOG_DOCUMENT written = {.name = NULL};
    OWNED(document) *document = NULL;
    struct error err = {0};

    if (!log_document_parse(kind, text, &written, &err).ok) return;
    assert(written.name != NULL && json_is_object(written.body));
    if (!log_document_compose(kind, &written, 3, &payload, &err).ok) return;
    assert(document_read_payload(kind->kind, buffer_bytes(&payload), &document, &err).ok && document->version == 3);
    assert(strcmp(document->name, written.name) == 0 && document_check_body(document, &err).ok);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    try_kind(&log_document_sink, (struct bytes){data, size});
    try_kind(&log_document_detection, (struct bytes){data, size});
    return 0;
}
