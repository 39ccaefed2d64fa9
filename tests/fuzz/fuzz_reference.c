/* Names and tags: an accepted name obeys the bounds on which all later code relies. */
#include <assert.h>
#include <string.h>

#include "registry/names/reference.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct bytes text = {data, size};
    struct repository_name name;
    struct error err;

    if (repository_name_split(text, &name, &err).ok) {
        assert(name.organisation.length + name.project.length + name.path.length + 2 == size && size <= 255);
        assert(memchr(name.organisation.data, '/', name.organisation.length) == NULL);
        assert(memchr(name.project.data, '/', name.project.length) == NULL);
        assert(memchr(data, '\0', size) == NULL && memchr(data, '%', size) == NULL);
    }
    if (tag_is_valid(text)) assert(size <= TAG_MAX && data[0] != '.' && data[0] != '-');
    return 0;
}
