/* Bindings as rows: they are granted and revoked, on existing scopes, by another person, and in a limited number. */
#include "tests/integration/authz_fixture.h"

#include "authz/snapshot_priv.h"
#include "base/clock.h"
#include "storage/pg_table.h"

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

/* ---- several at once, as the sequencer gives them ---- */

enum { SETS = 60, TOGETHER = 3, GIVERS = 3, GRANTEES = 4, PLACES = 4 };

struct several {
    struct binding_create creates[TOGETHER];
    struct resource places[TOGETHER];
    struct permit *permits[TOGETHER];
    struct change *changes[TOGETHER];
};

static unsigned next_of(unsigned *seed, unsigned below)
{
    *seed = *seed * 1103515245 + 12345;
    return (*seed >> 16) % below;
}

/* Few of each, so that two of a set often want the same, or a giver is behind the grantee. */
static void want(struct several *several, size_t at, unsigned *seed, const struct uuid robots[2])
{
    static const enum role roles[] = {ROLE_CONSUMER, ROLE_TRAINER};
    static const char *const subjects[] = {"ci", "anna"};
    struct resource places[PLACES] = {resource_of(RESOURCE_ORGANISATION, "acme"), resource_of(RESOURCE_PROJECT, "acme/models"),
                                      resource_of(RESOURCE_REPOSITORY, "acme/models/team/*"), resource_of(RESOURCE_SYSTEM, "")};
    struct principal giver = {.kind = PRINCIPAL_EXTERNAL, .issuer = "https://i", .subject = "anna"};
    struct authz_binding wanted = {.kind = PRINCIPAL_ROBOT, .role = roles[next_of(seed, 2)]};
    const unsigned grantee = next_of(seed, GRANTEES), who = next_of(seed, GIVERS);

    several->places[at] = places[next_of(seed, PLACES)];
    if (!binding_allows_scope(&wanted, several->places[at].kind)) several->places[at] = places[1];
    if (grantee < 2) {
        wanted.robot = robots[grantee];
    } else {
        wanted.kind = PRINCIPAL_EXTERNAL;
        (void)snprintf(wanted.issuer, sizeof wanted.issuer, "https://i");
        (void)snprintf(wanted.subject, sizeof wanted.subject, "%s", subjects[grantee - 2]);
    }
    if (who == 0) giver = (struct principal){.kind = PRINCIPAL_ROBOT, .id = robots[1]};
    principal_key(&giver, wanted.granted_by);
    if (who == 2) (void)snprintf(wanted.granted_by, sizeof wanted.granted_by, "system");
    authz_grant_detail(&wanted, several->places[at].detail);
    binding_create_init(&several->creates[at], &wanted, next_of(seed, 2) == 0 ? 0 : 3600);
    if (who == 1) (void)snprintf(several->creates[at].granter_issuer, sizeof several->creates[at].granter_issuer, "https://i");
    several->permits[at] = permit_of(ACTION_BINDING_CREATE, &several->places[at]);
    several->changes[at] = &several->creates[at].change;
    assert_int_equal(several->changes[at]->invalidates,
                     CHANGE_INVALIDATES_NOTHING); /* each grant had all cached manifests read again */
}

static const struct pg_statement test_bindings_sql = {
    "test_bindings",
    "SELECT coalesce(string_agg(concat_ws('|', binding_id, robot_id, issuer, subject, role, organisation_id, project_id, pattern, granted_by, expires_at - now(),"
    " giver, giver_issuer), E'\\n' ORDER BY binding_id), '')"
    " || bool_and(changed_epoch > $1 AND changed_epoch <= (SELECT epoch FROM authorization_epoch)) FROM binding WHERE created_at = now()",
    "int8", "text"};
static const struct pg_statement *const several_statements[] = {&test_bindings_sql};
static const struct pg_table several_table = PG_TABLE(several_statements);

static void look(struct pg *pg, char text_out[4096])
{
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;
    struct error err = {0};

    pg_add_int8(&arguments, 0); /* the epoch of rows that nobody raised */
    assert_true(pg_run(pg, &test_bindings_sql, &arguments, &rows, &err).ok);
    (void)snprintf(text_out, 4096, "%s", pg_text(rows, 0, 0));
}

/* Each alone: false if one of them is refused. */
static bool give_one_by_one(struct pg *pg, struct several *several, char text_out[4096])
{
    struct error err = {0};
    bool all = true;

    assert_true(pg_begin(pg, &err).ok);
    for (size_t i = 0; i < TOGETHER && all; i++)
        all = several->changes[i]->run(several->permits[i], several->changes[i], pg, &err).ok;
    if (all) look(pg, text_out);
    pg_rollback(pg);
    return all;
}

static bool give_at_once(struct pg *pg, struct several *several, char text_out[4096])
{
    struct pg_rows *rows[2] = {NULL};
    struct error err = {0};

    assert_true(pg_pipeline_begin(pg, &err).ok);
    assert_true(
        several->changes[0]->add_all((const struct permit *const *)several->permits, several->changes, TOGETHER, pg, &err).ok);
    const bool all = pg_pipeline_run(pg, rows, 2, &err).ok;
    assert_false(pg_is_broken(pg));
    for (size_t i = 0; i < TOGETHER && all; i++) {
        several->changes[i]->row = i;
        several->changes[i]->take(several->changes[i], rows[1]);
        assert_int_equal(several->creates[i].binding.expires_ms != 0, several->creates[i].lifetime_s != 0);
    }
    if (all) look(pg, text_out);
    pg_rows_free(rows[0]);
    pg_rows_free(rows[1]);
    pg_rollback(pg);
    return all;
}

/* One of them that is refused has all of them refused, and then the sequencer gives them one by one. */
static void several_at_once_are_as_one_by_one(void **state)
{
    struct fixture *fixture = *state;
    const struct pg_table *const more[] = {&rights_table, &binding_table, &several_table, NULL};
    char one_by_one[4096], at_once[4096];
    OWNED(pg) *pg = NULL;
    unsigned seed = 1, given = 0;
    struct error err = {0};

    database_execute(
        fixture->database,
        "INSERT INTO robot (robot_id, organisation_id, name, secret_hash, created_by, person, behind, expires_at)"
        " SELECT md5(name)::uuid, '" ACME "', name, sha256('x'), made_by, made_by, ARRAY[made_by || ' https://i'],"
        " now() + interval '1 day' FROM (VALUES ('robot$acme+ci', 'https://j'), ('robot$acme+admin', 'https://i')) AS r (name, issuer),"
        " LATERAL (SELECT 'ext:' || encode(sha256(convert_to(issuer || E'\\n' || 'anna', 'UTF8')), 'hex') AS made_by) AS m;"
        "INSERT INTO binding (binding_id, issuer, subject, role, organisation_id, project_id, pattern, granted_by)"
        " SELECT gen_random_uuid(), 'https://i', 'ci', 'consumer', '" ACME "', '" MODELS "', 'acme/models/r' || n, 'system'"
        " FROM generate_series(1, 254) n");
    assert_true(pg_open(database_app(fixture->database), more, &pg, &err).ok);
    const struct uuid robots[2] = {uuid_of(database_ask(fixture->database, "SELECT md5('robot$acme+ci')::uuid::text")),
                                   uuid_of(database_ask(fixture->database, "SELECT md5('robot$acme+admin')::uuid::text"))};
    for (unsigned set = 0; set < SETS; set++) {
        struct several several;
        for (size_t i = 0; i < TOGETHER; i++) want(&several, i, &seed, robots);
        const bool is_given = give_one_by_one(pg, &several, one_by_one);
        assert_int_equal(give_at_once(pg, &several, at_once), is_given);
        if (is_given) assert_string_equal(at_once, one_by_one);
        given += is_given;
        for (size_t i = 0; i < TOGETHER; i++) permit_free(several.permits[i]);
    }
    assert_in_range(given, SETS / 5, SETS * 4 / 5); /* both happen often */
}

int main(void)
{
    const struct CMUnitTest others[] = {
        TEST(bindings_are_given_and_taken),          TEST(a_scope_that_is_not_there_is_no_wider_one), TEST(nobody_binds_himself),
        TEST(bindings_of_one_principal_are_bounded), TEST(several_at_once_are_as_one_by_one),
    };

    return cmocka_run_group_tests_name("others", others, NULL, NULL);
}
