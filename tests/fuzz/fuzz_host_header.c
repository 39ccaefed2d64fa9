/* A list of allowed hosts, a newline, and a Host header: nothing but public_url, or a name of the list with a port, comes back. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "gateway/http/hosts.h"

#define PUBLIC_URL "https://registry.example"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The name in `url`, without port, is one of the list's words. */
static bool is_of_list(const char *allowed, const char *url)
{
    const char *host = url + strlen("https://");
    struct bytes name;

    if (*host == '[') host++;
    for (size_t at = 0; hosts_next(allowed, &at, &name);)
        if (strncasecmp(host, (const char *)name.data, name.length) == 0 && strchr(":]", host[name.length]) != NULL) return true;
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    OWNED_STRING text = memory_copy_text((const char *)data, size);
    char *end = text == NULL ? NULL : strchr(text, '\n');
    char url[HOSTS_URL_SIZE];
    struct error err = {0};

    if (end == NULL || end - text >= CONFIG_TEXT_SIZE) return 0;
    *end = '\0';
    const bool is_list = hosts_check(text, &err).ok;
    if (strlen(end + 1) >= CONFIG_TEXT_SIZE) return 0;
    hosts_url(&(struct hosts){PUBLIC_URL, text}, end + 1, url);
    if (strcmp(url, PUBLIC_URL) == 0) return 0;
    assert(strncmp(url, "https://", 8) == 0 && url[8 + strspn(url + 8, "abcdefghijklmnopqrstuvwxyz0123456789.-_:[]")] == '\0');
    if (is_list) assert(is_of_list(text, url));
    return 0;
}
