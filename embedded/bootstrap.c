#include "embedded/bootstrap.h"

#include <stdio.h>
#include <string.h>

#include "audit/job_permit.h"
#include "audit/query.h"
#include "audit/sequencer.h"
#include "authz/administrator.h"
#include "authz/binding.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "crypto/keyd_client.h"
#include "documents/document_store.h"
#include "gateway/background/witness_feed.h"
#include "gateway/regions.h"
#include "gateway/tables.h"
#include "policy/decider/set_install.h"
#include "registry/project.h"
#include "storage/region_store.h"

#define FIRST_ORGANISATION "main"
#define FIRST_PROJECT      "main/models"
#define FIRST_LABEL        "{\"class\":\"confidential\"}"
#define FIRST_TRAINER      "robot$" FIRST_ORGANISATION "+trainer"

struct bootstrap {
    const struct bootstrap_options *options;
    struct keyd_client *keyd;
    struct keyd_identity identity;
    struct sequencer *sequencer;
    struct registry *registry;
    struct pg *pg;      /* statements of the bootstrap itself */
    struct pg *changes; /* statements of the gateway's changes */
    bool had_admin, made_admin;
};

static const struct pg_table *const bootstrap_tables[] = {&region_store_table, &policy_set_table,    &document_table,
                                                          &audit_tree_table,   &administrator_table, &robot_table,
                                                          &rights_table,       &binding_table,       NULL};

static struct result read_approver(const char *file, uint8_t point_out[ECDSA_PUBLIC_SIZE], struct error *err)
{
    struct buffer OWNED_BUFFER pem = BUFFER(ECDSA_PEM_MAX);
    OWNED(ecdsa_key) *key = NULL;

    TRY(file_read(file, &pem, err));
    TRY(ecdsa_key_from_pem(buffer_bytes(&pem), &key, err));
    ecdsa_key_public(key, point_out);
    return SUCCESS;
}

static struct result pin_approver(struct bootstrap *bootstrap, struct error *err)
{
    static const uint8_t none[ECDSA_PUBLIC_SIZE];
    const struct bootstrap_options *options = bootstrap->options;
    const uint8_t *const pinned = bootstrap->identity.approver_root;
    const bool is_pinned = memcmp(pinned, none, sizeof none) != 0;
    uint8_t point[ECDSA_PUBLIC_SIZE];

    if (is_pinned && (options->approver == NULL || !options->compares)) return SUCCESS;
    if (options->approver == NULL) return failure(err, ERROR_INVALID, "sijil-keyd has pinned no approver yet: give --approver");
    TRY(read_approver(options->approver, point, err));
    if (!is_pinned) return keyd_pin_approver(bootstrap->keyd, point, err);
    if (memcmp(pinned, point, sizeof point) == 0) return SUCCESS;
    return failure(err, ERROR_CONFLICT, "sijil-keyd has pinned another approver, for good, whose key signs policy sets for %s",
                   "'sijil policy load': leave --approver out");
}

static struct result add_region(struct bootstrap *bootstrap, const struct region_settings *settings, struct error *err)
{
    struct region region = {.driver = REGION_DRIVER_FS};

    if (strcmp(settings->driver, "memory") == 0) region.driver = REGION_DRIVER_MEMORY;
    if (strcmp(settings->driver, "s3") == 0) region.driver = REGION_DRIVER_S3;
    (void)snprintf(region.id, sizeof region.id, "%.63s", settings->title);
    if (region.driver == REGION_DRIVER_S3)
        (void)snprintf(region.location, sizeof region.location, "%.255s/%.63s/%.127s", settings->endpoint, settings->bucket,
                       settings->prefix);
    else
        (void)snprintf(region.location, sizeof region.location, "%s",
                       settings->location[0] != '\0' ? settings->location : settings->driver);
    const struct result added = region_insert(bootstrap->pg, &region, err);
    return added.ok || err->kind == ERROR_CONFLICT ? SUCCESS : added;
}

static struct result add_regions(struct bootstrap *bootstrap, struct error *err)
{
    const struct settings *settings = bootstrap->options->settings;

    for (size_t i = 0; i < settings->region_count; i++) TRY(add_region(bootstrap, &settings->regions[i], err));
    return SUCCESS;
}

static struct result permit(struct bootstrap *bootstrap, enum action action, const struct resource *resource,
                            struct permit **permit_out, struct error *err)
{
    const struct action_pair pair = {.action = action, .resource = *resource};

    return permit_for_job(bootstrap->sequencer, &pair, permit_out, err);
}

static struct policy_set_source source_of(const struct bootstrap *bootstrap)
{
    return (struct policy_set_source){.pg = bootstrap->pg, .keyd = bootstrap->keyd, .sequencer = bootstrap->sequencer};
}

/* If an interrupted bootstrap has recorded a set, that set is pinned and no new one is recorded. */
static struct result install_policy(struct bootstrap *bootstrap, struct error *err)
{
    const struct bootstrap_options *options = bootstrap->options;
    struct policy_set_source source = source_of(bootstrap);
    struct buffer OWNED_BUFFER envelope = BUFFER(POLICY_SET_ENVELOPE_MAX);
    OWNED(policy_set) *set = NULL;

    TRY(policy_set_load(&source, NULL, &set, err));
    if (set != NULL && (options->policy_set == NULL || !options->compares)) return SUCCESS;
    if (options->policy_set == NULL) return failure(err, ERROR_INVALID, "no policy set is in force yet: give --policy-set");
    TRY(file_read(options->policy_set, &envelope, err));
    if (set != NULL) return policy_set_check_repeated(&source, buffer_bytes(&envelope), set, err);
    return policy_set_install(&source, buffer_bytes(&envelope), err);
}

static struct result warn_of_unlisted(struct bootstrap *bootstrap, struct error *err)
{
    const struct settings *settings = bootstrap->options->settings;
    struct policy_set_source source = source_of(bootstrap);
    OWNED(policy_set) *set = NULL;

    TRY(policy_set_load(&source, NULL, &set, err));
    for (size_t i = 0; set != NULL && i < settings->region_count; i++)
        if (policy_set_region(set, settings->regions[i].title, INT64_MIN) == NULL)
            log_line(LOG_WARNING,
                     "the policy set does not list this region, so rules about its place and its operator can't permit it: "
                     "list it in a new set, and load that with 'sijil policy load'",
                     "region", settings->regions[i].title, NULL);
    return SUCCESS;
}

static struct resource named(enum resource_kind kind, const char *name)
{
    struct resource resource = {.kind = kind};

    (void)snprintf(resource.name, sizeof resource.name, "%s", name);
    return resource;
}

/* Runs before the commit: a robot without a known secret would be useless, and an administrator would block the next try. */
static struct result write_robot(const struct bootstrap_options *options, int file, const struct robot_create *robot,
                                 struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(2048);
    char expires[CLOCK_TEXT_SIZE], id[UUID_TEXT_SIZE];

    clock_format(robot->robot.expires_ms, expires);
    uuid_format(&robot->robot.id, id);
    TRY(buffer_format(&text, err, "{\"username\":\"%s\",\"password\":\"%s\",\"url\":\"%s\",\"expires\":\"%s\",\"id\":\"%s\"}\n",
                      robot->robot.name, (const char *)robot->secret->bytes, options->settings->public_url, expires, id));
    struct result written = file_write_all(file, text.data, text.length, err);
    if (written.ok) written = file_sync(file, err);
    secret_wipe(text.data, text.length);
    return written;
}

/* A robot that pushes and trains. It counts as the administrator's person, so it approves nothing that the administrator has asked for. */
struct trainer {
    struct robot_create robot;
    struct binding_create bindings[2];
    struct permit *permits[3]; /* for the robot, and the two bindings */
};

static struct result permit_bindings(struct bootstrap *bootstrap, const struct resource *project, struct trainer *trainer,
                                     struct error *err)
{
    static const enum role roles[] = {ROLE_PUBLISHER, ROLE_TRAINER};

    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        const struct authz_binding wanted = {
            .kind = PRINCIPAL_ROBOT, .robot = trainer->robot.robot.id, .role = roles[i], .granted_by = "system"};
        struct resource scope = *project;
        authz_grant_detail(&wanted, scope.detail);
        binding_create_init(&trainer->bindings[i], &wanted, 0);
        TRY(permit(bootstrap, ACTION_BINDING_CREATE, &scope, &trainer->permits[i + 1], err));
    }
    return SUCCESS;
}

/* The permits come before the transaction, because each is recorded in a transaction of its own. */
static struct result prepare_trainer(struct bootstrap *bootstrap, const struct project_create *made, struct trainer *trainer,
                                     struct error *err)
{
    struct resource organisation = named(RESOURCE_ORGANISATION, FIRST_ORGANISATION), project = made->where;

    if (!bootstrap->options->makes_trainer) return SUCCESS;
    organisation.organisation = project.organisation;
    project.project = made->project;
    TRY(robot_create_init(&trainer->robot, FIRST_TRAINER, &project.organisation, ROBOT_SECONDS_MAX, err));
    trainer->robot.is_administrator = bootstrap->options->admin_is_person;
    (void)snprintf(trainer->robot.created_by, sizeof trainer->robot.created_by, "system");
    (void)snprintf(organisation.detail, sizeof organisation.detail, "%.128s", trainer->robot.detail);
    TRY(permit(bootstrap, ACTION_ROBOT_CREATE, &organisation, &trainer->permits[0], err));
    return permit_bindings(bootstrap, &project, trainer, err);
}

static struct result add_trainer(struct bootstrap *bootstrap, struct trainer *trainer, struct error *err)
{
    const struct bootstrap_options *options = bootstrap->options;

    if (!options->makes_trainer) return SUCCESS;
    TRY(trainer->robot.change.run(trainer->permits[0], &trainer->robot.change, bootstrap->changes, err));
    for (size_t i = 0; i < 2; i++)
        TRY(trainer->bindings[i].change.run(trainer->permits[i + 1], &trainer->bindings[i].change, bootstrap->changes, err));
    return write_robot(options, options->trainer_fd, &trainer->robot, err);
}

static void trainer_done(struct trainer *trainer)
{
    for (size_t i = 0; i < 3; i++) permit_free(trainer->permits[i]);
    robot_create_done(&trainer->robot);
}

struct first {
    struct organisation_create organisation;
    struct project_create project;
    struct trainer trainer;
};

static struct result run_all(struct bootstrap *bootstrap, struct first *made, struct error *err)
{
    OWNED(permit) *first = NULL;
    OWNED(permit) *second = NULL;

    TRY(permit(bootstrap, ACTION_ORGANISATION_CREATE, &made->organisation.where, &first, err));
    TRY(permit(bootstrap, ACTION_PROJECT_CREATE, &made->project.where, &second, err));
    TRY(prepare_trainer(bootstrap, &made->project, &made->trainer, err));
    TRY(pg_begin(bootstrap->changes, err));
    TRY(made->organisation.change.run(first, &made->organisation.change, bootstrap->changes, err));
    TRY(made->project.change.run(second, &made->project.change, bootstrap->changes, err));
    TRY(add_trainer(bootstrap, &made->trainer, err));
    return pg_commit(bootstrap->changes, err);
}

/* In one transaction, so that an interrupted start leaves all or nothing. */
static struct result add_project(struct bootstrap *bootstrap, struct error *err)
{
    const struct resource organisation = named(RESOURCE_ORGANISATION, FIRST_ORGANISATION);
    struct resource project = named(RESOURCE_PROJECT, FIRST_PROJECT);
    struct first first = {.organisation = {.label = NULL}};

    TRY(organisation_create_prepare(&organisation, "{}", &first.organisation, err));
    project.organisation = first.organisation.organisation;
    (void)snprintf(project.region, sizeof project.region, "%.63s", bootstrap->options->settings->metadata_region);
    TRY(project_create_prepare(bootstrap->registry, &project, FIRST_LABEL, &first.project, err));
    const struct result made = run_all(bootstrap, &first, err);
    trainer_done(&first.trainer);
    pg_rollback(bootstrap->changes);
    return made.ok || err->kind == ERROR_CONFLICT ? SUCCESS : made;
}

static struct result write_admin(void *context, const struct robot_create *robot, struct error *err)
{
    const struct bootstrap_options *options = context;

    return write_robot(options, options->admin_fd, robot, err);
}

static struct result create_administrator(struct bootstrap *bootstrap, struct robot_create *robot, struct error *err)
{
    const enum action action = bootstrap->had_admin ? ACTION_ADMINISTRATOR_REPLACE : ACTION_ROBOT_CREATE;
    struct resource what = {.kind = RESOURCE_SYSTEM};
    OWNED(permit) *create = NULL;

    (void)snprintf(what.detail, sizeof what.detail, "%.128s", robot->detail);
    TRY(permit(bootstrap, action, &what, &create, err));
    struct bootstrap_options options = *bootstrap->options;
    const struct administrator_making making = {.replaces = bootstrap->had_admin, .keep = write_admin, .context = &options};
    return administrator_create(create, bootstrap->pg, robot, &making, err);
}

static struct result add_administrator(struct bootstrap *bootstrap, struct error *err)
{
    struct robot_create robot = {0};

    if (bootstrap->had_admin && bootstrap->options->admin == BOOTSTRAP_ADMIN_ONCE) return SUCCESS;
    TRY(administrator_draw(bootstrap->options->admin_is_person, &robot, err));
    const struct result made = create_administrator(bootstrap, &robot, err);
    robot_create_done(&robot);
    bootstrap->made_admin = made.ok;
    return made;
}

/* Runs first, so that a bootstrap that can't be finished changes nothing. */
static struct result find_administrator(struct bootstrap *bootstrap, struct error *err)
{
    const struct bootstrap_options *options = bootstrap->options;

    TRY(administrator_was_made(bootstrap->pg, &bootstrap->had_admin, err));
    if (options->admin_fd >= 0 || (bootstrap->had_admin && options->admin == BOOTSTRAP_ADMIN_ONCE)) return SUCCESS;
    return failure(err, ERROR_CONFLICT,
                   "there is no administrator yet, and the file for its secret is there already: name another");
}

static struct result open_sequencer(struct bootstrap *bootstrap, struct error *err)
{
    const struct settings *settings = bootstrap->options->settings;
    struct sequencer_options options = {.conninfo = settings->database,
                                        .tables = gateway_tables,
                                        .keyd = bootstrap->keyd,
                                        .deadline_ms = (unsigned)settings->record_timeout};

    memcpy(options.origin, bootstrap->identity.origin, sizeof options.origin);
    /* A gateway may be running under the plain name. */
    (void)snprintf(options.instance, sizeof options.instance, "%.57s.found", settings->instance);
    return sequencer_start(&options, &bootstrap->sequencer, err);
}

static struct result open_registry(struct bootstrap *bootstrap, struct error *err)
{
    const struct settings *settings = bootstrap->options->settings;
    struct registry_region regions[SETTINGS_REGIONS_MAX];
    const struct registry_options options = {.keyd = bootstrap->keyd,
                                             .sequencer = bootstrap->sequencer,
                                             .database = settings->database,
                                             .region_count = settings->region_count,
                                             .regions = regions,
                                             .key_lifetime_ms = 60000,
                                             .key_count = 16,
                                             .uploads_max = 1,
                                             .uploads_idle_max = 1};

    regions_of(settings, regions);
    return registry_new(&options, &bootstrap->registry, err);
}

static struct result open_all(struct bootstrap *bootstrap, struct error *err)
{
    const struct settings *settings = bootstrap->options->settings;

    TRY(keyd_client_new(settings->keyd_socket, (unsigned)settings->keyd_timeout, &bootstrap->keyd, err));
    TRY(keyd_identify(bootstrap->keyd, &bootstrap->identity, err));
    const struct witness_feed_options witnesses = {settings, bootstrap->keyd, &bootstrap->identity};
    TRY(pg_open(settings->database, bootstrap_tables, &bootstrap->pg, err));
    TRY(pg_open_lazily(settings->database, gateway_tables, &bootstrap->changes, err));
    TRY(witness_feed_ask_once(&witnesses, err));
    TRY(open_sequencer(bootstrap, err));
    return open_registry(bootstrap, err);
}

static struct result make_all(struct bootstrap *bootstrap, struct error *err)
{
    TRY(open_all(bootstrap, err));
    TRY(find_administrator(bootstrap, err));
    TRY(pin_approver(bootstrap, err));
    TRY(install_policy(bootstrap, err));
    TRY(add_regions(bootstrap, err));
    TRY(warn_of_unlisted(bootstrap, err));
    TRY(add_project(bootstrap, err));
    return add_administrator(bootstrap, err);
}

static struct result make_administrator(struct bootstrap *bootstrap, struct error *err)
{
    TRY(open_all(bootstrap, err));
    TRY(find_administrator(bootstrap, err));
    if (!bootstrap->had_admin)
        return failure(err, ERROR_INVALID, "there was no administrator yet: sijild --found=FILE makes the first one");
    return add_administrator(bootstrap, err);
}

static void close_all(struct bootstrap *bootstrap)
{
    registry_free(bootstrap->registry);
    sequencer_free(bootstrap->sequencer);
    pg_free(bootstrap->changes);
    pg_free(bootstrap->pg);
    keyd_client_free(bootstrap->keyd);
}

struct result bootstrap_registry(const struct bootstrap_options *options, bool *made_admin_out, struct error *err)
{
    struct bootstrap bootstrap = {.options = options};
    const struct result made = make_all(&bootstrap, err);

    close_all(&bootstrap);
    if (made.ok) *made_admin_out = bootstrap.made_admin;
    return made;
}

struct result bootstrap_administrator(const struct bootstrap_options *options, struct error *err)
{
    struct bootstrap bootstrap = {.options = options};
    const struct result made = make_administrator(&bootstrap, err);

    close_all(&bootstrap);
    return made;
}
