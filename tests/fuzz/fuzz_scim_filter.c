/* Filters and paths of strangers: what is read has at most so many comparisons, each with a text that has an end. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "scim/filter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_filter(const char *text)
{
    struct scim_filter filter;
    struct error err = {0};

    if (!scim_filter_read(text, &filter, &err).ok) {
        const char *sentence = NULL;
        assert(err.kind == ERROR_NO_MEMORY || scim_error_type(err.message, &sentence) != NULL);
        return;
    }
    assert(filter.count >= 1 && filter.count <= SCIM_TERMS_MAX);
    for (size_t i = 0; i < filter.count; i++) {
        assert(filter.terms[i].attribute != SCIM_NOT_KEPT && filter.terms[i].attribute != SCIM_READ_ONLY);
        assert(strlen(filter.terms[i].text) <= SCIM_NAME_MAX);
    }
}

static void check_path(const char *text)
{
    struct scim_path path;
    struct error err = {0};

    if (!scim_path_read(text, &path, &err).ok) return;
    assert(!path.has_value || path.attribute == SCIM_MEMBERS);
    assert(strlen(path.value) <= SCIM_NAME_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = memory_zeroed(size + 1, 1);

    if (text == NULL) return 0;
    if (size > 0) memcpy(text, data, size);
    check_filter(text);
    check_path(text);
    free(text);
    return 0;
}
