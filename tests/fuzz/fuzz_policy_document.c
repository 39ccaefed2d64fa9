/* Policies: an accepted one is the same document after it was written canonically and read again. */
#include <assert.h>
#include <string.h>

#include "policy/document.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    OWNED(policy_document) *document = NULL;
    OWNED(policy_document) *again = NULL;
    OWNED_JSON json = NULL;
    struct buffer OWNED_BUFFER text = BUFFER(POLICY_DOCUMENT_BYTES_MAX);
    struct error err;

    if (!policy_document_read((struct bytes){data, size}, &document, &err).ok) return 0;
    assert(json_read((struct bytes){data, size}, POLICY_DOCUMENT_BYTES_MAX, &json, &err).ok);
    assert(json_write_canonical(&text, json, &err).ok);
    assert(policy_document_read(buffer_bytes(&text), &again, &err).ok);
    assert(strcmp(policy_document_digest(document), policy_document_digest(again)) == 0);
    assert(strcmp(policy_document_name(document), policy_document_name(again)) == 0);
    return 0;
}
