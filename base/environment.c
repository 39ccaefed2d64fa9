#include "base/environment.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

const char *const environment_of_servers[] = {"LANG", "LC_*", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR", NULL};

static bool fits(const char *variable, const char *name)
{
    const size_t length = strlen(name);

    if (length > 0 && name[length - 1] == '*') return strncmp(variable, name, length - 1) == 0;
    return strncmp(variable, name, length) == 0 && variable[length] == '=';
}

static bool is_kept(const char *variable, const char *const *names)
{
    for (size_t i = 0; names[i] != NULL; i++)
        if (fits(variable, names[i])) return true;
    return false;
}

void environment_keep(const char *const *names)
{
    size_t kept = 0;

    if (environ == NULL) return;
    for (size_t i = 0; environ[i] != NULL; i++) {
        if (is_kept(environ[i], names)) environ[kept++] = environ[i];
        else explicit_bzero(environ[i], strlen(environ[i]));
    }
    environ[kept] = NULL;
}
