/* Documents of persons of strangers: each that is read names an issuer and subjects by their hashes, for one organisation or the registry. */
#include <assert.h>
#include <string.h>

#include "base/text.h"
#include "documents/format/persons.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    OWNED(document) *document = NULL;
    struct persons_rule rule;
    struct error err = {0};

    if (!document_read_payload(DOCUMENT_PERSONS, (struct bytes){data, size}, &document, &err).ok) return 0;
    if (document->is_withdrawn || !persons_rule_read(document, &rule, &err).ok) return 0;
    assert(document->scope[0] == '\0' && document->expires_ms > document->effective_ms);
    assert(document->name[0] != '_' || strcmp(document->name, PERSONS_REGISTRY) == 0);
    assert(strncmp(rule.issuer, "https://", 8) == 0 && rule.separate_count <= PERSONS_SEPARATE_MAX);
    assert(rule.tokens.lifetime_max_s == 0 ||
           (rule.tokens.lifetime_max_s >= PERSONS_LIFETIME_MIN && rule.tokens.lifetime_max_s <= PERSONS_LIFETIME_MAX));
    for (size_t i = 0; i < rule.separate_count; i++) assert(strlen(rule.separate[i]) == PERSONS_SEPARATE_KEY);
    return 0;
}
