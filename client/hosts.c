#include "client/hosts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/json.h"
#include "client/local.h"

#define HOSTS_FILE_MAX ((size_t)1 << 20) /* about 80 registries with the longest tokens */

struct result user_folder(const char *variable, const char *fallback, bool make, struct buffer *path, struct error *err)
{
    const char *base = getenv(variable), *home = getenv("HOME");

    if (base != NULL && base[0] == '/') {
        TRY(buffer_add_text(path, base, err));
    } else {
        if (home == NULL || home[0] != '/')
            return failure(err, ERROR_INVALID, "neither %s nor HOME is set to a folder", variable);
        TRY(buffer_format(path, err, "%s/%s", home, fallback));
    }
    if (make) TRY(local(file_make_directory(buffer_text(path), 0700, err), buffer_text(path), err));
    TRY(buffer_add_text(path, "/sijil", err));
    return !make ? SUCCESS : local(file_make_directory(buffer_text(path), 0700, err), buffer_text(path), err);
}

static struct result hosts_path(bool make, struct buffer *path, struct error *err)
{
    TRY(user_folder("XDG_CONFIG_HOME", ".config", make, path, err));
    return buffer_add_text(path, "/hosts.json", err);
}

/* The kernel frees the lock when the descriptor is closed, also of a killed program. */
static struct result lock(const char *name, int *lock_out, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(PATH_MAX);
    OWNED_FD fd = -1;

    TRY(user_folder("XDG_CONFIG_HOME", ".config", true, &path, err));
    TRY(buffer_format(&path, err, "/%s.lock", name));
    TRY(local(file_open(buffer_text(&path), O_RDWR | O_CREAT, 0600, &fd, err), buffer_text(&path), err));
    while (flock(fd, LOCK_EX) != 0)
        if (errno != EINTR) return failure(err, ERROR_INVALID, "can't lock %.150s: %s", buffer_text(&path), strerror(errno));
    *lock_out = fd;
    fd = -1;
    return SUCCESS;
}

struct result host_lock_renewal(int *lock_out, struct error *err)
{
    return lock("renewal", lock_out, err);
}

static struct result hosts_read(const char *path, json_t **hosts_out, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(HOSTS_FILE_MAX);
    OWNED_FD fd = -1;
    struct stat status;

    const struct result opened = file_open(path, O_RDONLY, 0, &fd, err);
    if (!opened.ok && err->kind == ERROR_NOT_FOUND) {
        json_t *none = json_object();
        if (none == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for logins");
        *hosts_out = none;
        return SUCCESS;
    }
    TRY(local(opened, path, err));
    TRY(local(file_status(fd, &status, err), path, err));
    if ((status.st_mode & 077) != 0)
        return failure(err, ERROR_DENIED, "%.150s holds secrets but others may read it: chmod 600 it", path);
    TRY(local(file_read(path, &text, err), path, err));
    const struct result read = local(json_read(buffer_bytes(&text), HOSTS_FILE_MAX, hosts_out, err), path, err);
    if (text.data != NULL) explicit_bzero(text.data, text.length);
    return read;
}

static struct result hosts_write(const char *path, const json_t *hosts, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(HOSTS_FILE_MAX);

    struct result result = json_write_canonical(&text, hosts, err);
    if (result.ok) result = local(file_replace(path, buffer_bytes(&text), 0600, err), path, err);
    if (text.data != NULL) explicit_bzero(text.data, text.length);
    return result;
}

/* Changes nothing if `text` is NULL. */
static bool take_text(const char *text, char *destination, size_t room)
{
    if (text == NULL || strlen(text) >= room) return false;
    memcpy(destination, text, strlen(text) + 1);
    return true;
}

/* The part before the ':' of "USER:SECRET" (RFC 7617 section 2) is the name, so a name has no ':'. */
bool user_name_is_valid(const char *name)
{
    return strchr(name, ':') == NULL;
}

static void take_issuer(const json_t *entry, struct host_issuer *issuer)
{
    const json_t *stored = json_object_get(entry, "issuer");

    if (!take_text(json_text_of(stored, "url"), issuer->url, sizeof issuer->url)) return;
    (void)take_text(json_text_of(stored, "client_id"), issuer->client_id, sizeof issuer->client_id);
    (void)take_text(json_text_of(stored, "scope"), issuer->scope, sizeof issuer->scope);
    (void)take_text(json_text_of(stored, "resource"), issuer->resource, sizeof issuer->resource);
    (void)take_text(json_text_of(stored, "ca_file"), issuer->ca_file, sizeof issuer->ca_file);
    (void)take_text(json_text_of(stored, "refresh"), issuer->refresh, sizeof issuer->refresh);
    (void)json_integer_of(stored, "expires", &issuer->expires_ms);
    (void)json_integer_of(stored, "callback_port", &issuer->callback_port);
}

/* What the environment names is another login than the stored one. */
static void take_environment(struct host_login *login)
{
    const bool has_name = take_text(getenv("SIJIL_USERNAME"), login->username, sizeof login->username);
    const bool has_password = take_text(getenv("SIJIL_PASSWORD"), login->password, sizeof login->password);

    if (has_name || has_password) login->issuer = (struct host_issuer){0};
    (void)take_text(getenv("SIJIL_CA_FILE"), login->ca_file, sizeof login->ca_file);
}

static bool is_proxy(const char *text)
{
    static const char start[] = "http://";

    if (strncmp(text, start, strlen(start)) != 0) return false;
    const char first = text[strlen(start)];
    return first != '\0' && first != '/' && strpbrk(text, " \t\r\n") == NULL;
}

struct result host_proxy_find(struct host_login *login, struct error *err)
{
    const char *text = getenv("SIJIL_PROXY");

    if (text == NULL || text[0] == '\0') return SUCCESS;
    if (!is_proxy(text) || !take_text(text, login->proxy, sizeof login->proxy))
        return failure(err, ERROR_INVALID, "SIJIL_PROXY: http://HOST:PORT is expected");
    return SUCCESS;
}

void host_ca_find(struct host_login *login)
{
    if (login->ca_file[0] == '\0') (void)take_text(getenv("SIJIL_CA_FILE"), login->ca_file, sizeof login->ca_file);
}

bool host_proxy_is_expected(void)
{
    static const char *const names[] = {"HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (getenv(names[i]) != NULL && getenv(names[i])[0] != '\0') return true;
    return false;
}

struct result host_login_stored(const char *host, struct host_login *login_out, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(PATH_MAX);
    OWNED_JSON hosts = NULL;
    struct host_login login = {0};

    TRY(host_proxy_find(&login, err));
    TRY(hosts_path(false, &path, err));
    TRY(hosts_read(buffer_text(&path), &hosts, err));
    const json_t *entry = json_object_get(hosts, host);
    (void)take_text(json_text_of(entry, "username"), login.username, sizeof login.username);
    (void)take_text(json_text_of(entry, "password"), login.password, sizeof login.password);
    (void)take_text(json_text_of(entry, "ca_file"), login.ca_file, sizeof login.ca_file);
    take_issuer(entry, &login.issuer);
    *login_out = login;
    explicit_bzero(&login, sizeof login);
    return SUCCESS;
}

static struct result check_login(const char *host, const struct host_login *login, struct error *err)
{
    if (!user_name_is_valid(login->username))
        return failure(err, ERROR_INVALID,
                       "the user name that SIJIL_USERNAME or `sijil login` gave has a ':': a secret in it? It is sent to nobody");
    if (login->password[0] == '\0')
        return failure(err, ERROR_DENIED, "not logged in at %s: run `sijil login %s --username NAME`, or with --issuer URL", host,
                       host);
    return SUCCESS;
}

struct result host_login_find(const char *host, struct host_login *login_out, struct error *err)
{
    struct host_login login = {0};

    TRY(host_login_stored(host, &login, err));
    take_environment(&login);
    const struct result checked = check_login(host, &login, err);
    if (checked.ok) *login_out = login;
    explicit_bzero(&login, sizeof login);
    return checked;
}

static json_t *write_issuer(const struct host_issuer *issuer)
{
    if (issuer->url[0] == '\0') return NULL;
    return json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:I,s:I}", "url", issuer->url, "client_id", issuer->client_id, "scope",
                     issuer->scope, "resource", issuer->resource, "ca_file", issuer->ca_file, "refresh", issuer->refresh,
                     "expires", (json_int_t)issuer->expires_ms, "callback_port", (json_int_t)issuer->callback_port);
}

struct result host_login_save(const char *host, const struct host_login *login, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(PATH_MAX);
    OWNED_JSON hosts = NULL;
    OWNED_FD held = -1;

    TRY(hosts_path(true, &path, err));
    TRY(lock("hosts", &held, err));
    TRY(hosts_read(buffer_text(&path), &hosts, err));
    const unsigned before = json_lacks();
    json_t *entry = json_pack("{s:s,s:s,s:s,s:o*}", "username", login->username, "password", login->password, "ca_file",
                              login->ca_file, "issuer", write_issuer(&login->issuer));
    if (json_lacks() != before) {
        json_decref(entry);
        return failure(err, ERROR_NO_MEMORY, "no memory for logins");
    }
    if (entry == NULL || json_object_set_new(hosts, host, entry) != 0)
        return failure(err, ERROR_INVALID, "a user name, password or path that is not UTF-8");
    return hosts_write(buffer_text(&path), hosts, err);
}

struct result host_login_forget(const char *host, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(PATH_MAX);
    OWNED_JSON hosts = NULL;
    OWNED_FD held = -1;

    TRY(hosts_path(true, &path, err));
    TRY(lock("hosts", &held, err));
    TRY(hosts_read(buffer_text(&path), &hosts, err));
    if (json_object_del(hosts, host) != 0) return failure(err, ERROR_NOT_FOUND, "not logged in at %s", host);
    return hosts_write(buffer_text(&path), hosts, err);
}
