/*
 * client/hosts.h -- who one is at which registry: what `sijil login` keeps.
 *
 * One file of mode 0600, ${XDG_CONFIG_HOME:-~/.config}/sijil/hosts.json, replaced as a whole. SIJIL_USERNAME,
 * SIJIL_PASSWORD and SIJIL_CA_FILE in the environment win over it: a CI job needs no login.
 */
#pragma once

#include "base/bytes.h"

struct host_login {
    char username[256];
    char password[12288 + 1]; /* a robot's secret, or a CI system's token of at most 12 KiB */
    char ca_file[512];        /* "" for the system's authorities */
};

/** False for "USER:SECRET", which curl takes and we do not: the name is shown, the secret must not be. */
bool user_name_is_valid(const char *name);

/** ERROR_DENIED, saying how to log in, when there is none. The caller wipes the password. */
RESULT host_login_find(const char *host, struct host_login *login_out, struct error *err);
RESULT host_login_save(const char *host, const struct host_login *login, struct error *err);
RESULT host_login_forget(const char *host, struct error *err);

/** A folder of our own below $NAME or ~/<fallback>: "XDG_CACHE_HOME", ".cache". `make`: with mode 0700, where it is missing; for
 *  reading alone nothing is made. */
RESULT user_folder(const char *variable, const char *fallback, bool make, struct buffer *path, struct error *err);
