#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "crypto/certificate.h"
#include "embedded/embedded_priv.h"
#include "gateway/http/hosts.h"

#define AUTHORITY_DAYS 3650
#define SERVER_DAYS    CERTIFICATE_DAYS_MAX
#define RENEW_DAYS     30  /* before the end */
#define NAMES_MAX      5   /* that of the URL, and those that write_hosts() allows */
#define NAME_SIZE      256 /* RFC 1035: 253 letters of a name */

struct names {
    char texts[NAMES_MAX][NAME_SIZE]; /* the URL's, and the names of this machine */
    const char *all[NAMES_MAX];
    size_t count;
};

static void add_name(struct names *names, const char *text, size_t length)
{
    if (length == 0 || length >= NAME_SIZE || names->count == NAMES_MAX) return;
    for (size_t i = 0; i < names->count; i++)
        if (strlen(names->all[i]) == length && memcmp(names->all[i], text, length) == 0) return;
    memcpy(names->texts[names->count], text, length);
    names->all[names->count] = names->texts[names->count];
    names->count++;
}

/* "https://[::1]:8443" has the host ::1. */
static void add_host(struct names *names, const char *url)
{
    const char *host = strstr(url, "://");

    if (host == NULL) return;
    host += strlen("://");
    if (*host == '[') add_name(names, host + 1, strcspn(host + 1, "]"));
    else add_name(names, host, strcspn(host, ":/"));
}

static void collect_names(const struct embedded *embedded, struct names *names_out)
{
    struct bytes name;
    size_t at = 0;

    *names_out = (struct names){0};
    add_host(names_out, embedded->settings.public_url);
    while (hosts_next(embedded->settings.allowed_hosts, &at, &name)) add_name(names_out, (const char *)name.data, name.length);
}

struct result embedded_key_at(const char *path, struct ecdsa_key **key_out, struct error *err)
{
    OWNED(ecdsa_key) *key = NULL;
    bool is_there = false;

    TRY(file_is_there(path, &is_there, err));
    if (is_there) return ecdsa_key_load(path, key_out, err);
    TRY(ecdsa_key_new(&key, err));
    TRY(ecdsa_key_save(key, path, err));
    *key_out = GIVE(key);
    return SUCCESS;
}

/* Clients trust the authority's certificate, so its key must not be replaced. */
static struct result authority_at(const struct embedded *embedded, struct ecdsa_key **key_out, struct error *err)
{
    const struct paths *paths = &embedded->paths;
    bool has_authority = false, has_key = false;

    TRY(file_is_there(paths->authority, &has_authority, err));
    TRY(file_is_there(paths->authority_key, &has_key, err));
    if (has_authority && !has_key)
        return failure(err, ERROR_NOT_FOUND,
                       "the authority's key %.100s is gone: put it back, or remove ca.pem, and give clients the new one",
                       paths->authority_key);
    return embedded_key_at(paths->authority_key, key_out, err);
}

static struct result make_authority(const struct embedded *embedded, const struct ecdsa_key *key, struct error *err)
{
    struct buffer OWNED_BUFFER pem = BUFFER(CERTIFICATE_PEM_MAX);
    bool is_there = false;
    char name[64];

    TRY(file_is_there(embedded->paths.authority, &is_there, err));
    if (is_there) return SUCCESS;
    (void)snprintf(name, sizeof name, "Sijil %.8s", embedded->paths.id);
    TRY(certificate_authority(name, key, AUTHORITY_DAYS, &pem, err));
    return file_replace(embedded->paths.authority, buffer_bytes(&pem), 0644, err);
}

/* A file beside the certificate lists its names; if they change, a new certificate is made. */
static struct result is_current(const struct embedded *embedded, struct bytes names, bool *current_out, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(CERTIFICATE_PEM_MAX);
    struct certificate_facts facts;
    bool has_certificate = false, has_key = false, has_list = false;
    char list[PATH_SIZE];

    *current_out = false;
    TRY(path_join(list, embedded->paths.tls, "server.names", err));
    TRY(file_is_there(embedded->settings.tls_certificate, &has_certificate, err));
    TRY(file_is_there(embedded->settings.tls_key, &has_key, err));
    TRY(file_is_there(list, &has_list, err));
    if (!has_certificate || !has_key || !has_list) return SUCCESS;
    TRY(file_read(list, &text, err));
    if (!bytes_equal(buffer_bytes(&text), names)) return SUCCESS;
    buffer_clear(&text);
    TRY(file_read(embedded->settings.tls_certificate, &text, err));
    TRY(certificate_inspect(buffer_bytes(&text), &facts, err));
    *current_out = facts.not_after_s - clock_wall_ms() / 1000 > RENEW_DAYS * 86400;
    return SUCCESS;
}

static struct result issue(const struct embedded *embedded, const struct names *names, const struct ecdsa_key *authority_key,
                           struct error *err)
{
    struct buffer OWNED_BUFFER pem = BUFFER(CERTIFICATE_PEM_MAX);
    OWNED(ecdsa_key) *key = NULL;

    TRY(embedded_key_at(embedded->settings.tls_key, &key, err));
    if (geteuid() == 0 && chown(embedded->settings.tls_key, embedded->users.gateway.uid, embedded->users.gateway.gid) != 0)
        return failure(err, ERROR_UNAVAILABLE, "can't give %s to %s: %s", embedded->settings.tls_key,
                       embedded->users.gateway.name, strerror(errno));
    const struct certificate_request request = {.key = key, .names = names->all, .name_count = names->count, .days = SERVER_DAYS};
    struct buffer OWNED_BUFFER authority = BUFFER(CERTIFICATE_PEM_MAX);
    TRY(file_read(embedded->paths.authority, &authority, err));
    TRY(certificate_issue(&request, buffer_bytes(&authority), authority_key, &pem, err));
    return file_replace(embedded->settings.tls_certificate, buffer_bytes(&pem), 0644, err);
}

static struct result prepare(void *context, struct error *err)
{
    const struct embedded *embedded = context;
    struct buffer OWNED_BUFFER list = BUFFER(8 * NAME_SIZE);
    OWNED(ecdsa_key) *authority_key = NULL;
    char path[PATH_SIZE];
    struct names names;
    bool is_fresh = false;

    TRY(authority_at(embedded, &authority_key, err));
    TRY(make_authority(embedded, authority_key, err));
    collect_names(embedded, &names);
    for (size_t i = 0; i < names.count; i++) TRY(buffer_format(&list, err, "%s\n", names.all[i]));
    TRY(is_current(embedded, buffer_bytes(&list), &is_fresh, err));
    if (is_fresh) return SUCCESS;
    TRY(issue(embedded, &names, authority_key, err));
    TRY(path_join(path, embedded->paths.tls, "server.names", err));
    TRY(file_replace(path, buffer_bytes(&list), 0644, err));
    log_line(LOG_INFO, "issued a server certificate", "file", embedded->settings.tls_certificate, NULL);
    return SUCCESS;
}

struct result certificates_prepare(struct embedded *embedded, struct error *err)
{
    return step_run(&embedded->users.self, prepare, embedded, err);
}
