#include "gateway/pipeline/route.h"

#include <stdlib.h>
#include <string.h>

#include "gateway/http/path.h"

struct result target_none(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)request, (void)lookup, (void)err;
    abort();
}

bool route_has_action(const struct route *route, enum action action)
{
    for (size_t i = 1; i <= route->action_count; i++)
        if (route->actions[i] == action) return true;
    return false;
}

#define PATTERN_SEGMENTS_MAX 12 /* the longest pattern has eight */

struct shape {
    size_t count;
    struct bytes segments[PATTERN_SEGMENTS_MAX];
};

static struct shape shape_of(const char *pattern)
{
    struct shape shape = {0};

    for (const char *at = pattern; *at == '/' && shape.count < PATTERN_SEGMENTS_MAX;) {
        const size_t length = strcspn(++at, "/");
        shape.segments[shape.count++] = (struct bytes){(const uint8_t *)at, length};
        at += length;
    }
    return shape;
}

static bool is_name(struct bytes segment)
{
    return bytes_equal(segment, bytes_of_text("{name}"));
}

/* Matches one segment of the pattern against one of the path. */
static bool segment_fits(struct bytes wanted, const char *segment, const char **reference)
{
    if (!bytes_equal(wanted, bytes_of_text("{reference}"))) return bytes_equal(wanted, bytes_of_text(segment));
    if (segment[0] == '\0' || strchr(segment, '/') != NULL) return false;
    *reference = segment;
    return true;
}

struct fit {
    size_t name_first, name_count; /* the segments that {name} takes */
    const char *reference;
};

static bool path_fits(const struct shape *shape, const struct path *path, struct fit *fit)
{
    size_t before = 0;

    while (before < shape->count && !is_name(shape->segments[before])) before++;
    const size_t after = before == shape->count ? 0 : shape->count - before - 1;
    const bool has_name = before < shape->count;
    if (has_name ? path->count <= before + after : path->count != before) return false;
    if (has_name && path->segments[path->count - after - 1][0] == '\0') return false; /* no name ends with a slash */

    for (size_t i = 0; i < after; i++)
        if (!segment_fits(shape->segments[shape->count - 1 - i], path->segments[path->count - 1 - i], &fit->reference))
            return false;
    for (size_t i = 0; i < before; i++)
        if (!segment_fits(shape->segments[i], path->segments[i], &fit->reference)) return false;
    fit->name_first = before;
    fit->name_count = has_name ? path->count - before - after : 0;
    return true;
}

#define NAME_SIZE_MAX 8192 /* of a path within the limits of http_check() */

static struct result join_name(const struct path *path, const struct fit *fit, struct arena *arena, const char **name_out,
                               struct error *err)
{
    struct buffer OWNED_BUFFER name = BUFFER(NAME_SIZE_MAX);

    for (size_t i = 0; i < fit->name_count; i++)
        TRY(buffer_format(&name, err, "%s%s", i == 0 ? "" : "/", path->segments[fit->name_first + i]));
    const char *copy = fit->name_count == 0 ? NULL : arena_copy_text(arena, buffer_bytes(&name));
    if (fit->name_count > 0 && copy == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a name");
    *name_out = copy;
    return SUCCESS;
}

struct result route_find(const struct route_table *table, const struct path *path, enum method method, struct arena *arena,
                         struct route_match *match_out, struct error *err)
{
    struct route_match match = {.answer = ROUTE_UNKNOWN};

    for (size_t i = 0; i < table->count; i++) {
        const struct route *row = &table->rows[i];
        const struct shape shape = shape_of(row->pattern);
        struct fit fit = {0};
        if (!path_fits(&shape, path, &fit)) continue;
        match.methods |= row->methods;
        match.answer = ROUTE_METHOD;
        if ((row->methods & METHOD_BIT(method)) == 0) continue;
        match = (struct route_match){.answer = ROUTE_FOUND, .route = row, .reference = fit.reference};
        TRY(join_name(path, &fit, arena, &match.name, err));
        break;
    }
    *match_out = match;
    return SUCCESS;
}
