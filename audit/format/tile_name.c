/* Reads what follows "tile/" in a path below the log's prefix. */
#include <string.h>

#include "audit/format/tile.h"
#include "base/text.h"

#define GROUPS_MAX 7  /* of three digits: more than 64 bits */
#define LEVEL_MAX  63 /* that the format knows; no log fills a tile above TILE_LEVEL_MAX */

static bool read_level(const char *at, size_t length, struct tile_name *name)
{
    uint64_t level = 0;

    if (length == strlen("entries") && memcmp(at, "entries", length) == 0) {
        name->is_entries = true;
        return true;
    }
    if (!text_to_u64((struct bytes){(const uint8_t *)at, length}, LEVEL_MAX, &level)) return false;
    name->level = (unsigned)level;
    return true;
}

/* "x001/x234/067" and what follows it. The result is NULL for another form. */
static const char *read_index(const char *at, uint64_t *index_out)
{
    uint64_t index = 0;

    for (unsigned groups = 0; groups < GROUPS_MAX; groups++) {
        uint64_t group = 0;
        const bool goes_on = at[0] == 'x';
        if (goes_on) at++;
        const size_t length = strspn(at, "0123456789");
        if (length != 3) return NULL;
        for (size_t i = 0; i < length; i++) group = group * 10 + (uint64_t)(at[i] - '0');
        if (index > (UINT64_MAX - group) / 1000) return NULL;
        index = index * 1000 + group;
        at += length;
        if (!goes_on) {
            *index_out = index;
            return at;
        }
        if (*at++ != '/') return NULL;
    }
    return NULL;
}

static bool read_width(const char *at, struct tile_name *name)
{
    static const char part[] = ".p/";
    uint64_t width = 0;

    name->width = TILE_WIDTH;
    if (*at == '\0') return true;
    if (strncmp(at, part, sizeof part - 1) != 0) return false;
    if (!text_to_u64(bytes_of_text(at + sizeof part - 1), TILE_WIDTH - 1, &width) || width == 0) return false;
    name->width = (unsigned)width;
    return true;
}

struct result tile_name_read(const char *path, struct tile_name *name_out, struct error *err)
{
    static const char wrong[] =
        "a tile is called LEVEL/N or entries/N, where N is 000 or x001/234 and so on, with .p/WIDTH if it is partial";
    const size_t level_length = strcspn(path, "/");
    struct tile_name name = {0};
    char again[TILE_PATH_MAX];

    if (path[level_length] != '/' || !read_level(path, level_length, &name)) return failure(err, ERROR_INVALID, "%s", wrong);
    const char *rest = read_index(path + level_length + 1, &name.index);
    if (rest == NULL || !read_width(rest, &name)) return failure(err, ERROR_INVALID, "%s", wrong);
    tile_name_write(&name, again);
    if (strcmp(again + strlen("tile/"), path) != 0) return failure(err, ERROR_INVALID, "%s", wrong); /* another spelling */
    *name_out = name;
    return SUCCESS;
}

void tile_name_write(const struct tile_name *name, char path_out[TILE_PATH_MAX])
{
    const unsigned width = name->width == TILE_WIDTH ? 0 : name->width;

    if (name->is_entries) tile_entries_path(name->index, width, path_out);
    else tile_path(name->level, name->index, width, path_out);
}

unsigned tile_name_available(const struct tile_name *name, uint64_t size)
{
    const unsigned level = name->is_entries ? 0 : name->level;

    if (name->index < tile_full_count(size, level)) return TILE_WIDTH;
    return name->index == tile_full_count(size, level) ? tile_partial_width(size, level) : 0;
}
