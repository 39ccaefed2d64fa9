/* Documents of officers of strangers: each that is read names a principal, a key, and a role that its name has, on the registry or an organisation. */
#include <assert.h>
#include <string.h>

#include "documents/format/officers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    OWNED(document) *document = NULL;
    struct officer officer;
    struct error err = {0};

    if (!document_read_payload(DOCUMENT_OFFICERS, (struct bytes){data, size}, &document, &err).ok) return 0;
    if (document->is_withdrawn || !officer_read(document, &officer, &err).ok) return 0;
    assert(document->scope[0] == '\0' && document->expires_ms > document->effective_ms);
    assert(officer_document_is_of(document, officer.role) && strlen(officer.on) <= OFFICERS_PLACE_MAX);
    assert(strlen(officer.principal) < OFFICERS_PRINCIPAL_SIZE && strlen(officer.key) == ECDSA_THUMBPRINT_SIZE - 1);
    assert((officer.on[0] == '\0') != (strcmp(officer.role, "org-admin") == 0) || strcmp(officer.role, "security-officer") == 0);
    return 0;
}
