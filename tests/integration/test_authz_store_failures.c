/*
 * Every query and every allocation of the tables of rights fails once: the error is reported, no result is written, and no row
 * changes.
 */
#include "authz/snapshot_load.h"
#include "tests/integration/authz_fixture.h"

#include "base/fault.h"

/* The objects of the attempts: an existing robot, binding and issuer. */
static struct known {
    struct fixture *fixture;
    struct pg *pg;
    struct uuid robot, binding;
    struct permit *robots, *bindings, *issuers, *creating, *trusting, *replacing;
} known;

static const struct issuer_record issuer = {
    .url = "https://i", .audience = "us", .algorithms = 1U << JOSE_ES256, .lifetime_max_s = 600, .jwks = JWKS};

static struct result look_at_robots(struct error *err)
{
    struct robot_identity found;
    struct robot_page page;
    char id[UUID_TEXT_SIZE];
    bool exists;

    TRY_UNTOUCHED_BYTES(exists, administrator_was_made(known.pg, &exists, err));
    uuid_format(&known.robot, id);
    TRY_UNTOUCHED_BYTES(found, robot_resolve(lookup_of(known.pg), id, &found, err));
    TRY_UNTOUCHED_BYTES(found, robot_resolve(lookup_of(known.pg), "robot$acme+ci", &found, err));
    TRY_UNTOUCHED_BYTES(page, robot_list(known.robots, known.pg, NULL, 10, &page, err));
    free(page.rows);
    return SUCCESS;
}

static struct result look_at_bindings(struct error *err)
{
    struct binding_row row;
    struct binding_page page;

    TRY_UNTOUCHED_BYTES(row, binding_find(known.creating, known.pg, &known.binding, &row, err));
    TRY_UNTOUCHED_BYTES(page, binding_list(known.bindings, known.pg, NULL, 10, &page, err));
    free(page.rows);
    return SUCCESS;
}

static struct result look_at_issuers(struct error *err)
{
    struct issuer_page page;

    TRY_UNTOUCHED_BYTES(page, issuer_list(known.issuers, known.pg, NULL, 10, &page, err));
    free(page.rows);
    return SUCCESS;
}

static struct result take_snapshot(struct error *err)
{
    OWNED(authz_snapshot) *snapshot = NULL;

    TRY_UNTOUCHED_BYTES(snapshot, authz_snapshot_load(known.pg, NULL, &snapshot, err));
    return SUCCESS;
}

static struct result begin_changes(struct error *err)
{
    const struct uuid organisation = uuid_of(ACME);
    char name[ROBOT_NAME_SIZE];
    struct robot_create create;
    struct issuer_trust trust;

    TRY_UNTOUCHED_BYTES(name, robot_name("acme", bytes_of_text("cd"), name, err));
    TRY_UNTOUCHED_BYTES(trust, issuer_trust_init(&trust, &issuer, err));
    TRY_UNTOUCHED_BYTES(create, robot_create_init(&create, name, &organisation, 60, err));
    robot_create_done(&create);
    return SUCCESS;
}

static struct result trust_and_bind(struct error *err)
{
    const struct resource project = resource_of(RESOURCE_PROJECT, "acme/models");
    const struct authz_binding wanted = {
        .kind = PRINCIPAL_ROBOT, .robot = known.robot, .role = ROLE_PUBLISHER, .granted_by = "system"};
    struct binding_create create;
    struct issuer_trust trust;

    binding_create_init(&create, &wanted, 60);
    create.binding.scope = RESOURCE_PROJECT;
    create.binding.organisation = project.organisation;
    create.binding.project = project.project;
    TRY(pg_begin(known.pg, err));
    TRY(issuer_trust_init(&trust, &issuer, err));
    TRY(trust.change.run(known.trusting, &trust.change, known.pg, err));
    TRY(binding_row_insert(known.pg, &create, err));
    return pg_commit(known.pg, err);
}

static struct result keep(void *context, const struct robot_create *create, struct error *err)
{
    (void)context, (void)create, (void)err;
    return SUCCESS;
}

static struct result make_administrator(struct error *err)
{
    struct robot_create create;

    TRY_UNTOUCHED_BYTES(create, administrator_draw(true, &create, err));
    const struct administrator_making making = {.replaces = true, .keep = keep};
    const struct result made = administrator_create(known.replacing, known.pg, &create, &making, err);
    robot_create_done(&create);
    return made;
}

static const struct way_row {
    const char *name;
    struct result (*run)(struct error *err);
    unsigned least;
    const char *changes; /* how many there are afterwards, or "" */
} way_rows[] = {
    {"robots are looked at", look_at_robots, 14, ""},
    {"bindings are looked at", look_at_bindings, 7, ""},
    {"issuers are looked at", look_at_issuers, 4, ""},
    {"a snapshot is taken", take_snapshot, 150, ""},
    {"changes are begun", begin_changes, 130, ""},
    {"an issuer is trusted, a role given", trust_and_bind, 150, "SELECT count(*) FROM binding WHERE role = 'publisher'"},
    {"an administrator is made", make_administrator, 50, "SELECT count(*) FROM robot WHERE name = 'robot$admin'"},
};

static void prepare(struct fixture *fixture)
{
    const struct uuid organisation = uuid_of(ACME);
    struct robot_create create;
    struct error err = {0};

    const struct resource all = {.kind = RESOURCE_SYSTEM};

    known = (struct known){.fixture = fixture,
                           .pg = fixture->pg,
                           .robots = permit_of(ACTION_ROBOT_READ, &all),
                           .bindings = permit_of(ACTION_BINDING_READ, &all),
                           .issuers = permit_of(ACTION_ISSUER_READ, &all),
                           .creating = permit_of(ACTION_BINDING_CREATE, &all),
                           .trusting = permit_of(ACTION_ISSUER_TRUST, &all),
                           .replacing = permit_of(ACTION_ADMINISTRATOR_REPLACE, &all)};
    assert_true(robot_create_init(&create, "robot$acme+ci", &organisation, 3600, &err).ok);
    (void)snprintf(create.created_by, sizeof create.created_by, "system");
    assert_true(robot_row_insert(known.pg, &create, &err).ok);
    known.robot = create.robot.id;
    robot_create_done(&create);
    const struct authz_binding wanted = {.kind = PRINCIPAL_ROBOT,
                                         .robot = known.robot,
                                         .role = ROLE_CONSUMER,
                                         .scope = RESOURCE_ORGANISATION,
                                         .organisation = organisation,
                                         .granted_by = "system"};
    struct binding_create bound;
    binding_create_init(&bound, &wanted, 0);
    assert_true(binding_row_insert(known.pg, &bound, &err).ok);
    known.binding = bound.binding.id;
    struct issuer_trust trust;
    assert_true(issuer_trust_init(&trust, &issuer, &err).ok);
    assert_true(trust.change.run(known.trusting, &trust.change, known.pg, &err).ok);
}

static void finish(void)
{
    struct permit *const permits[] = {known.robots,   known.bindings, known.issuers,
                                      known.creating, known.trusting, known.replacing};

    for (size_t i = 0; i < COUNT(permits); i++) permit_free(permits[i]);
}

/* A commit whose answer is lost may have taken effect. */
static void check_changes(const struct way_row *row, bool ok, const struct error *err)
{
    if (row->changes[0] == '\0' || err->kind == ERROR_UNCERTAIN) return;
    assert_string_equal(database_ask(known.fixture->database, row->changes), ok ? "1" : "0");
}

static void each_failure_is_said_and_changes_nothing(void **state)
{
    const struct way_row *row = *state;
    struct fixture *fixture;
    unsigned long nth = 1;
    struct error err;

    (void)set_up((void **)&fixture);
    prepare(fixture);
    for (bool has_fired = true; has_fired; nth++) {
        err = (struct error){ERROR_NONE, ""};
        fault_arm(nth);
        const bool ok = row->run(&err).ok;
        has_fired = fault_has_fired();
        fault_arm(0);
        if (ok == has_fired) fail_msg("failure %lu: %s", nth, ok ? "it is not said" : err.message);
        if (!ok) assert_true(err.kind == ERROR_NO_MEMORY || err.kind == ERROR_UNAVAILABLE || err.kind == ERROR_UNCERTAIN);
        pg_rollback(known.pg);
        if (pg_is_broken(known.pg)) assert_true(pg_reopen(known.pg, &err).ok);
        check_changes(row, ok, &err);
        if (err.kind == ERROR_UNCERTAIN)
            database_execute(fixture->database,
                             "DELETE FROM binding WHERE role <> 'consumer'; DELETE FROM robot WHERE name = 'robot$admin'");
    }
    assert_failures(nth - 2, row->least);
    finish();
    (void)tear_down((void **)&fixture);
}

int main(void)
{
    return RUN_TABLE(way_rows, each_failure_is_said_and_changes_nothing);
}
