#include "embedded/embedded.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/network.h"
#include "embedded/embedded_priv.h"
#include "gateway/http/hosts.h"
#include "gateway/http/server.h"

#define HOST_NAME_SIZE 256 /* RFC 1035: 253 letters of a name */

/* The environment that the supervisor keeps. Without PGPORT, PGHOSTADDR and the like, from which libpq would complete a connection string
 * and might reach another server. */
static const char *const own_environment[] = {"HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR", "LANG", "LC_*",
                                              "TZ",   "SSL_CERT_FILE", "SSL_CERT_DIR",    NULL};

static void set(char setting[CONFIG_TEXT_SIZE], const char *value)
{
    (void)snprintf(setting, CONFIG_TEXT_SIZE, "%s", value);
}

/* IPv6 addresses stand in brackets. */
static void write_url(const struct embedded_options *options, struct settings *settings)
{
    const bool is_v6 = strchr(settings->listen_address, ':') != NULL;

    if (options->public_url != NULL) set(settings->public_url, options->public_url);
    else
        (void)snprintf(settings->public_url, CONFIG_TEXT_SIZE, "https://%s%.400s%s:%ld", is_v6 ? "[" : "",
                       settings->listen_address, is_v6 ? "]" : "", (long)settings->listen_port);
}

/* All names of this machine, at any port, because it may be reached through a tunnel or out of a container. */
static void write_hosts(struct settings *settings)
{
    static const char always[] = "localhost:* 127.0.0.1:* [::1]:*";
    char host[HOST_NAME_SIZE] = "";
    struct error ignored = {0};

    if (gethostname(host, sizeof host - 1) == 0 && host[0] != '\0')
        (void)snprintf(settings->allowed_hosts, CONFIG_TEXT_SIZE, "%s %s:*", always, host);
    if (host[0] == '\0' || !hosts_check(settings->allowed_hosts, &ignored).ok) set(settings->allowed_hosts, always);
}

static void write_witnesses(const struct embedded_options *options, struct settings *settings)
{
    if (options->witness_policy != NULL) set(settings->witness_policy, options->witness_policy);
    if (options->witness_ca_file != NULL) set(settings->witness_ca_file, options->witness_ca_file);
    if (options->witness_interval != 0) settings->witness_interval = options->witness_interval;
    if (options->witness_lag != 0) settings->witness_lag = options->witness_lag;
}

static void write_issuers(const struct embedded_options *options, struct settings *settings)
{
    if (options->issuer_networks != NULL) set(settings->issuer_networks, options->issuer_networks);
    if (options->issuer_ca_file != NULL) set(settings->issuer_ca_file, options->issuer_ca_file);
    if (options->client_ca != NULL) set(settings->tls_client_ca, options->client_ca);
    settings->tls_client_any = options->client_any;
    if (options->introspection_file != NULL) set(settings->introspection_file, options->introspection_file);
}

/* A person may put a certificate there. */
static struct result write_delivery(const struct paths *paths, struct settings *settings, struct error *err)
{
    char certificate[PATH_SIZE], key[PATH_SIZE];
    bool is_there = false;

    set(settings->delivery_folder, paths->delivery);
    TRY(path_join(certificate, paths->delivery, "client.pem", err));
    TRY(path_join(key, paths->delivery, "client.key", err));
    TRY(file_is_there(certificate, &is_there, err));
    if (!is_there) return SUCCESS;
    set(settings->delivery_certificate, certificate);
    set(settings->delivery_key, key);
    return SUCCESS;
}

/* Sets what a configuration file would set. */
static struct result write_settings(struct embedded *embedded, struct error *err)
{
    const struct embedded_options *options = &embedded->options;
    const struct paths *paths = &embedded->paths;
    struct settings *settings = &embedded->settings;

    TRY(settings_init(settings, err));
    if (options->listen_address != NULL) set(settings->listen_address, options->listen_address);
    if (options->listen_port != 0) settings->listen_port = options->listen_port;
    if (options->blob_lease != 0) settings->blob_lease = options->blob_lease;
    if (options->erasure_retention != NULL) settings->erasure_retention = *options->erasure_retention;
    if (options->collect_interval >= 0) settings->collect_interval = options->collect_interval;
    write_witnesses(options, settings);
    write_issuers(options, settings);
    write_url(options, settings);
    write_hosts(settings);
    (void)snprintf(settings->instance, CONFIG_TEXT_SIZE, "embedded-%.8s", paths->id);
    TRY(path_join(settings->tls_certificate, paths->tls, "server.pem", err));
    set(settings->tls_key, paths->server_key);
    postgres_conninfo(embedded, "sijil", "sijil_app", settings->database);
    set(settings->keyd_socket, paths->keyd_socket);
    set(settings->metadata_region, EMBEDDED_REGION);
    settings->region_count = 1;
    set(settings->regions[0].title, EMBEDDED_REGION);
    set(settings->regions[0].driver, "fs");
    set(settings->regions[0].location, paths->region);
    TRY(path_join(settings->region_folder, paths->directory, "regions", err));
    return write_delivery(paths, settings, err);
}

/* At the first start, before half a minute of work. Later, a gateway of an earlier start may still finish its requests there. */
static struct result check_port(const struct embedded *embedded, struct error *err)
{
    const struct settings *settings = &embedded->settings;
    const struct http_options options = {.listen_address = settings->listen_address, .listen_port = (int)settings->listen_port};
    bool has_data = false;
    struct error why;

    TRY(file_is_there(embedded->paths.data, &has_data, err));
    if (has_data || server_check_address(&options, &why).ok) return SUCCESS;
    return failure(err, why.kind, "%.180s: give another --listen-port or --listen-address", why.message);
}

static struct result start_parts(struct embedded *embedded, struct error *err)
{
    TRY(write_settings(embedded, err));
    TRY(check_port(embedded, err));
    runner_find_groups(embedded);
    TRY(certificates_prepare(embedded, err));
    TRY(postgres_prepare(embedded, err));
    TRY(keyd_prepare(embedded, err));
    TRY(postgres_start(embedded, err));
    TRY(postgres_bootstrap(embedded, err));
    return keyd_start(embedded, err);
}

static struct result prepare_all(struct embedded *embedded, struct error *err)
{
    TRY(start_parts(embedded, err));
    TRY(approver_prepare(embedded, err));
    TRY(bootstrap_all(embedded, err));
    return runner_prepare(embedded, err);
}

static struct result open_directory(struct embedded *embedded, struct error *err)
{
    sigset_t signals;

    supervisor_block_signals(&signals);
    environment_keep(own_environment);
    TRY(users_find(&embedded->users, err));
    if (!embedded->users.separate)
        log_line(LOG_WARNING,
                 "not started by root: one user runs everything, so the keys are not kept apart from"
                 " the gateway",
                 "user", embedded->users.self.name, NULL);
    return paths_open(&embedded->options, &embedded->users, &embedded->paths, err);
}

static struct result prepare(struct embedded *embedded, struct error *err)
{
    TRY(open_directory(embedded, err));
    struct result ready = prepare_all(embedded, err);
    if (ready.ok) ready = supervisor_fork(embedded, err);
    if (ready.ok) ready = settings_check(&embedded->settings, err);
    if (!ready.ok) supervisor_stop(embedded);
    return ready;
}

static struct result check_above(const char *option, const char *path, struct error *err)
{
    char above[PATH_MAX];
    size_t length = strlen(path);
    struct stat about;

    while (length > 1 && path[length - 1] == '/') length--;
    while (length > 0 && path[length - 1] != '/') length--;
    (void)snprintf(above, sizeof above, "%.*s", length == 0 ? 1 : (int)length, length == 0 ? "." : path);
    if (stat(above, &about) == 0 || errno != ENOENT) return SUCCESS;
    return failure(err, ERROR_INVALID, "%s %.150s: make the folder above it first", option, path);
}

/* Only checks that it is a folder; the users that need it check later that they can enter it. */
static struct result check_folder(const char *option, const char *path, struct error *err)
{
    struct stat about;

    if (path == NULL) return SUCCESS;
    if (path[0] == '\0' || strlen(path) >= PATH_MAX) return failure(err, ERROR_INVALID, "%s: the path of a folder", option);
    const bool is_there = stat(path, &about) == 0;
    if ((is_there && !S_ISDIR(about.st_mode)) || (!is_there && errno == ENOTDIR))
        return failure(err, ERROR_INVALID, "%s %.150s: a file is there, not a folder", option, path);
    return is_there ? SUCCESS : check_above(option, path, err);
}

/* The gateway may run in another folder than the person who started it. */
static struct result check_file_path(const char *option, const char *path, struct error *err)
{
    if (path == NULL || (path[0] == '/' && strlen(path) < CONFIG_TEXT_SIZE)) return SUCCESS;
    return failure(err, ERROR_INVALID, "%s needs a full path of less than %d letters", option, CONFIG_TEXT_SIZE);
}

static struct result check_places(const struct embedded_options *options, struct error *err)
{
    struct networks networks;
    const char *passphrase = options->passphrase_file, *secrets = options->secrets_folder;
    struct stat about;

    if (passphrase != NULL && (passphrase[0] != '/' || strlen(passphrase) >= PATH_SIZE))
        return failure(err, ERROR_INVALID, "--passphrase-file needs a full path");
    if (passphrase != NULL && stat(passphrase, &about) == 0 && S_ISDIR(about.st_mode))
        return failure(err, ERROR_INVALID, "--passphrase-file %.150s: a folder, not a file", passphrase);
    if (secrets != NULL && (secrets[0] != '/' || strlen(secrets) >= PATH_SIZE))
        return failure(err, ERROR_INVALID, "--secrets-dir needs a full path");
    TRY(check_file_path("--witness-policy", options->witness_policy, err));
    TRY(check_file_path("--witness-ca-file", options->witness_ca_file, err));
    TRY(check_file_path("--introspection-file", options->introspection_file, err));
    TRY(check_file_path("--issuer-ca-file", options->issuer_ca_file, err));
    TRY(check_file_path("--client-ca", options->client_ca, err));
    if (options->issuer_networks != NULL) TRY(networks_parse("--issuer-networks", options->issuer_networks, &networks, err));
    TRY(check_folder("--secrets-dir", secrets, err));
    return check_folder("--embedded", options->directory, err);
}

struct result embedded_check(const struct embedded_options *options, struct error *err)
{
    const char *address = options->listen_address, *url = options->public_url;

    if (options->directory[0] == '-') /* `--embedded --help` would make a registry in a folder of that name */
        return failure(err, ERROR_INVALID, "--embedded is followed by its folder, and '%.60s' is an option (or write ./%.60s)",
                       options->directory, options->directory);
    if (address != NULL && !settings_is_address(address))
        return failure(err, ERROR_INVALID, "--listen-address %.60s: an IP address expected", address);
    if (url != NULL && (!settings_is_public_url(url) || strlen(url) >= CONFIG_TEXT_SIZE))
        return failure(err, ERROR_INVALID, "--public-url %.100s: https://host or https://host:port, without a path", url);
    TRY(check_places(options, err));
    return approver_check(options, err);
}

struct result embedded_prepare(const struct embedded_options *options, struct embedded **embedded_out, struct error *err)
{
    struct embedded *embedded = memory_zeroed(1, sizeof *embedded);

    if (embedded == NULL) return failure(err, ERROR_NO_MEMORY, "no memory to begin with");
    embedded->options = *options;
    const struct result ready = prepare(embedded, err);
    if (!ready.ok) {
        free(embedded);
        return ready;
    }
    *embedded_out = embedded;
    return SUCCESS;
}

static struct result recover(struct embedded *embedded, const struct embedded_recovery *wanted, struct error *err)
{
    TRY(open_directory(embedded, err));
    struct result done = start_parts(embedded, err);
    if (done.ok) done = recovery_of_embedded(embedded, wanted, err);
    supervisor_stop(embedded);
    return done;
}

struct result embedded_recover(const struct embedded_options *options, const struct embedded_recovery *wanted, struct error *err)
{
    struct embedded *embedded = memory_zeroed(1, sizeof *embedded);

    if (embedded == NULL) return failure(err, ERROR_NO_MEMORY, "no memory to begin with");
    embedded->options = *options;
    embedded->recovers = true;
    const struct result done = recover(embedded, wanted, err);
    free(embedded);
    return done;
}

struct settings *embedded_settings(struct embedded *embedded)
{
    return &embedded->settings;
}

const char *embedded_admin_file(const struct embedded *embedded)
{
    return embedded->paths.admin;
}

const char *embedded_authority_file(const struct embedded *embedded)
{
    return embedded->paths.authority;
}

void embedded_stop(struct embedded *embedded)
{
    free(embedded);
}
