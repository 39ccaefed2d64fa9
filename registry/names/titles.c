#include "registry/names/titles.h"

#include <limits.h>
#include <string.h>
#include <strings.h>

#include "base/json.h"
#include "base/memory.h"
#include "base/terminal_text.h"

#define TITLE "org.opencontainers.image.title" /* image-spec 1.1, annotations.md */
#define PATH  "org.cncf.model.filepath"        /* model-spec v0.0.7 */

/* ModelPack's types for archives end with .tar and the like, and its tools unpack them. */
#define MODEL_TYPES "application/vnd.cncf.model."
#define RAW_ENDING  ".raw"

/* ---- one title ---- */

static bool part_is_safe(const char *part, size_t length)
{
    if (length == 0 || length > NAME_MAX) return false;
    return !(length == 1 && part[0] == '.') && !(length == 2 && part[0] == '.' && part[1] == '.');
}

bool title_is_path(const char *title)
{
    if (strlen(title) >= PATH_MAX / 4) return false;
    if (strchr(title, '\\') != NULL || !terminal_is_printable(title)) return false; /* a terminal would show another name */
    for (const char *part = title;; part++) {
        const size_t length = strcspn(part, "/");
        if (!part_is_safe(part, length)) return false;
        part += length;
        if (*part == '\0') return true;
    }
}

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), end_length = strlen(end);

    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

/* A layer with the name of a part file would be taken for the part file of another layer, and would vanish when the other layer
 * is complete. */
static bool is_part_file_name(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash == NULL ? path : slash + 1;
    const size_t length = strlen(name), end = strlen(PART_ENDING);

    return name[0] == '.' && length > end && strcmp(name + length - end, PART_ENDING) == 0;
}

bool title_is_safe(const char *title)
{
    return title_is_path(title) && !is_part_file_name(title);
}

const char *title_of_layer(const json_t *layer)
{
    const json_t *annotations = json_object_get(layer, "annotations");
    const char *title = json_text_of(annotations, TITLE);

    return title != NULL ? title : json_text_of(annotations, PATH);
}

/* ---- several ---- */

static void titles_done(const char ***titles)
{
    free((void *)*titles);
}
#define OWNED_TITLES __attribute__((cleanup(titles_done))) const char **

/* A slash is before all other letters, so what lies in a folder comes right behind the name of the folder. */
static int rank(char letter)
{
    if (letter == '\0') return 0;
    return letter == '/' ? 1 : (unsigned char)letter + 1;
}

static int by_folders(const void *a, const void *b)
{
    const char *one = *(const char *const *)a, *other = *(const char *const *)b;

    while (*one != '\0' && *one == *other) one++, other++;
    return rank(*one) - rank(*other);
}

static struct result check_neighbours(const char *one, const char *next, struct error *err)
{
    const size_t length = strlen(one);

    if (strncmp(one, next, length) != 0) return SUCCESS;
    if (next[length] == '\0') return failure(err, ERROR_INVALID, "two layers are called '%.100s'", one);
    if (next[length] != '/') return SUCCESS;
    return failure(err, ERROR_INVALID, "a layer is called '%.100s', and '%.100s' needs a folder of that name", one, next);
}

struct result titles_check_apart(const json_t *layers, struct error *err)
{
    const size_t most = json_array_size(layers);
    size_t count = 0;

    if (most == 0) return SUCCESS;
    OWNED_TITLES titles = (const char **)memory_zeroed(most, sizeof *titles);
    if (titles == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the titles of layers");
    for (size_t i = 0; i < most; i++) {
        titles[count] = title_of_layer(json_array_get(layers, i));
        if (titles[count] != NULL) count++;
    }
    qsort(titles, count, sizeof *titles, by_folders);
    for (size_t i = 1; i < count; i++) TRY(check_neighbours(titles[i - 1], titles[i], err));
    return SUCCESS;
}

/* ---- what every client reads alike ---- */

/* In any letters it is one of ModelPack's types; but its tools know the ending ".raw" in these letters alone. */
static bool is_archive(const char *media_type)
{
    return strncasecmp(media_type, MODEL_TYPES, strlen(MODEL_TYPES)) == 0 && !ends_with(media_type, RAW_ENDING);
}

/* With an annotation that this program does not know, a client may make another file of the layer, or unpack it. */
static struct result check_annotations(const json_t *annotations, const char *title, size_t number, struct error *err)
{
    const char *key;
    json_t *value;

    json_object_foreach ((json_t *)(uintptr_t)annotations, key, value) {
        const bool is_known = strcmp(key, TITLE) == 0 || strcmp(key, PATH) == 0;
        if (is_known && json_is_string(value) && strcmp(json_string_value(value), title) == 0) continue;
        if (is_known) return failure(err, ERROR_INVALID, "layer %zu has two titles", number);
        return failure(err, ERROR_INVALID, "layer %zu has an annotation that is neither its title nor the same as " PATH, number);
    }
    return SUCCESS;
}

static struct result check_layer(const json_t *layer, size_t number, struct error *err)
{
    const json_t *annotations = json_object_get(layer, "annotations");
    const char *title = json_text_of(annotations, TITLE), *media_type = json_text_of(layer, "mediaType");

    if (title == NULL)
        return failure(err, ERROR_INVALID, "the title of a layer is the file's path, and layer %zu has none", number);
    if (!title_is_safe(title))
        return failure(
            err, ERROR_INVALID,
            "the title of layer %zu is no path below a folder: relative, without '.', '..', '\\' or control characters", number);
    if (media_type != NULL && is_archive(media_type))
        return failure(err, ERROR_INVALID, "layer %zu is an archive by its type; each file is a layer", number);
    return check_annotations(annotations, title, number, err);
}

struct result titles_check_files(const json_t *layers, struct error *err)
{
    for (size_t i = 0; i < json_array_size(layers); i++) TRY(check_layer(json_array_get(layers, i), i + 1, err));
    return titles_check_apart(layers, err);
}
