/* References that `sijil` gets from a person or a script, and names of files that it gets from a registry. */
#include <assert.h>
#include <string.h>

#include "base/json.h"
#include "base/memory.h"
#include "client/layout.h"
#include "client/reference.h"
#include "registry/names/reference.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_reference(const char *text)
{
    struct remote_reference reference;
    struct repository_name name;
    struct error err = {0};

    if (!remote_reference_parse(text, &reference, &err).ok) {
        assert(err.kind == ERROR_INVALID || err.kind == ERROR_LIMIT);
        return;
    }
    assert(reference.host[0] != '\0' && strpbrk(reference.host, "/@ \r\n") == NULL);
    assert(repository_name_split(bytes_of_text(reference.repository), &name, &err).ok);
    assert(strpbrk(reference.reference, "/? \r\n") == NULL && reference.reference[0] != '\0');
}

static void check_title(const char *text)
{
    char title[1024];
    struct error err = {0};

    if (title_is_safe(text)) assert(text[0] != '/' && strstr(text, "/../") == NULL && strncmp(text, "../", 3) != 0);
    if (layer_title(text, title, sizeof title, &err).ok) assert(title_is_safe(title));
    assert(layer_media_type(text, false) != NULL);
}

static void check_pair(const char *one, const char *other)
{
    const size_t length = strlen(one);

    assert(strncmp(one, other, length) != 0 || (other[length] != '\0' && other[length] != '/'));
}

/* Each line is the title of a layer: what is accepted can be files of one folder. */
static void check_layers(const char *text)
{
    OWNED_JSON layers = json_array();
    struct error err = {0};

    for (const char *line = text; line != NULL; line = strchr(line, '\n'), line = line == NULL ? NULL : line + 1) {
        json_t *title = json_stringn(line, strcspn(line, "\n"));
        if (title == NULL ||
            json_array_append_new(layers, json_pack("{s:{s:o}}", "annotations", "org.opencontainers.image.title", title)) != 0)
            return; /* no UTF-8 */
    }
    if (json_array_size(layers) > 100 || !titles_check_files(layers, &err).ok) return;
    for (size_t i = 0; i < json_array_size(layers); i++) {
        assert(title_is_safe(title_of_layer(json_array_get(layers, i))));
        for (size_t k = 0; k < json_array_size(layers); k++)
            if (k != i) check_pair(title_of_layer(json_array_get(layers, i)), title_of_layer(json_array_get(layers, k)));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = memory_zeroed(size + 1, 1);

    if (text == NULL) return 0;
    if (size > 0) memcpy(text, data, size);
    check_reference(text);
    check_title(text);
    check_layers(text);
    free(text);
    return 0;
}
