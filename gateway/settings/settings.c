#include "gateway/settings/settings.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "base/network.h"
#include "base/text.h"
#include "gateway/http/hosts.h"
#include "gateway/http/listeners.h"
#include "outgoing/peers.h"
#include "storage/driver_s3.h"
#include "storage/pg.h"

static const struct config_parameter parameters[] = {
#define SETTING(...) CONFIG_ROW(struct settings, __VA_ARGS__)
#include "gateway/settings/settings.def"
};

static const struct config_parameter region_parameters[] = {
#define REGION(...) CONFIG_ROW(struct region_settings, __VA_ARGS__)
#include "gateway/settings/settings.def"
};

static const struct config_section sections[] = {
    {
        .name = "region",
        .help = "One for each place that bytes may be in; the title is the region's id, such as \"local/main\"",
        .parameters = region_parameters,
        .parameter_count = sizeof region_parameters / sizeof region_parameters[0],
        .element_size = sizeof(struct region_settings),
        .maximum = SETTINGS_REGIONS_MAX,
        .array_offset = offsetof(struct settings, regions),
        .count_offset = offsetof(struct settings, region_count),
    },
};

static const struct config_removed removed[] = {
    {"database_owner",
     "a gateway must not be able to read it. Put its value into the file of sijild --migrate --database-owner=FILE, "
     "mode 0600, and change the password"},
};

static const struct config_form form = {
    .parameters = parameters,
    .parameter_count = sizeof parameters / sizeof parameters[0],
    .sections = sections,
    .section_count = sizeof sections / sizeof sections[0],
    .removed = removed,
    .removed_count = sizeof removed / sizeof removed[0],
};

struct result settings_init(struct settings *settings, struct error *err)
{
    memset(settings, 0, sizeof *settings);
    return config_defaults(&form, settings, err);
}

/* The URL goes into answers to clients that used a name outside allowed_hosts, and into `iss` of tokens. So it has small letters
 * only. */
bool settings_is_public_url(const char *url)
{
    return hosts_is_url(url) && text_consists_of(bytes_of_text(url), "abcdefghijklmnopqrstuvwxyz0123456789.-:[]/");
}

/* The text goes into headers between quotes, and into tokens. */
static bool is_word(const char *text)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:/";
    const size_t length = strspn(text, letters);
    return length > 0 && text[length] == '\0';
}

static void check_file(const char *name, const char *path, struct problems *problems)
{
    if (path[0] == '\0' || access(path, R_OK) == 0) return;
    problems_say(problems, ERROR_INVALID, "%s = %.140s: user %u can't read this file: %s", name, path, geteuid(),
                 strerror(errno));
}

static void check_socket(const char *name, const char *path, struct problems *problems)
{
    const size_t maximum = sizeof(((struct sockaddr_un *)0)->sun_path) - 1;

    if (path[0] != '\0' && (path[0] != '/' || strlen(path) > maximum))
        problems_say(problems, ERROR_INVALID, "%s = %.120s: an absolute path of at most %zu bytes", name, path, maximum);
}

/* The gateway replaces an old socket of this name when it starts. */
static void check_listen_socket(const char *path, struct problems *problems)
{
    const char *slash = strrchr(path, '/');
    char folder[CONFIG_TEXT_SIZE];
    struct stat about;

    check_socket("listen_socket", path, problems);
    if (path[0] != '/') return; /* there is none, or a problem was reported */
    (void)snprintf(folder, sizeof folder, "%.*s", (int)(slash - path + 1), path);
    if (access(folder, W_OK | X_OK) != 0)
        problems_say(problems, ERROR_INVALID, "listen_socket = %.110s: user %u can't make a socket in that folder: %s", path,
                     geteuid(), strerror(errno));
    else if (lstat(path, &about) == 0 && !S_ISSOCK(about.st_mode))
        problems_say(problems, ERROR_INVALID, "listen_socket = %.110s: something that is no socket has this name", path);
}

bool settings_is_address(const char *text)
{
    uint8_t binary[sizeof(struct in6_addr)];

    return inet_pton(AF_INET, text, binary) == 1 || inet_pton(AF_INET6, text, binary) == 1;
}

static void check_listening(const struct settings *settings, struct problems *problems)
{
    struct listeners listeners;
    struct networks balancers;
    struct error why = {0};

    if (!settings_is_address(settings->listen_address))
        problems_say(
            problems, ERROR_INVALID,
            "listen_address = %.60s: a numeric IP address, such as 127.0.0.1, 0.0.0.0 for all of IPv4, or :: for all addresses",
            settings->listen_address);
    check_listen_socket(settings->listen_socket, problems);
    if (!networks_parse("proxy_networks", settings->proxy_networks, &balancers, &why).ok) problems_add(problems, &why);
    if (!listeners_parse(settings->listeners, (int)settings->listen_port, &listeners, &why).ok) problems_add(problems, &why);
}

static void check_peers_form(const struct settings *settings, struct problems *problems)
{
    bool has_password = false;
    struct error why = {0};

    check_socket("keyd_socket", settings->keyd_socket, problems);
    if (settings->database[0] != '\0' && !pg_conninfo_check(settings->database, &has_password, &why).ok)
        problems_say(problems, why.kind, "database: %.200s", why.message);
}

static bool has_region(const struct settings *settings, const char *id)
{
    for (size_t i = 0; i < settings->region_count; i++)
        if (strcmp(settings->regions[i].title, id) == 0) return true;
    return false;
}

static void check_bucket_form(const struct region_settings *region, struct problems *problems)
{
    const struct driver_s3_options options = {.s3 = {.endpoint = region->endpoint,
                                                     .bucket = region->bucket,
                                                     .location = region->bucket_location,
                                                     .access_key_file = region->access_key_file,
                                                     .ca_file = region->ca_file,
                                                     .networks = region->endpoint_networks},
                                              .prefix = region->prefix};
    struct error why = {0};

    if (!driver_s3_check(&options, &why).ok) problems_say(problems, why.kind, "region %.63s: %.180s", region->title, why.message);
}

/* storage/ checks the forms; this finds parameters that are missing. */
static void check_bucket(const struct region_settings *region, struct problems *problems)
{
    char name[128];

    if (region->endpoint[0] != '\0' && region->bucket[0] != '\0' && region->bucket_location[0] != '\0' &&
        region->access_key_file[0] != '\0')
        check_bucket_form(region, problems);
    else
        problems_say(problems, ERROR_INVALID,
                     "region %.63s: driver = s3 needs endpoint, bucket, bucket_location and access_key_file", region->title);
    (void)snprintf(name, sizeof name, "region %.63s: access_key_file", region->title);
    check_file(name, region->access_key_file, problems);
    (void)snprintf(name, sizeof name, "region %.63s: ca_file", region->title);
    check_file(name, region->ca_file, problems);
}

/* As the database requires it (migrations/0001_tenancy.sql): "provider/region". */
static bool is_region_title(const char *title)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
    const size_t first = strspn(title, letters), second = title[first] == '/' ? strspn(title + first + 1, letters) : 0;

    return first > 0 && second > 0 && title[first + 1 + second] == '\0' && strlen(title) <= 63;
}

static void check_region(const struct region_settings *region, struct problems *problems)
{
    if (!is_region_title(region->title))
        problems_say(problems, ERROR_INVALID,
                     "region %.70s: a title is provider/region, of a-z, 0-9 and '-', and has at most 63 letters", region->title);
    if (region->driver[0] == '\0') return; /* a problem was reported */
    if (strcmp(region->driver, "fs") != 0 && strcmp(region->driver, "s3") != 0 && strcmp(region->driver, "memory") != 0)
        problems_say(problems, ERROR_INVALID, "region %.63s: driver = %.40s: fs, s3 or memory", region->title, region->driver);
    if (strcmp(region->driver, "fs") == 0 && region->location[0] != '/')
        problems_say(problems, ERROR_INVALID, "region %.63s: location: an absolute path", region->title);
    if (strcmp(region->driver, "s3") == 0) check_bucket(region, problems);
}

/* The database is in a region whose content another gateway may serve. */
static bool is_elsewhere(const struct settings *settings)
{
    struct peers peers;
    struct error ignored = {0};

    return peers_parse("region_peers", settings->region_peers, &peers, &ignored).ok &&
           peers_find(&peers, settings->metadata_region) != NULL;
}

static void check_regions(const struct settings *settings, struct problems *problems)
{
    if (settings->region_count == 0) {
        problems_say(problems, ERROR_INVALID, "there is no region: add region \"provider/region\" { driver = fs ... }");
        return;
    }
    for (size_t i = 0; i < settings->region_count; i++) check_region(&settings->regions[i], problems);
    if (settings->metadata_region[0] != '\0' && !has_region(settings, settings->metadata_region) && !is_elsewhere(settings))
        problems_say(problems, ERROR_INVALID, "metadata_region = %.63s: no region section has this title",
                     settings->metadata_region);
}

/* The reader of the file has reported missing parameters. */
static void check_names(const struct settings *settings, struct problems *problems)
{
    struct error why = {0};

    if (settings->public_url[0] != '\0' && !settings_is_public_url(settings->public_url))
        problems_say(problems, ERROR_INVALID, "public_url = %.100s: https://host or https://host:port, without a path",
                     settings->public_url);
    if (!hosts_check(settings->allowed_hosts, &why).ok) problems_add(problems, &why);
    if (!is_word(settings->service)) problems_say(problems, ERROR_INVALID, "service: letters, digits and . - _ : /");
    if (!is_word(settings->instance) || strlen(settings->instance) > 63)
        problems_say(problems, ERROR_INVALID, "instance: at most 63 letters, digits and . - _ : /");
}

static void check_witnesses(const struct settings *settings, struct problems *problems)
{
    struct networks networks;
    struct error why = {0};

    check_file("witness_policy", settings->witness_policy, problems);
    check_file("witness_ca_file", settings->witness_ca_file, problems);
    if (!networks_parse("witness_networks", settings->witness_networks, &networks, &why).ok) problems_add(problems, &why);
}

static void check_issuers(const struct settings *settings, struct problems *problems)
{
    struct networks networks;
    struct error why = {0};

    if (!text_consists_of(bytes_of_text(settings->step_up_acr),
                          "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~:/ ")) /* it goes into a header */
        problems_say(problems, ERROR_INVALID,
                     "step_up_acr = %.60s: values of letters, digits and -._~:/ with spaces between them", settings->step_up_acr);
    check_file("introspection_file", settings->introspection_file, problems);
    check_file("issuer_ca_file", settings->issuer_ca_file, problems);
    check_file("issuer_ca_folder", settings->issuer_ca_folder, problems);
    if (!networks_parse("issuer_networks", settings->issuer_networks, &networks, &why).ok) problems_add(problems, &why);
}

static bool fetches(const struct peers *peers)
{
    for (size_t i = 0; i < peers->count; i++)
        if (peers->each[i].url[0] != '\0') return true;
    return false;
}

static void check_mesh_files(const struct settings *settings, bool are_needed, struct problems *problems)
{
    const bool are_given = settings->peer_certificate[0] != '\0' && settings->peer_key[0] != '\0' && settings->peer_ca[0] != '\0';

    if (are_needed && !are_given)
        problems_say(problems, ERROR_INVALID,
                     "peer_listen_port and region_peers with a URL need peer_certificate, peer_key and peer_ca");
    check_file("peer_certificate", settings->peer_certificate, problems);
    check_file("peer_key", settings->peer_key, problems);
    check_file("peer_ca", settings->peer_ca, problems);
}

static void check_mesh(const struct settings *settings, struct problems *problems)
{
    struct peers peers = {.count = 0};
    struct networks networks;
    struct error why = {0};

    if (!peers_parse("region_peers", settings->region_peers, &peers, &why).ok) problems_add(problems, &why);
    for (size_t i = 0; i < peers.count; i++)
        if (has_region(settings, peers.each[i].region))
            problems_say(problems, ERROR_INVALID, "region_peers names %s, which this gateway serves itself",
                         peers.each[i].region);
    if (!networks_parse("peer_networks", settings->peer_networks, &networks, &why).ok) problems_add(problems, &why);
    if (!settings_is_address(settings->peer_listen_address))
        problems_say(problems, ERROR_INVALID, "peer_listen_address = %.60s: a numeric IP address", settings->peer_listen_address);
    check_mesh_files(settings, settings->peer_listen_port > 0 || fetches(&peers), problems);
}

void settings_examine(const struct settings *settings, struct problems *problems)
{
    enum log_level level;

    check_listening(settings, problems);
    check_names(settings, problems);
    check_peers_form(settings, problems);
    if (!log_level_find(settings->log_level, &level))
        problems_say(problems, ERROR_INVALID, "log_level = %.40s: debug, info, warning or error", settings->log_level);
    check_regions(settings, problems);
    check_file("tls_certificate", settings->tls_certificate, problems);
    check_file("tls_key", settings->tls_key, problems);
    check_file("tls_client_ca", settings->tls_client_ca, problems);
    check_witnesses(settings, problems);
    check_issuers(settings, problems);
    check_mesh(settings, problems);
}

struct result settings_check(const struct settings *settings, struct error *err)
{
    struct error first;
    struct problems problems = problems_first(&first);

    settings_examine(settings, &problems);
    return problems.count == 0 ? SUCCESS : failure(err, first.kind, "%s", first.message);
}

bool settings_read_all(const char *path, struct settings *settings, struct problems *problems)
{
    memset(settings, 0, sizeof *settings);
    if (!config_read_all(&form, path, settings, problems)) return false;
    settings_examine(settings, problems);
    return true;
}

struct result settings_read(const char *path, struct settings *settings, struct error *err)
{
    struct error first;
    struct problems problems = problems_first(&first);

    (void)settings_read_all(path, settings, &problems);
    return problems.count == 0 ? SUCCESS : failure(err, first.kind, "%.60s: %.190s", path, first.message);
}

struct result settings_sample(struct buffer *text, struct error *err)
{
    TRY(buffer_add_text(
        text, "# sijild.conf: every parameter with its default. Check a file with sijild --config=FILE --check-config.\n\n",
        err));
    return config_write_sample(&form, text, err);
}
