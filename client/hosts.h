/*
 * client/hosts.h -- the stored logins of `sijil login`, one for each registry.
 *
 * They are in one file of mode 0600, ${XDG_CONFIG_HOME:-~/.config}/sijil/hosts.json, which is replaced as a whole.
 * SIJIL_USERNAME, SIJIL_PASSWORD and SIJIL_CA_FILE in the environment replace a stored login, so a CI job needs none. SIJIL_PROXY
 * names the proxy; HTTPS_PROXY and similar variables, which other programs may need, are not used (docs/outgoing.md).
 */
#pragma once

#include "client/provider/provider.h"

#define HOST_RESOURCE_SIZE 300 /* "https://" and a registry's name */

/** The login of a person at an issuer; the password is an access token then. */
struct host_issuer {
    char url[PROVIDER_URL_SIZE]; /* "": this login is of another kind */
    char client_id[PROVIDER_CLIENT_SIZE], scope[PROVIDER_SCOPE_SIZE], resource[HOST_RESOURCE_SIZE];
    char ca_file[512];                   /* "" for the system's authorities */
    char refresh[PROVIDER_REFRESH_SIZE]; /* "": the login ends with its access token */
    int64_t expires_ms;                  /* of the access token, by this machine's clock */
    int64_t callback_port;               /* of --callback-port, for a fresh login later; 0: any */
};

struct host_login {
    char username[256];
    char password[12288 + 1]; /* a robot's secret, or a CI system's token of at most 12 KiB */
    char ca_file[512];        /* "" for the system's authorities */
    char proxy[512];          /* SIJIL_PROXY; "" for none; not stored in the file */
    struct host_issuer issuer;
};

/** False for "USER:SECRET", a form of curl that is refused here, because names are shown and secrets must not be. */
bool user_name_is_valid(const char *name);

/** ERROR_DENIED if there is no login; the message says how to log in. The caller wipes the password. */
RESULT host_login_find(const char *host, struct host_login *login_out, struct error *err);
/** The login in the file, whatever the environment says, and SIJIL_PROXY; all of it is "" if there is none. The caller wipes it. */
RESULT host_login_stored(const char *host, struct host_login *login_out, struct error *err);
/** Sets only login->proxy. ERROR_INVALID if SIJIL_PROXY is not an http:// address; the message has no letter of it. */
RESULT host_proxy_find(struct host_login *login, struct error *err);
/** Sets login->ca_file from SIJIL_CA_FILE, unless it is set. */
void host_ca_find(struct host_login *login);
/** Whether another program would use a proxy now: HTTPS_PROXY, https_proxy, ALL_PROXY or all_proxy is set. */
bool host_proxy_is_expected(void);
RESULT host_login_save(const char *host, const struct host_login *login, struct error *err);
RESULT host_login_forget(const char *host, struct error *err);

/** A descriptor that keeps other programs of this user from renewing a login until it is closed: a refresh token that two use counts as stolen
 *  (RFC 9700 section 4.14.2). Waits. */
RESULT host_lock_renewal(int *lock_out, struct error *err);

/**
 * The folder `sijil` below $NAME or ~/<fallback>: "XDG_CACHE_HOME", ".cache". `make`: makes it with mode 0700 if it is missing;
 * readers make nothing.
 */
RESULT user_folder(const char *variable, const char *fallback, bool make, struct buffer *path, struct error *err);
