#include "gateway/http/condition.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "crypto/digest.h"

void entity_tag_of(struct bytes text, char tag_out[ENTITY_TAG_SIZE])
{
    uint8_t digest[SHA256_SIZE];
    char hex[2 * SHA256_SIZE + 1];

    sha256_of(text, digest);
    text_hex(digest, sizeof digest, hex);
    (void)snprintf(tag_out, ENTITY_TAG_SIZE, "\"%s\"", hex);
}

/* The member at *at, moved behind it: its text between the quotes. False: it does not end. */
static bool take_member(const char **at, const char **text_out, size_t *length_out)
{
    const bool is_quoted = **at == '"';
    const char *text = *at + (is_quoted ? 1 : 0);
    const size_t length = strcspn(text, is_quoted ? "\"" : ", \t");

    if (is_quoted && text[length] == '\0') return false;
    *text_out = text;
    *length_out = length;
    *at = text + length + (is_quoted ? 1 : 0);
    return true;
}

bool entity_tags_name(const char *list, const char *etag, bool takes_weak)
{
    const char *inside = etag + 1, *at = list;
    const size_t inside_length = strlen(inside) - 1;

    if (strcmp(list, "*") == 0) return true;
    for (at += strspn(at, ", \t"); *at != '\0'; at += strspn(at, ", \t")) {
        const bool is_weak = strncmp(at, "W/", 2) == 0;
        const char *text = NULL;
        size_t length = 0;
        at += is_weak ? 2 : 0;
        if (!take_member(&at, &text, &length)) return false;
        if ((takes_weak || !is_weak) && length == inside_length && memcmp(text, inside, length) == 0) return true;
    }
    return false;
}

/* In any line of the header: several lines are one list (RFC 9110, 5.3). */
static bool header_names(const struct fields *headers, const char *name, const char *etag, bool takes_weak, bool *is_there_out)
{
    const char *value = NULL;

    *is_there_out = false;
    for (size_t at = 0; (value = header_next(headers, name, &at)) != NULL;) {
        *is_there_out = true;
        if (etag != NULL && entity_tags_name(value, etag, takes_weak)) return true;
    }
    return false;
}

enum condition condition_of_request(const struct fields *headers, const char *etag)
{
    bool is_stated = false;

    if (!header_names(headers, "If-Match", etag, false, &is_stated) && is_stated) return CONDITION_NO_MATCH;
    return header_names(headers, "If-None-Match", etag, true, &is_stated) ? CONDITION_A_MATCH : CONDITIONS_HOLD;
}
