#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/sequencer.h"
#include "crypto/keyd_client.h"
#include "gateway/check.h"
#include "gateway/regions.h"
#include "gateway/tables.h"
#include "registry/maintenance.h"
#include "registry/registry.h"
#include "storage/migrate.h"
#include "supervision/user.h"

static bool check_database(const struct settings *settings, struct problems *problems)
{
    struct error why = {0};

    if (!storage_check_schema(settings->database, &why).ok) {
        problems_say(problems, why.kind, "database: %.240s", why.message);
        return false;
    }
    if (!storage_check_role(settings->database, &why).ok) problems_say(problems, why.kind, "database: %.240s", why.message);
    return true;
}

/* keyd closes connections of users that it does not know, and reports them only in its own log. */
static void check_keyd(const struct settings *settings, bool has_database, struct problems *problems)
{
    OWNED(keyd_client) *keyd = NULL;
    struct keyd_identity identity;
    struct error why = {0};

    struct result reached = keyd_client_new(settings->keyd_socket, (unsigned)settings->keyd_timeout, &keyd, &why);
    if (reached.ok) reached = keyd_identify(keyd, &identity, &why);
    if (!reached.ok && geteuid() == 0)
        problems_say(problems, why.kind,
                     "keyd_socket: %.120s. Is sijil-keyd started? If the gateway is not root, run this as its user: %s",
                     why.message, "runuser -u sijil -- sijild --check-config --online");
    else if (!reached.ok)
        problems_say(problems, why.kind, "keyd_socket: %.120s. Is sijil-keyd started, with --allow-uid=%u and --socket-group=%u?",
                     why.message, geteuid(), getegid());
    else if (has_database && !sequencer_check_identity(settings->database, &identity, &why).ok) problems_add(problems, &why);
}

/* If this process opened a folder of another user, the owner could not use the new subfolders. */
static bool check_folder(const struct region_settings *region, struct problems *problems)
{
    struct stat about;

    if (stat(region->location, &about) != 0) {
        problems_say(problems, ERROR_UNAVAILABLE, "region %.63s: location = %.100s: %s. Make it, for user %u: mode 700",
                     region->title, region->location, strerror(errno), geteuid());
        return false;
    }
    if (about.st_uid == geteuid() && access(region->location, R_OK | W_OK | X_OK) == 0) return true;
    problems_say(problems, ERROR_DENIED,
                 "region %.63s: location = %.90s belongs to user %u, mode %o; user %u can't use it: chown and chmod 700",
                 region->title, region->location, about.st_uid, about.st_mode & 07777, geteuid());
    return false;
}

static struct result open_registry(const struct settings *settings, const struct registry_region *regions, size_t count,
                                   struct registry **registry_out, struct error *err)
{
    struct registry_options options = {.database = settings->database,
                                       .region_count = count,
                                       .regions = regions,
                                       .key_lifetime_ms = 60000,
                                       .key_count = 16,
                                       .uploads_max = 1,
                                       .uploads_idle_max = 1};

    TRY(peers_parse("region_peers", settings->region_peers, &options.elsewhere, err));
    return registry_new(&options, registry_out, err);
}

static bool check_region(const struct settings *settings, const struct registry_region *region, struct pg *pg,
                         struct problems *problems)
{
    OWNED(registry) *registry = NULL;
    struct error why = {0};

    struct result good = open_registry(settings, region, 1, &registry, &why);
    if (good.ok) good = registry_check_regions(registry, pg, &why);
    if (!good.ok) problems_add(problems, &why);
    return good.ok;
}

/* Finds regions that have blobs but no section in the configuration. */
static void check_served(const struct settings *settings, const struct registry_region *regions, struct pg *pg,
                         struct problems *problems)
{
    OWNED(registry) *registry = NULL;
    struct error why = {0};

    struct result good = open_registry(settings, regions, settings->region_count, &registry, &why);
    if (good.ok) good = registry_check_served(registry, pg, &why);
    if (!good.ok) problems_add(problems, &why);
}

static void check_regions(const struct settings *settings, struct pg *pg, struct problems *problems)
{
    struct registry_region regions[SETTINGS_REGIONS_MAX];
    bool all = true;

    regions_of(settings, regions);
    for (size_t i = 0; i < settings->region_count; i++) {
        const bool is_folder = strcmp(regions[i].driver, "fs") == 0;
        const bool is_usable = !is_folder || check_folder(&settings->regions[i], problems);
        if (!is_usable || (pg != NULL && !check_region(settings, &regions[i], pg, problems))) all = false;
    }
    if (all && pg != NULL) check_served(settings, regions, pg, problems);
}

/* Root can use everything, so its check proves nothing, and its advice would be wrong. The gateway's user is the owner of the regions' folders. */
static bool is_other_than_gateway(const struct settings *settings, struct problems *problems)
{
    if (geteuid() != 0) return false;
    for (size_t i = 0; i < settings->region_count; i++) {
        const struct region_settings *region = &settings->regions[i];
        struct error ignored = {0};
        struct user user;
        struct stat about;
        if (strcmp(region->driver, "fs") != 0 || stat(region->location, &about) != 0 || about.st_uid == 0) continue;
        if (!user_of(about.st_uid, &user, &ignored).ok) continue;
        problems_say(problems, ERROR_DENIED,
                     "run this as the gateway's user, the owner of %.100s, and not as root: "
                     "runuser -u %.40s -- sijild --check-config --online",
                     region->location, user.name);
        return true;
    }
    return false;
}

void check_peers(const struct settings *settings, struct problems *problems)
{
    if (is_other_than_gateway(settings, problems)) return;
    OWNED(pg) *pg = NULL;
    struct error why = {0};
    const bool has_database = check_database(settings, problems);

    if (has_database && !pg_open(settings->database, gateway_tables, &pg, &why).ok)
        problems_say(problems, why.kind, "database: %.240s", why.message);
    if (pg != NULL && !pg_standby_check(pg, &why).ok) problems_say(problems, why.kind, "database: %.240s", why.message);
    check_keyd(settings, has_database, problems);
    check_regions(settings, pg, problems);
}
