#include "authz/basic.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"

struct result authorization_split(const char *header, enum authorization_scheme *scheme_out, struct bytes *value_out,
                                  struct error *err)
{
    const size_t length = strlen(header);
    enum authorization_scheme scheme = AUTHORIZATION_BEARER;
    size_t start = 7;

    if (length > AUTHORIZATION_MAX)
        return failure(err, ERROR_INVALID, "an Authorization header of more than %d bytes", AUTHORIZATION_MAX);
    if (strncasecmp(header, "Basic ", 6) == 0) {
        scheme = AUTHORIZATION_BASIC;
        start = 6;
    } else if (strncasecmp(header, "DPoP ", 5) == 0) { /* RFC 9449, 7.1 */
        scheme = AUTHORIZATION_DPOP;
        start = 5;
    } else if (strncasecmp(header, "Bearer ", 7) != 0) {
        return failure(err, ERROR_INVALID, "Authorization must begin with Bearer, Basic or DPoP");
    }
    while (header[start] == ' ') start++;
    if (start == length) return failure(err, ERROR_INVALID, "Authorization holds no credential");
    *scheme_out = scheme;
    *value_out = (struct bytes){(const uint8_t *)header + start, length - start};
    return SUCCESS;
}

struct result basic_read(struct bytes value, struct buffer *decoded, struct bytes *name_out, struct bytes *password_out,
                         struct error *err)
{
    struct error cause = {0};

    if (!text_from_base64(decoded, BASE64_STANDARD, value, &cause).ok) {
        if (cause.kind == ERROR_NO_MEMORY) return failure(err, ERROR_NO_MEMORY, "no memory to read a credential");
        return failure(err, ERROR_INVALID, "Basic credentials must be base64 of name:password");
    }
    const uint8_t *colon = decoded->length == 0 ? NULL : memchr(decoded->data, ':', decoded->length);
    if (colon == NULL || colon == decoded->data || colon + 1 == decoded->data + decoded->length)
        return failure(err, ERROR_INVALID, "Basic credentials must be base64 of name:password");
    const size_t name_length = (size_t)(colon - decoded->data);
    *name_out = (struct bytes){decoded->data, name_length};
    *password_out = (struct bytes){colon + 1, decoded->length - name_length - 1};
    return SUCCESS;
}

/* In place. */
static struct result unescape(uint8_t *data, struct bytes *part, struct error *err)
{
    size_t length = 0;

    for (size_t at = 0; at < part->length; at++) {
        uint8_t letter = data[at] == '+' ? ' ' : data[at];
        if (letter == '%') {
            const uint8_t digits[2] = {at + 2 < part->length ? (uint8_t)tolower(data[at + 1]) : 0,
                                       at + 2 < part->length ? (uint8_t)tolower(data[at + 2]) : 0};
            if (!text_from_hex((struct bytes){digits, sizeof digits}, &letter, 1) || letter == 0)
                return failure(err, ERROR_INVALID, "in Basic credentials two hexadecimal digits follow a percent sign");
            at += 2;
        }
        data[length++] = letter;
    }
    *part = (struct bytes){data, length};
    return SUCCESS;
}

struct result basic_unescape(struct buffer *decoded, struct bytes *name, struct bytes *password, struct error *err)
{
    uint8_t *second = decoded->data + name->length + 1;

    if (memchr(decoded->data, '%', decoded->length) == NULL) return SUCCESS;
    TRY(unescape(decoded->data, name, err));
    return unescape(second, password, err);
}
