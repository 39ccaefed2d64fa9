#include "gateway/http/range.h"

#include <inttypes.h>
#include <string.h>

#include "base/text.h"

/* Parses the digits at *at as a number; a number that is too large becomes the largest one. False: there are no digits. */
static bool take_number(const char **at, uint64_t *number_out)
{
    const char *digits = *at;
    const size_t length = strspn(digits, "0123456789");
    uint64_t number = 0;

    if (length == 0) return false;
    for (size_t i = 0; i < length; i++) {
        const uint64_t digit = (uint64_t)(digits[i] - '0');
        number = number > (UINT64_MAX - digit) / 10 ? UINT64_MAX : number * 10 + digit;
    }
    *at = digits + length;
    *number_out = number;
    return true;
}

static enum range_kind suffix_range(const char *at, uint64_t size, struct range *range_out)
{
    uint64_t length = 0;

    if (!take_number(&at, &length) || *at != '\0') return RANGE_WHOLE;
    if (length == 0 || size == 0) return RANGE_UNSATISFIABLE;
    *range_out = (struct range){.first = length >= size ? 0 : size - length, .last = size - 1};
    return RANGE_PART;
}

enum range_kind range_read(const char *value, uint64_t size, struct range *range_out)
{
    uint64_t first = 0, last = UINT64_MAX;

    if (value == NULL || strncasecmp(value, "bytes=", 6) != 0) return RANGE_WHOLE;
    const char *at = value + 6;
    if (*at == '-') return suffix_range(at + 1, size, range_out);
    if (!take_number(&at, &first) || *at++ != '-') return RANGE_WHOLE;
    if (*at != '\0' && (!take_number(&at, &last) || *at != '\0')) return RANGE_WHOLE;
    if (last < first || first >= size) return RANGE_UNSATISFIABLE;
    *range_out = (struct range){.first = first, .last = last < size ? last : size - 1};
    return RANGE_PART;
}

enum range_kind range_of_request(enum method method, const struct fields *headers, uint64_t size, const char *etag,
                                 struct range *range_out)
{
    const char *condition = header_find(headers, "If-Range");

    if (method != METHOD_GET) return RANGE_WHOLE; /* RFC 9110 section 14.2: defined for GET alone */
    if (condition != NULL && strcmp(condition, etag) != 0) return RANGE_WHOLE;
    return range_read(header_find(headers, "Range"), size, range_out);
}

static bool strict_number(const char **at, uint64_t *number_out)
{
    const size_t length = strspn(*at, "0123456789");
    const bool found = text_to_u64((struct bytes){(const uint8_t *)*at, length}, INT64_MAX, number_out);

    *at += length;
    return found;
}

bool content_range_read(const char *value, struct range *range_out)
{
    const bool has_unit = strncasecmp(value, "bytes ", 6) == 0;
    const char *at = has_unit ? value + 6 : value;
    struct range range = {0};
    uint64_t size = 0;

    if (!strict_number(&at, &range.first) || *at++ != '-') return false;
    if (!strict_number(&at, &range.last) || range.last < range.first) return false;
    if (has_unit) {
        if (*at++ != '/') return false;
        if (*at == '*') at++;
        else if (!strict_number(&at, &size) || size <= range.last) return false;
    }
    if (*at != '\0') return false;
    *range_out = range;
    return true;
}
