/* SCIM services of strangers: each that is read names an issuer, a claim that does not change, a robot and a bound. */
#include <assert.h>
#include <string.h>

#include "documents/format/scim_service.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    OWNED(document) *document = NULL;
    struct scim_service service;
    struct error err = {0};

    if (!document_read_payload(DOCUMENT_SCIM_SERVICE, (struct bytes){data, size}, &document, &err).ok) return 0;
    if (document->is_withdrawn || !scim_service_read(document, &service, &err).ok) return 0;
    assert(document->scope[0] == '\0' && strncmp(service.issuer, "https://", 8) == 0 && claim_pointer_is_valid(service.claim));
    assert(strstr(service.claim, "/email") == NULL || strcmp(strrchr(service.claim, '/'), "/email") != 0);
    assert(strncmp(service.client, "robot:", 6) == 0 && service.ends_in_hour >= 1 && service.ends_in_hour <= SCIM_ENDS_MAX);
    return 0;
}
