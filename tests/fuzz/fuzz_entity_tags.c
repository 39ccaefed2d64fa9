/*
 * If-Match and If-None-Match: a header that matches a tag strongly matches it weakly, and a header without the tag's letters does
 * not match it.
 */
#include <assert.h>
#include <string.h>

#include "base/memory.h"
#include "gateway/http/condition.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    OWNED_STRING text = memory_copy_text((const char *)data, size);

    if (text == NULL) return 0;
    const bool is_named = entity_tags_name(text, "\"sha256:ab\"", false),
               is_named_weakly = entity_tags_name(text, "\"sha256:ab\"", true);
    assert(is_named_weakly || !is_named);
    assert(!is_named_weakly || strcmp(text, "*") == 0 || strstr(text, "sha256:ab") != NULL);
    return 0;
}
