/* A request target as received: split, decoded once, matched. An accepted path must not contain forbidden characters. */
#include <assert.h>
#include <string.h>

#include "gateway/http/path.h"
#include "gateway/routes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A segment is the text between two slashes; below PATH_WITH_SLASHES it may hold more of these. */
static void check_slashes(const struct path *path, size_t at)
{
    const char *segment = path->segments[at];

    if (strchr(segment, '/') == NULL) return;
    assert(at >= 3 && strcmp(path->segments[0], "api") == 0 && strcmp(path->segments[1], "v1") == 0);
    assert(strcmp(path->segments[2], "repositories") == 0);
    assert(segment[0] != '/' && segment[strlen(segment) - 1] != '/' && strstr(segment, "//") == NULL);
    assert(strncmp(segment, "./", 2) != 0 && strncmp(segment, "../", 3) != 0 && strstr(segment, "/./") == NULL);
    assert(strstr(segment, "/../") == NULL);
    const char *last = strrchr(segment, '/');
    assert(strcmp(last, "/.") != 0 && strcmp(last, "/..") != 0);
}

static void check(const struct path *path)
{
    assert(path->count > 0 && path->count <= PATH_SEGMENTS_MAX);
    for (size_t i = 0; i < path->count; i++) {
        const char *segment = path->segments[i];
        check_slashes(path, i);
        assert(strpbrk(segment, "\\%?# \r\n") == NULL);
        assert(strcmp(segment, "..") != 0 && strcmp(segment, ".") != 0);
        assert(segment[0] != '\0' || i + 1 == path->count);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    OWNED(arena) *arena = NULL;
    struct bytes path, query;
    struct path split;
    struct route_match match;
    struct error err;

    if (!arena_new((size_t)1 << 20, &arena, &err).ok || !request_target_split((struct bytes){data, size}, &path, &query))
        return 0;
    if (!path_split(path, arena, &split, &err).ok) return 0;
    check(&split);
    for (int method = 0; method < METHOD_COUNT; method++)
        if (route_find(&route_table, &split, (enum method)method, arena, &match, &err).ok && match.name != NULL)
            assert(match.name[0] != '\0' && match.name[0] != '/' &&
                   (match.reference == NULL || strchr(match.reference, '/') == NULL));
    return 0;
}
