/* Bindings as rows: they are granted and revoked, on existing scopes, by another person, and in a limited number. */
#include "tests/integration/authz_fixture.h"

#include "authz/snapshot_priv.h"
#include "base/clock.h"

static void bindings_are_given_and_taken(void **state)
{
    struct fixture *fixture = *state;
    struct resource project = resource_of(RESOURCE_PROJECT, "acme/models"),
                    pattern = resource_of(RESOURCE_REPOSITORY, "acme/models/team/*"),
                    repository = resource_of(RESOURCE_REPOSITORY, "acme/models/team/digits");
    struct robot_create robot, foreign;
    struct binding_revoke revoke;
    struct binding_row row;
    struct uuid id;
    struct error err = {0};

    assert_true(make_robot(fixture->pg, "robot$acme+ci", "acme", &robot, &err));
    assert_true(make_robot(fixture->pg, "robot$beta+ci", "beta", &foreign, &err));
    assert_true(bind(fixture->pg, &robot.robot.id, ROLE_PUBLISHER, &pattern, &id, &err));
    assert_false(bind(fixture->pg, &robot.robot.id, ROLE_PUBLISHER, &pattern, NULL, &err));
    assert_int_equal(err.kind, ERROR_CONFLICT);
    assert_false(bind(fixture->pg, &foreign.robot.id, ROLE_PUBLISHER, &project, NULL, &err));
    assert_int_equal(err.kind, ERROR_NOT_FOUND);

    OWNED(authz_snapshot) *snapshot = load(fixture->pg);
    const struct principal principal = {.kind = PRINCIPAL_ROBOT, .id = robot.robot.id};
    struct authz_answer found = authz_snapshot_authorize(snapshot, &principal, ACTION_UPLOAD_BEGIN, &repository, clock_wall_ms());
    assert_int_equal(found.verdict, AUTHZ_ALLOWED);
    assert_true(uuid_equal(&found.binding, &id));

    OWNED(permit) *made = permit_of(ACTION_BINDING_CREATE, &pattern);
    assert_true(binding_find(made, fixture->pg, &id, &row, &err).ok);
    assert_string_equal(row.on, "acme/models/team/*");
    assert_string_equal(row.robot, "robot$acme+ci");
    assert_int_equal(row.binding.scope, RESOURCE_REPOSITORY);
    assert_true(uuid_equal(&row.binding.project, &project.project));
    struct resource scope = {.kind = row.binding.scope, .organisation = row.binding.organisation, .project = row.binding.project};
    uuid_format(&row.binding.id, scope.detail);
    binding_revoke_init(&revoke, &id, &(struct principal){.kind = PRINCIPAL_SYSTEM});
    assert_true(run(fixture->pg, &revoke.change, ACTION_BINDING_REVOKE, &scope, &err));
    assert_false(run(fixture->pg, &revoke.change, ACTION_BINDING_REVOKE, &scope, &err));
    assert_int_equal(err.kind, ERROR_NOT_FOUND);
    OWNED(authz_snapshot) *later = load(fixture->pg);
    assert_int_equal(authz_snapshot_authorize(later, &principal, ACTION_UPLOAD_BEGIN, &repository, clock_wall_ms()).verdict,
                     AUTHZ_INVISIBLE);

    /* An expired binding does not prevent a new one. */
    assert_true(bind(fixture->pg, &robot.robot.id, ROLE_CONSUMER, &project, NULL, &err));
    database_execute(fixture->database,
                     "UPDATE binding SET created_at = now() - interval '2 days', expires_at = now() - interval '1 day'");
    assert_true(bind(fixture->pg, &robot.robot.id, ROLE_CONSUMER, &project, NULL, &err));
    robot_create_done(&robot);
    robot_create_done(&foreign);
}

/* A scope with a missing id must not become the scope above it. */
static void a_scope_that_is_not_there_is_no_wider_one(void **state)
{
    struct fixture *fixture = *state;
    struct robot_create robot;
    struct resource gone[] = {resource_of(RESOURCE_ORGANISATION, "gone"), resource_of(RESOURCE_PROJECT, "acme/gone"),
                              resource_of(RESOURCE_REPOSITORY, "acme/gone/*"), resource_of(RESOURCE_PROJECT, "gone/gone")};
    struct error err = {0};

    assert_true(make_robot(fixture->pg, "robot$ci", NULL, &robot, &err));
    for (size_t i = 0; i < COUNT(gone); i++) {
        assert_false(bind(fixture->pg, &robot.robot.id, gone[i].kind == RESOURCE_ORGANISATION ? ROLE_ORG_ADMIN : ROLE_PUBLISHER,
                          &gone[i], NULL, &err));
        assert_int_equal(err.kind, ERROR_NOT_FOUND);
    }
    assert_string_equal(database_ask(fixture->database, "SELECT count(*)::text FROM binding"), "0");
    robot_create_done(&robot);
}

static void nobody_binds_himself(void **state)
{
    struct fixture *fixture = *state;
    struct resource project = resource_of(RESOURCE_PROJECT, "acme/models");
    struct principal self = {.kind = PRINCIPAL_EXTERNAL, .issuer = "https://i", .subject = "ci"};
    struct authz_binding wanted = {.kind = PRINCIPAL_EXTERNAL, .role = ROLE_CONSUMER, .issuer = "https://i", .subject = "ci"};
    struct binding_create create;
    struct error err = {0};

    principal_key(&self, wanted.granted_by);
    authz_grant_detail(&wanted, project.detail);
    binding_create_init(&create, &wanted, 0);
    assert_false(run(fixture->pg, &create.change, ACTION_BINDING_CREATE, &project, &err));
    assert_int_equal(err.kind, ERROR_DENIED);
    (void)snprintf(create.binding.granted_by, sizeof create.binding.granted_by, "system");
    assert_true(run(fixture->pg, &create.change, ACTION_BINDING_CREATE, &project, &err));
    assert_string_equal(database_ask(fixture->database, "SELECT subject FROM binding"), "ci");
}

static void bindings_of_one_principal_are_bounded(void **state)
{
    struct fixture *fixture = *state;
    struct resource project = resource_of(RESOURCE_PROJECT, "acme/models");
    struct error err = {0};

    database_execute(fixture->database,
                     "INSERT INTO binding (binding_id, issuer, subject, role, organisation_id, project_id, pattern, granted_by)"
                     " SELECT gen_random_uuid(), 'https://i', 'ci', 'consumer', '" ACME "', '" MODELS
                     "', 'acme/models/r' || n, 'system'"
                     " FROM generate_series(1, 256) n");
    assert_false(bind(fixture->pg, NULL, ROLE_CONSUMER, &project, NULL, &err));
    assert_int_equal(err.kind, ERROR_LIMIT);
    OWNED(authz_snapshot) *snapshot = load(fixture->pg);
    const struct principal principal = {.kind = PRINCIPAL_EXTERNAL, .issuer = "https://i", .subject = "ci"};
    assert_false(authz_snapshot_is_live(snapshot, &principal, clock_wall_ms())); /* its issuer is not trusted */

    /* The 256 bindings of one organisation used up the limit of all others for the same subject. */
    struct resource acme = resource_of(RESOURCE_ORGANISATION, "acme"), beta = resource_of(RESOURCE_ORGANISATION, "beta");
    struct resource all = resource_of(RESOURCE_SYSTEM, "");
    assert_false(bind(fixture->pg, NULL, ROLE_CONSUMER, &acme, NULL, &err));
    assert_int_equal(err.kind, ERROR_LIMIT);
    assert_true(bind(fixture->pg, NULL, ROLE_CONSUMER, &beta, NULL, &err));
    assert_true(bind(fixture->pg, NULL, ROLE_AUDITOR, &all, NULL, &err));
}

int main(void)
{
    const struct CMUnitTest others[] = {
        TEST(bindings_are_given_and_taken),
        TEST(a_scope_that_is_not_there_is_no_wider_one),
        TEST(nobody_binds_himself),
        TEST(bindings_of_one_principal_are_bounded),
    };

    return cmocka_run_group_tests_name("others", others, NULL, NULL);
}
