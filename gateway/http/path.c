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

/*
 * The text between two slashes. Such a slash is part of the segment, because it was percent-encoded. The letters are pchar of RFC 3986, without
 * the characters that only percent-encoding can produce.
 */
static struct result check_piece(const char *piece, size_t length, struct error *err)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~!$&'()*+,;=:@";

    if (length == 0) return failure(err, ERROR_INVALID, "a path has no empty segments");
    if (length <= 2 && memcmp(piece, "..", length) == 0)
        return failure(err, ERROR_INVALID, "a path has no segments '.' and '..'");
    if (strspn(piece, letters) >= length) return SUCCESS;
    return failure(err, ERROR_INVALID,
                   "a path may not hold slashes, spaces, control or other special characters, "
                   "also not percent-encoded");
}

static struct result check_segment(const char *segment, bool takes_slashes, struct error *err)
{
    size_t length = takes_slashes ? strcspn(segment, "/") : strlen(segment);

    TRY(check_piece(segment, length, err));
    while (segment[length] == '/') {
        segment += length + 1;
        length = strcspn(segment, "/");
        TRY(check_piece(segment, length, err));
    }
    return SUCCESS;
}

static struct result add_segment(struct bytes raw, bool may_be_empty, bool takes_slashes, struct arena *arena, struct path *path,
                                 struct error *err)
{
    const char *segment = "";

    if (path->count == PATH_SEGMENTS_MAX) return failure(err, ERROR_INVALID, "a path has at most %d segments", PATH_SEGMENTS_MAX);
    if (raw.length > 0) TRY(percent_decode(raw, false, arena, &segment, err));
    if (raw.length > 0 || !may_be_empty) TRY(check_segment(segment, takes_slashes, err));
    path->segments[path->count++] = segment;
    return SUCCESS;
}

struct result path_split(struct bytes path, struct arena *arena, struct path *path_out, struct error *err)
{
    const bool takes_slashes = has_prefix(path, PATH_WITH_SLASHES);
    struct path split = {0};

    if (path.length == 0 || path.data[0] != '/') return failure(err, ERROR_INVALID, "a path begins with '/'");
    for (size_t at = 1; at <= path.length;) {
        const uint8_t *slash = at == path.length ? NULL : memchr(path.data + at, '/', path.length - at);
        const size_t end = slash == NULL ? path.length : (size_t)(slash - path.data);
        TRY(add_segment((struct bytes){path.data + at, end - at}, slash == NULL, takes_slashes, arena, &split, err));
        at = end + 1;
    }
    *path_out = split;
    return SUCCESS;
}
