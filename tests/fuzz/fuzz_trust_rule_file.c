/* Trust rules as people write them, and what the registry answers about one: from each that is accepted a document follows that the linter accepts. */
#include <assert.h>
#include <string.h>

#include "client/commands/ci_priv.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buffer OWNED_BUFFER payload = BUFFER(TRUST_RULE_BYTES_MAX);
    OWNED_CI_RULE rule = {.id = NULL};
    OWNED(document) *document = NULL;
    struct trust_rule read;
    struct error err = {0};

    if (!ci_rule_parse((struct bytes){data, size}, NULL, &rule, &err).ok) return 0;
    assert(rule.id != NULL && rule.scope != NULL && json_is_object(rule.body));
    if (!ci_rule_compose(&rule, 3, &payload, &err).ok) return 0;
    assert(document_read_payload(DOCUMENT_TRUST_RULE, buffer_bytes(&payload), &document, &err).ok && document->version == 3);
    assert(strcmp(document->name, rule.id) == 0 && strcmp(document->scope, rule.scope) == 0);
    assert(trust_rule_read(document, &read, &err).ok);
    return 0;
}
