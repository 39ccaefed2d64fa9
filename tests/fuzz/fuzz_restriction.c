/* Restrictions of strangers: each that is read is about an organisation alone, and says by its form that it only restricts. */
#include <assert.h>
#include <string.h>

#include "base/json.h"
#include "documents/format/restriction.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    OWNED(document) *document = NULL;
    const json_t *policy = NULL;
    struct error err = {0};

    if (!document_read_payload(DOCUMENT_RESTRICTION, (struct bytes){data, size}, &document, &err).ok) return 0;
    if (document->is_withdrawn || !restriction_read(document, &policy, &err).ok) return 0;
    const json_t *rules = json_object_get(policy, "rules"),
                 *scopes = json_object_get(json_object_get(policy, "metadata"), "scope");
    const size_t length = strlen(document->scope);
    assert(length > 0 && strchr(document->scope, '/') == NULL && document->expires_ms == 0);
    assert(json_is_false(json_object_get(policy, "closed")) && json_object_get(policy, "labels") == NULL);
    for (size_t i = 0; i < json_array_size(rules); i++)
        assert(strcmp(json_text_of(json_array_get(rules, i), "effect"), "permit") != 0);
    for (size_t i = 0; i < json_array_size(scopes); i++) {
        const char *scope = json_string_value(json_array_get(scopes, i));
        assert(strncmp(scope, document->scope, length) == 0 && scope[length] == '/');
    }
    return 0;
}
