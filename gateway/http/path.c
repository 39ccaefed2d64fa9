#include "gateway/http/path.h"

#include <string.h>

#include "gateway/http/percent.h"

static bool has_prefix(struct bytes text, const char *prefix)
{
    const size_t length = strlen(prefix);
    return text.length >= length && memcmp(text.data, prefix, length) == 0;
}

/* RFC 9112 section 3.2.2: a server must accept the absolute-form. Its authority is ignored; challenges use the Host header. */
static struct bytes without_authority(struct bytes target)
{
    size_t skip = has_prefix(target, "https://") ? 8 : has_prefix(target, "http://") ? 7 : 0;

    if (skip == 0) return target;
    while (skip < target.length && target.data[skip] != '/') skip++;
    return (struct bytes){target.data + skip, target.length - skip};
}

bool request_target_split(struct bytes request_target, struct bytes *path_out, struct bytes *query_out)
{
    const struct bytes origin = without_authority(request_target);
    if (origin.length == 0 || origin.data[0] != '/') return false;

    const uint8_t *mark = memchr(origin.data, '?', origin.length);
    const size_t length = mark == NULL ? origin.length : (size_t)(mark - origin.data);
    *path_out = (struct bytes){origin.data, length};
    *query_out = mark == NULL ? ((struct bytes){0}) : (struct bytes){mark + 1, origin.length - length - 1};
    return true;
}

/* pchar of RFC 3986, without the characters that only percent-encoding can produce. */
static bool is_plain(const char *segment)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~!$&'()*+,;=:@";
    return segment[strspn(segment, letters)] == '\0';
}

static struct result add_segment(struct bytes raw, bool is_last, struct arena *arena, struct path *path, struct error *err)
{
    const char *segment = NULL;

    if (path->count == PATH_SEGMENTS_MAX) return failure(err, ERROR_INVALID, "a path has at most %d segments", PATH_SEGMENTS_MAX);
    TRY(percent_decode(raw, false, arena, &segment, err));
    if (segment[0] == '\0' && !is_last) return failure(err, ERROR_INVALID, "a path has no empty segments");
    if (strcmp(segment, ".") == 0 || strcmp(segment, "..") == 0)
        return failure(err, ERROR_INVALID, "a path has no segments '.' and '..'");
    if (!is_plain(segment))
        return failure(err, ERROR_INVALID,
                       "a path may not hold slashes, spaces, control or other special characters, "
                       "also not percent-encoded");
    path->segments[path->count++] = segment;
    return SUCCESS;
}

struct result path_split(struct bytes path, struct arena *arena, struct path *path_out, struct error *err)
{
    struct path split = {0};

    if (path.length == 0 || path.data[0] != '/') return failure(err, ERROR_INVALID, "a path begins with '/'");
    for (size_t at = 1; at <= path.length;) {
        const uint8_t *slash = at == path.length ? NULL : memchr(path.data + at, '/', path.length - at);
        const size_t end = slash == NULL ? path.length : (size_t)(slash - path.data);
        TRY(add_segment((struct bytes){path.data + at, end - at}, slash == NULL, arena, &split, err));
        at = end + 1;
    }
    *path_out = split;
    return SUCCESS;
}
