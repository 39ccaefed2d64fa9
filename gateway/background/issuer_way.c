#include "gateway/background/issuer_way.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct result open_way(const struct settings *settings, const char *ca_file, struct outgoing **way_out, struct error *err)
{
    struct networks networks = {0};

    TRY(networks_parse("issuer_networks", settings->issuer_networks, &networks, err));
    const struct outgoing_options rules = {.reach = networks.count == 0 ? OUTGOING_PUBLIC : OUTGOING_LISTED,
                                           .networks = networks,
                                           .ca_file = ca_file,
                                           .takes_tls12 = true};
    return outgoing_new(&rules, way_out, err);
}

struct result issuer_way_new(const struct settings *settings, struct outgoing **way_out, struct error *err)
{
    return open_way(settings, settings->issuer_ca_file, way_out, err);
}

/* A folder that is away, one that may not be searched, and a link to nowhere do not mean that any authority will do. */
static bool is_absent(const char *folder, const char *path)
{
    struct stat found;

    return access(folder, X_OK) == 0 && lstat(path, &found) != 0 && errno == ENOENT;
}

/* The URL of an issuer has a host in small letters, without a user (authz/issuer.h), so this is a name of a file. */
struct result issuer_way_own(const struct settings *settings, const char *url, struct outgoing **way_out, struct error *err)
{
    static const char scheme[] = "https://";
    const char *host = strncmp(url, scheme, sizeof scheme - 1) == 0 ? url + sizeof scheme - 1 : "";
    struct buffer OWNED_BUFFER path = BUFFER(OUTGOING_PATH_SIZE - 1);

    *way_out = NULL;
    if (settings->issuer_ca_folder[0] == '\0' || host[0] == '\0') return SUCCESS;
    TRY(buffer_format(&path, err, "%s/%.*s.pem", settings->issuer_ca_folder, (int)strcspn(host, "/"), host));
    if (is_absent(settings->issuer_ca_folder, buffer_text(&path))) return SUCCESS;
    return open_way(settings, buffer_text(&path), way_out, err);
}
