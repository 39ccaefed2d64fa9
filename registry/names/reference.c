#include "registry/names/reference.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "audit/action.h"
#include "base/text.h"
#include "crypto/secret.h"

static bool is_alphanumeric(uint8_t letter)
{
    return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9');
}

/* The length of the separator at `at`: one of "." "_" "__" or any run of "-"; 0 if there is none. */
static size_t separator_length(struct bytes text, size_t at)
{
    size_t length = 0;

    if (text.data[at] == '.') return 1;
    if (text.data[at] == '_') return at + 1 < text.length && text.data[at + 1] == '_' ? 2 : 1;
    while (at + length < text.length && text.data[at + length] == '-') length++;
    return length;
}

/* [a-z0-9]+((\.|_|__|-+)[a-z0-9]+)* */
static bool segment_is_valid(struct bytes text)
{
    size_t at = 0;

    while (at < text.length) {
        const size_t start = at;
        while (at < text.length && is_alphanumeric(text.data[at])) at++;
        if (at == start) return false;
        if (at == text.length) return true;
        const size_t length = separator_length(text, at);
        if (length == 0) return false;
        at += length;
    }
    return false;
}

bool namespace_name_is_valid(struct bytes text)
{
    if (text.length == 0 || text.length > NAMESPACE_NAME_MAX) return false;
    for (size_t i = 1; i < text.length; i++)
        if (!is_alphanumeric(text.data[i]) && !is_alphanumeric(text.data[i - 1])) return false;
    return segment_is_valid(text);
}

/* Cuts the text at its first '/'; the rest is empty when there is none. */
static struct bytes next_segment(struct bytes *rest)
{
    const uint8_t *slash = rest->length == 0 ? NULL : memchr(rest->data, '/', rest->length);
    const size_t length = slash == NULL ? rest->length : (size_t)(slash - rest->data);
    const struct bytes segment = {.data = rest->data, .length = length};

    *rest = slash == NULL ? ((struct bytes){0}) : (struct bytes){slash + 1, rest->length - length - 1};
    return segment;
}

static struct result check_segments(struct bytes text, size_t *count_out, struct error *err)
{
    struct bytes rest = text;
    size_t count = 0;

    if (text.length == 0 || text.data[text.length - 1] == '/')
        return failure(err, ERROR_INVALID, "a repository's name is empty or ends in '/'");
    while (rest.length > 0) {
        if (!segment_is_valid(next_segment(&rest)))
            return failure(err, ERROR_INVALID,
                           "segment %zu of a repository's name is not of a-z, 0-9 and single separators . _ __ -", count + 1);
        if (++count > REPOSITORY_SEGMENTS_MAX)
            return failure(err, ERROR_INVALID, "a repository's name of more than %d segments", REPOSITORY_SEGMENTS_MAX);
    }
    *count_out = count;
    return SUCCESS;
}

struct result repository_name_split(struct bytes text, struct repository_name *name_out, struct error *err)
{
    struct bytes rest = text;
    size_t count = 0;

    if (text.length > RESOURCE_NAME_MAX)
        return failure(err, ERROR_INVALID, "a repository's name of %zu bytes; at most %d", text.length, RESOURCE_NAME_MAX);
    TRY(check_segments(text, &count, err));
    if (count < 3)
        return failure(err, ERROR_INVALID, "a repository is named organisation/project/name; this has %zu parts", count);
    const struct bytes organisation = next_segment(&rest), project = next_segment(&rest);
    if (!namespace_name_is_valid(organisation) || !namespace_name_is_valid(project))
        return failure(err, ERROR_INVALID,
                       "an organisation or a project has a name of at most %d letters and single "
                       "separators",
                       NAMESPACE_NAME_MAX);
    if (rest.length > REPOSITORY_PATH_MAX)
        return failure(err, ERROR_INVALID, "a repository's path below its project of %zu bytes; at most %d", rest.length,
                       REPOSITORY_PATH_MAX);
    *name_out = (struct repository_name){.organisation = organisation, .project = project, .path = rest};
    return SUCCESS;
}

bool tag_is_valid(struct bytes text)
{
    if (text.length == 0 || text.length > TAG_MAX) return false;
    for (size_t i = 0; i < text.length; i++) {
        const uint8_t letter = text.data[i];
        const bool is_word = is_alphanumeric(letter) || (letter >= 'A' && letter <= 'Z') || letter == '_';
        if (!is_word && (i == 0 || (letter != '.' && letter != '-'))) return false;
    }
    return true;
}

void referrers_tag(const char *digest, char tag_out[TAG_MAX + 1])
{
    const char *colon = strchr(digest, ':');

    assert(colon != NULL);
    (void)snprintf(tag_out, TAG_MAX + 1, "%.*s-%.64s", (int)(colon - digest < 32 ? colon - digest : 32), digest, colon + 1);
}

#define UUID_LENGTH   (UUID_TEXT_SIZE - 1)
#define SECRET_LENGTH (UPLOAD_LOCATION_SIZE - UUID_LENGTH - 2)

bool upload_location_parse(struct bytes text, struct upload_location *location_out)
{
    struct upload_location location = {0};

    if (text.length != UPLOAD_LOCATION_SIZE - 1 || text.data[UUID_LENGTH] != '.') return false;
    if (!uuid_parse((struct bytes){text.data, UUID_LENGTH}, &location.upload)) return false;
    const struct bytes letters = {text.data + UUID_LENGTH + 1, SECRET_LENGTH};
    const bool ok = text_from_base64_exactly(BASE64_URL, letters, location.secret, sizeof location.secret);
    if (ok) *location_out = location;
    secret_wipe(location.secret, sizeof location.secret);
    return ok;
}

void upload_location_format(const struct upload_location *location, char text_out[UPLOAD_LOCATION_SIZE])
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    char *out = text_out + UUID_TEXT_SIZE;
    uint32_t group = 0;
    unsigned bits = 0;

    uuid_format(&location->upload, text_out);
    text_out[UUID_LENGTH] = '.';
    for (size_t i = 0; i < UPLOAD_SECRET_SIZE; i++) {
        group = group << 8 | location->secret[i];
        for (bits += 8; bits >= 6; bits -= 6) *out++ = letters[group >> (bits - 6) & 63];
    }
    *out++ = letters[group << (6 - bits) & 63];
    *out = '\0';
}
