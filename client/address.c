#include "client/address.h"

#include <string.h>

#define SCHEME_END "://"

static const char *last_at(const char *text, size_t length)
{
    while (length > 0 && text[length - 1] != '@') length--;
    return length == 0 ? NULL : text + length - 1;
}

/* The start of the URL's authority, after `scheme_end`; *length_out is its length. */
static char *authority_of(char *scheme_end, size_t *length_out)
{
    char *authority = scheme_end + strlen(SCHEME_END);

    *length_out = strcspn(authority, "/?# \t\r\n'\"");
    return authority;
}

bool address_names_user(const char *address)
{
    for (const char *at = strchr(address, '@'); at != NULL; at = strchr(at + 1, '@'))
        if (strncmp(at, "@sha256:", 8) != 0 && strncmp(at, "@sha512:", 8) != 0) return true;
    return false;
}

bool url_names_user(const char *url)
{
    char *scheme_end = strstr((char *)(uintptr_t)url, SCHEME_END);
    size_t length = 0;

    if (scheme_end == NULL) return false;
    const char *authority = authority_of(scheme_end, &length);
    return last_at(authority, length) != NULL;
}

struct result address_check(const char *address, struct error *err)
{
    if (!address_names_user(address)) return SUCCESS;
    return failure(err, ERROR_INVALID,
                   "no user name or secret belongs in an address, and '@' stands only before a digest:"
                   " sijil login HOST keeps a secret");
}

void address_hide(char *text)
{
    for (char *scheme_end; (scheme_end = strstr(text, SCHEME_END)) != NULL;) {
        size_t length = 0;
        char *authority = authority_of(scheme_end, &length);
        const char *at = last_at(authority, length);
        if (at != NULL) memmove(authority, at + 1, strlen(at + 1) + 1);
        text = authority;
    }
}
