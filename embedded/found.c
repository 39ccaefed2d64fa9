/* What a registry has before anybody has logged in. Runs as the gateway, under permits, like any other
 * change. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "audit/sequencer.h"
#include "authz/administrator.h"
#include "authz/binding.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "crypto/keyd_client.h"
#include "embedded/embedded_priv.h"
#include "gateway/tables.h"
#include "policy/set_load.h"
#include "registry/project.h"
#include "storage/region_store.h"

#define FIRST_ORGANISATION "main"
#define FIRST_PROJECT      "main/models"
#define FIRST_LABEL        "{\"class\":\"confidential\"}"

struct founding {
    const struct embedded *embedded;
    struct keyd_client *keyd;
    struct keyd_identity identity;
    struct sequencer *sequencer;
    struct registry *registry;
    struct pg *pg;      /* statements of the founding itself */
    struct pg *changes; /* those of the gateway's changes */
    int admin_file;     /* opened by the supervisor: what we write there we can't read again */
};

static const struct pg_table *const founding_tables[] = {
    &region_store_table, &policy_set_table, &administrator_table, &robot_table, &binding_table, NULL};

static struct result read_officer_file(const struct embedded *embedded, const char *name,
                                       struct buffer *content, struct error *err)
{
    char path[PATH_SIZE];

    TRY(path_join(path, embedded->place.officer, name, err));
    return file_read(path, content, err);
}

static struct result pin_approver(struct founding *founding, struct error *err)
{
    static const uint8_t none[ECDSA_PUBLIC_SIZE];
    struct buffer OWNED_BUFFER pem = BUFFER(ECDSA_PEM_MAX);
    OWNED(ecdsa_key) *key = NULL;
    uint8_t point[ECDSA_PUBLIC_SIZE];

    if (memcmp(founding->identity.approver_root, none, sizeof none) != 0) return SUCCESS;
    TRY(read_officer_file(founding->embedded, "approver.pub.pem", &pem, err));
    TRY(ecdsa_key_from_pem(buffer_bytes(&pem), &key, err));
    ecdsa_key_public(key, point);
    return keyd_pin_approver(founding->keyd, point, err);
}

static struct result add_region(struct founding *founding, struct error *err)
{
    const struct region_settings *settings = &founding->embedded->settings.regions[0];
    struct region region = {.driver = REGION_DRIVER_FS};

    (void)snprintf(region.id, sizeof region.id, "%.63s", settings->title);
    (void)snprintf(region.location, sizeof region.location, "%s", settings->location);
    const struct result added = region_insert(founding->pg, &region, err);
    return added.ok || err->kind == ERROR_CONFLICT ? SUCCESS : added;
}

static struct result permit(struct founding *founding, enum action action, const struct resource *resource,
                            struct permit **permit_out, struct error *err)
{
    const struct action_pair pair = {.action = action, .resource = *resource};

    return permit_for_job(founding->sequencer, &pair, permit_out, err);
}

static struct result install_policy(struct founding *founding, struct error *err)
{
    static const struct resource system = {.kind = RESOURCE_SYSTEM};
    struct buffer OWNED_BUFFER envelope = BUFFER(POLICY_SET_ENVELOPE_MAX);
    OWNED(permit) *load = NULL;

    if (founding->identity.policy_epoch > 0) return SUCCESS;
    TRY(read_officer_file(founding->embedded, "policy-set.json", &envelope, err));
    TRY(permit(founding, ACTION_POLICY_LOAD, &system, &load, err));
    return policy_set_install(founding->pg, founding->keyd, load, buffer_bytes(&envelope), err);
}

static struct resource named(enum resource_kind kind, const char *name)
{
    struct resource resource = {.kind = kind};

    (void)snprintf(resource.name, sizeof resource.name, "%s", name);
    return resource;
}

static struct result run_both(struct founding *founding, struct organisation_create *organisation,
                              struct project_create *project, struct error *err)
{
    OWNED(permit) *first = NULL;
    OWNED(permit) *second = NULL;

    TRY(permit(founding, ACTION_ORGANISATION_CREATE, &organisation->where, &first, err));
    TRY(permit(founding, ACTION_PROJECT_CREATE, &project->where, &second, err));
    TRY(pg_begin(founding->changes, err));
    TRY(organisation->change.run(&organisation->change, founding->changes, first, err));
    TRY(project->change.run(&project->change, founding->changes, second, err));
    return pg_commit(founding->changes, err);
}

/* Both or none, so that a start that was interrupted finds either. */
static struct result add_project(struct founding *founding, struct error *err)
{
    const struct resource organisation = named(RESOURCE_ORGANISATION, FIRST_ORGANISATION);
    struct resource project = named(RESOURCE_PROJECT, FIRST_PROJECT);
    struct organisation_create organisation_change;
    struct project_create project_change;

    TRY(organisation_create_prepare(&organisation, "{}", &organisation_change, err));
    project.organisation = organisation_change.organisation;
    (void)snprintf(project.region, sizeof project.region, "%.63s",
                   founding->embedded->settings.metadata_region);
    TRY(project_create_prepare(founding->registry, &project, FIRST_LABEL, &project_change, err));
    const struct result made = run_both(founding, &organisation_change, &project_change, err);
    pg_rollback(founding->changes);
    return made.ok || err->kind == ERROR_CONFLICT ? SUCCESS : made;
}

static struct result write_admin(const struct founding *founding, const struct robot_create *robot,
                                 struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(2048);
    char expires[CLOCK_TEXT_SIZE];

    clock_format(robot->robot.expires_ms, expires);
    TRY(buffer_format(&text, err,
                      "{\"username\":\"%s\",\"password\":\"%s\",\"url\":\"%s\",\"expires\":\"%s\"}\n",
                      robot->robot.name, (const char *)robot->secret->bytes,
                      founding->embedded->settings.public_url, expires));
    struct result written = file_write_all(founding->admin_file, text.data, text.length, err);
    if (written.ok) written = file_sync(founding->admin_file, err);
    secret_wipe(text.data, text.length);
    return written;
}

static struct result add_administrator(struct founding *founding, struct error *err)
{
    static const struct resource system = {.kind = RESOURCE_SYSTEM};
    OWNED(permit) *create = NULL;
    struct robot_create robot = {0};

    TRY(permit(founding, ACTION_ROBOT_CREATE, &system, &create, err));
    TRY(administrator_create(founding->pg, &robot, err));
    const struct result written = write_admin(founding, &robot, err);
    robot_create_done(&robot);
    return written;
}

static struct result open_sequencer(struct founding *founding, struct error *err)
{
    const struct settings *settings = &founding->embedded->settings;
    struct sequencer_options options = {.conninfo = settings->database,
                                        .tables = gateway_tables,
                                        .keyd = founding->keyd,
                                        .deadline_ms = (unsigned)settings->record_timeout};

    memcpy(options.origin, founding->identity.origin, sizeof options.origin);
    (void)snprintf(options.instance, sizeof options.instance, "%.63s", settings->instance);
    return sequencer_start(&options, &founding->sequencer, err);
}

static struct result open_registry(struct founding *founding, struct error *err)
{
    const struct region_settings *settings = &founding->embedded->settings.regions[0];
    const struct registry_region region = {
        .id = settings->title, .driver = settings->driver, .location = settings->location};
    const struct registry_options options = {.keyd = founding->keyd,
                                             .sequencer = founding->sequencer,
                                             .region_count = 1,
                                             .regions = &region,
                                             .key_lifetime_ms = 60000,
                                             .key_count = 16,
                                             .uploads_max = 1,
                                             .uploads_idle_max = 1};

    return registry_new(&options, &founding->registry, err);
}

static struct result open_all(struct founding *founding, struct error *err)
{
    const struct settings *settings = &founding->embedded->settings;

    TRY(keyd_client_new(settings->keyd_socket, (unsigned)settings->keyd_timeout, &founding->keyd, err));
    TRY(keyd_identify(founding->keyd, &founding->identity, err));
    TRY(pg_open(settings->database, founding_tables, &founding->pg, err));
    TRY(pg_open(settings->database, gateway_tables, &founding->changes, err));
    TRY(open_sequencer(founding, err));
    return open_registry(founding, err);
}

static struct result make_all(struct founding *founding, struct error *err)
{
    TRY(open_all(founding, err));
    TRY(pin_approver(founding, err));
    TRY(add_region(founding, err));
    TRY(install_policy(founding, err));
    TRY(add_project(founding, err));
    return add_administrator(founding, err);
}

static struct result found(void *context, struct error *err)
{
    struct founding *founding = context;
    const struct result made = make_all(founding, err);

    registry_free(founding->registry);
    sequencer_free(founding->sequencer);
    pg_free(founding->changes);
    pg_free(founding->pg);
    keyd_client_free(founding->keyd);
    return made;
}

/* Once, or when a new administrator is asked for; what was interrupted is done again. */
struct result found_all(struct embedded *embedded, struct error *err)
{
    char marker[PATH_SIZE], fresh[PATH_SIZE + 4];
    OWNED_FD file = -1;

    TRY(path_join(marker, embedded->place.directory, "founded", err));
    if (file_exists(marker) && !embedded->options.new_admin) return SUCCESS;
    (void)snprintf(fresh, sizeof fresh, "%s.new", embedded->place.admin);
    TRY(file_open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600, &file, err));
    struct founding founding = {.embedded = embedded, .admin_file = file};
    TRY(step_run(&embedded->users.gateway, found, &founding, err));
    if (rename(fresh, embedded->place.admin) != 0)
        return failure(err, ERROR_UNAVAILABLE, "can't rename %s: %s", fresh, strerror(errno));
    log_line(LOG_INFO, "made an administrator", "file", embedded->place.admin, NULL);
    return file_replace(marker, bytes_of_text("1\n"), 0644, err);
}
