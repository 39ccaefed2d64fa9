/* Robots, administrators and issuers as rows, the changes of them, and the snapshot that is made from them. */
#include "authz/snapshot_load.h"
#include "tests/integration/authz_fixture.h"

#include "authz/snapshot_priv.h"
#include "base/clock.h"

static void assert_resolves(struct pg *pg, const char *text, const struct robot_create *create, const struct resource *where)
{
    struct robot_identity found;
    struct error err = {0};

    assert_true(robot_resolve(lookup_of(pg), text, &found, &err).ok);
    assert_true(uuid_equal(&found.id, &create->robot.id) && uuid_equal(&found.organisation, &where->organisation));
}

/* The name is free again, and the new one has none of the old one's roles. */
static void assert_begins_anew(struct pg *pg, const struct resource *project)
{
    struct robot_create again;
    struct error err = {0};

    assert_true(make_robot(pg, "robot$acme+ci", "acme", &again, &err));
    OWNED(authz_snapshot) *later = load(pg);
    const struct principal principal = {.kind = PRINCIPAL_ROBOT, .id = again.robot.id};
    assert_int_equal(authz_snapshot_authorize(later, &principal, ACTION_PROJECT_READ, project, clock_wall_ms()).verdict,
                     AUTHZ_INVISIBLE);
    robot_create_done(&again);
}

static void assert_logs_in(struct pg *pg, struct bytes name, const char *secret)
{
    OWNED(authz_snapshot) *snapshot = load(pg);

    assert_non_null(authz_snapshot_login(snapshot, name, bytes_of_text(secret), clock_wall_ms()));
    assert_null(authz_snapshot_login(snapshot, name, bytes_of_text("sijil_"), clock_wall_ms()));
}

static void a_robot_lives_and_ends(void **state)
{
    struct fixture *fixture = *state;
    struct robot_create create, again;
    struct robot_revoke revoke;
    struct resource acme = resource_of(RESOURCE_ORGANISATION, "acme"), project = resource_of(RESOURCE_PROJECT, "acme/models");
    struct robot_identity found;
    char id[UUID_TEXT_SIZE];
    struct error err = {0};

    assert_true(make_robot(fixture->pg, "robot$acme+ci", "acme", &create, &err));
    const char *secret = (const char *)secret_bytes(create.secret).data;
    assert_int_equal(strlen(secret), ROBOT_SECRET_SIZE - 1);
    assert_memory_equal(secret, ROBOT_SECRET_PREFIX, strlen(ROBOT_SECRET_PREFIX));
    assert_true(create.robot.expires_ms > clock_wall_ms());
    assert_string_equal(database_ask(fixture->database, "SELECT epoch::text FROM authorization_epoch"), "2");
    assert_string_equal(
        database_ask(fixture->database,
                     "SELECT count(*)::text FROM robot WHERE position('sijil_' in encode(secret_hash, 'escape')) > 0"),
        "0");

    assert_logs_in(fixture->pg, bytes_of_text("robot$acme+ci"), secret);

    assert_false(make_robot(fixture->pg, "robot$acme+ci", "acme", &again, &err));
    assert_int_equal(err.kind, ERROR_CONFLICT);
    robot_create_done(&again);
    assert_true(bind(fixture->pg, &create.robot.id, ROLE_PUBLISHER, &project, NULL, &err));

    /* Another organisation's administrator has not got it. */
    struct resource beta = resource_of(RESOURCE_ORGANISATION, "beta");
    robot_revoke_init(&revoke, &create.robot.id, &beta.organisation, &(struct principal){.kind = PRINCIPAL_SYSTEM});
    assert_false(run(fixture->pg, &revoke.change, ACTION_ROBOT_REVOKE, &beta, &err));
    assert_int_equal(err.kind, ERROR_NOT_FOUND);

    uuid_format(&create.robot.id, id);
    assert_resolves(fixture->pg, id, &create, &acme);
    assert_resolves(fixture->pg, "robot$acme+ci", &create, &acme);
    robot_revoke_init(&revoke, &create.robot.id, &acme.organisation, &(struct principal){.kind = PRINCIPAL_SYSTEM});
    assert_true(run(fixture->pg, &revoke.change, ACTION_ROBOT_REVOKE, &acme, &err));
    assert_false(robot_resolve(lookup_of(fixture->pg), id, &found, &err).ok);
    assert_int_equal(err.kind, ERROR_NOT_FOUND);
    assert_string_equal(database_ask(fixture->database, "SELECT count(*)::text FROM binding WHERE revoked_at IS NULL"), "0");
    assert_false(run(fixture->pg, &revoke.change, ACTION_ROBOT_REVOKE, &acme, &err));
    assert_int_equal(err.kind, ERROR_NOT_FOUND);

    assert_begins_anew(fixture->pg, &project);
    robot_create_done(&create);
}

static const struct name_row {
    const char *name, *organisation, *text, *full; /* full NULL: refused */
} name_rows[] = {
    {"of an organisation", "acme", "ci", "robot$acme+ci"},
    {"of the registry", NULL, "admin", "robot$admin"},
    {"with separators", "acme", "ci-1.b_2", "robot$acme+ci-1.b_2"},
    {"capitals", "acme", "CI", NULL},
    {"nothing", "acme", "", NULL},
    {"a separator at the end", "acme", "ci-", NULL},
    {"two separators", "acme", "c--i", NULL},
    {"a plus", "acme", "c+i", NULL},
    {"a colon", "acme", "c:i", NULL},
    {"too long", "acme", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", NULL},
    {"the longest", "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
     "robot$bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb+"
     "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},
};

static const struct certificate_row {
    const char *name, *text;
    bool is_possible, is_refused_as_secret;
} certificate_rows[] = {
    {"a digest", ROBOT_CERTIFICATE_THUMBPRINT "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA-_", true, true},
    {"a digest that is too short", ROBOT_CERTIFICATE_THUMBPRINT "AAAA", false, true},
    {"a digest with another letter", ROBOT_CERTIFICATE_THUMBPRINT "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA+_", false, true},
    {"a host", "dns:ci.bank.example", true, true},
    {"a SPIFFE id", "uri:spiffe://bank.example/ci", true, true},
    {"no host", "dns:", false, true},
    {"a blank", "dns:ci bank", false, true},
    {"a line", "dns:ci\nuri:x", false, true},
    {"not ASCII", "dns:\xc3\xa9", false, true},
    {"an address", "mail:ci@bank.example", false, false},
    {"a secret", "sijil_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", false, false},
    {"nothing", "", false, false},
};

static void names_certificates(void **state)
{
    const struct certificate_row *row = *state;

    assert_int_equal(robot_certificate_is_possible(row->text), row->is_possible);
    assert_int_equal(robot_secret_names_certificate(bytes_of_text(row->text)), row->is_refused_as_secret);
}

static void names_robots(void **state)
{
    const struct name_row *row = *state;
    char name[ROBOT_NAME_SIZE];
    struct error err = {0};

    assert_int_equal(robot_name(row->organisation, bytes_of_text(row->text), name, &err).ok, row->full != NULL);
    if (row->full != NULL) assert_string_equal(name, row->full);
}

static void lifetimes_are_bounded(void **state)
{
    struct robot_create create;
    struct error err = {0};

    (void)state;
    assert_false(robot_create_init(&create, "robot$a", NULL, 0, &err).ok);
    assert_false(robot_create_init(&create, "robot$a", NULL, ROBOT_SECONDS_MAX + 1, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
}

/* At the decision its name belonged to another robot, or to none, so the change does not affect this robot. */
static void a_robot_that_took_a_name_meanwhile_gets_nothing(void **state)
{
    struct fixture *fixture = *state;
    struct resource project = resource_of(RESOURCE_PROJECT, "acme/models");
    struct authz_binding decided = {.kind = PRINCIPAL_ROBOT, .role = ROLE_CONSUMER}, wanted = decided;
    struct robot_create robot;
    struct binding_create create;
    struct error err = {0};

    assert_true(make_robot(fixture->pg, "robot$acme+later", "acme", &robot, &err));
    authz_grant_detail(&decided, project.detail);
    wanted.robot = robot.robot.id;
    robot_create_done(&robot);
    (void)snprintf(wanted.granted_by, sizeof wanted.granted_by, "system");
    binding_create_init(&create, &wanted, 0);
    assert_false(run(fixture->pg, &create.change, ACTION_BINDING_CREATE, &project, &err));
    assert_int_equal(err.kind, ERROR_CONFLICT);
    assert_string_equal(database_ask(fixture->database, "SELECT count(*) FROM binding"), "0");
}

static const struct rights_part *part_of(const struct authz_snapshot *snapshot, const char *organisation)
{
    const struct uuid id = uuid_of(organisation);

    return snapshot_part(snapshot, &id);
}

/* A snapshot consists of parts, and a change in one organisation leaves the parts of the others unchanged. */
static void a_change_in_one_organisation_makes_its_part_anew(void **state)
{
    struct fixture *fixture = *state;
    const struct uuid beta_id = uuid_of(BETA), registry = {{0}};
    struct resource acme = resource_of(RESOURCE_ORGANISATION, "acme"), beta = resource_of(RESOURCE_ORGANISATION, "beta");
    struct resource all = resource_of(RESOURCE_SYSTEM, "");
    struct robot_create robots[2];
    struct robot_revoke revoke;
    struct error err = {0};

    assert_true(make_robot(fixture->pg, "robot$acme+a", "acme", &robots[0], &err));
    assert_true(bind(fixture->pg, &robots[0].robot.id, ROLE_CONSUMER, &acme, NULL, &err));
    OWNED(authz_snapshot) *before = load(fixture->pg);
    assert_null(part_of(before, BETA));

    assert_true(make_robot(fixture->pg, "robot$beta+b", "beta", &robots[1], &err));
    assert_true(bind(fixture->pg, &robots[1].robot.id, ROLE_CONSUMER, &beta, NULL, &err));
    assert_true(bind(fixture->pg, NULL, ROLE_AUDITOR, &all, NULL, &err));
    OWNED(authz_snapshot) *after = NULL;
    assert_true(authz_snapshot_renew(fixture->pg, before, &(struct rights_change){&beta_id, 1, 0}, &after, &err).ok);
    assert_ptr_equal(part_of(after, ACME), part_of(before, ACME));
    assert_ptr_equal(after->parts[0], before->parts[0]); /* what changed on the registry was not asked for */
    assert_ptr_equal(after->issuers, before->issuers);
    assert_non_null(authz_snapshot_robot(after, &robots[0].robot.id));
    assert_non_null(authz_snapshot_robot(after, &robots[1].robot.id));
    assert_null(authz_snapshot_robot(before, &robots[1].robot.id));
    const struct principal robot = {.kind = PRINCIPAL_ROBOT, .id = robots[1].robot.id};
    assert_int_equal(authz_snapshot_authorize(after, &robot, ACTION_PROJECT_READ, &beta, clock_wall_ms()).verdict, AUTHZ_ALLOWED);
    assert_int_equal(authz_snapshot_authorize(after, &robot, ACTION_PROJECT_READ, &acme, clock_wall_ms()).verdict,
                     AUTHZ_INVISIBLE);

    robot_revoke_init(&revoke, &robots[1].robot.id, &beta_id, &(struct principal){.kind = PRINCIPAL_SYSTEM});
    assert_true(run(fixture->pg, &revoke.change, ACTION_ROBOT_REVOKE, &beta, &err));
    OWNED(authz_snapshot) *last = NULL;
    assert_true(
        authz_snapshot_renew(fixture->pg, after, &(struct rights_change){(struct uuid[]){registry, beta_id}, 2, 0}, &last, &err)
            .ok);
    assert_null(part_of(last, BETA));
    assert_null(authz_snapshot_robot(last, &robots[1].robot.id));
    assert_int_equal(last->parts[0]->binding_count, 1);
    assert_ptr_equal(part_of(last, ACME), part_of(before, ACME));
    robot_create_done(&robots[0]);
    robot_create_done(&robots[1]);
}

static void lists_page_by_key(void **state)
{
    struct fixture *fixture = *state;
    struct robot_create robots[5];
    struct robot_page page = {0};
    struct binding_page bindings = {0};
    struct resource project = resource_of(RESOURCE_PROJECT, "acme/models"), all = resource_of(RESOURCE_SYSTEM, "");
    const struct resource acme = resource_of(RESOURCE_ORGANISATION, "acme");
    struct error err = {0};

    for (size_t i = 0; i < COUNT(robots); i++) {
        char name[ROBOT_NAME_SIZE];
        (void)snprintf(name, sizeof name, i == 4 ? "robot$beta+r%zu" : "robot$acme+r%zu", i);
        assert_true(make_robot(fixture->pg, name, i == 4 ? "beta" : "acme", &robots[i], &err));
        if (i < 4) assert_true(bind(fixture->pg, &robots[i].robot.id, ROLE_CONSUMER, &project, NULL, &err));
        robot_create_done(&robots[i]);
    }
    OWNED(permit) *of_acme = permit_of(ACTION_ROBOT_READ, &acme);
    OWNED(permit) *of_all = permit_of(ACTION_ROBOT_READ, &all);
    OWNED(permit) *on_project = permit_of(ACTION_BINDING_READ, &project);
    OWNED(permit) *on_all = permit_of(ACTION_BINDING_READ, &all);
    assert_true(robot_list(of_acme, fixture->pg, NULL, 3, &page, &err).ok);
    assert_int_equal(page.count, 3);
    assert_string_equal(page.rows[2].robot.name, "robot$acme+r2");
    assert_string_equal(page.rows[2].organisation, "acme");
    free(page.rows);
    assert_true(robot_list(of_acme, fixture->pg, "robot$acme+r2", 3, &page, &err).ok);
    assert_int_equal(page.count, 1);
    free(page.rows);
    assert_true(robot_list(of_all, fixture->pg, NULL, 100, &page, &err).ok);
    assert_int_equal(page.count, 5);
    free(page.rows);
    assert_true(binding_list(on_project, fixture->pg, NULL, 3, &bindings, &err).ok);
    assert_int_equal(bindings.count, 3);
    const struct uuid last = bindings.rows[2].binding.id;
    assert_string_equal(bindings.rows[0].on, "acme/models");
    free(bindings.rows);
    assert_true(binding_list(on_all, fixture->pg, &last, 3, &bindings, &err).ok);
    assert_int_equal(bindings.count, 1);
    free(bindings.rows);
}

static struct result keep(void *context, const struct robot_create *create, struct error *err)
{
    (void)create;
    if (context != NULL) return failure(err, ERROR_FULL, "no room for the secret");
    return SUCCESS;
}

static void an_administrator_is_made_and_replaced(void **state)
{
    struct fixture *fixture = *state;
    struct robot_create first, second;
    struct resource all = resource_of(RESOURCE_SYSTEM, ""), repository = resource_of(RESOURCE_REPOSITORY, "acme/models/d");
    bool exists = true;
    struct error err = {0};

    struct administrator_making making = {.keep = keep, .context = &err};
    OWNED(permit) *permit = permit_of(ACTION_ROBOT_CREATE, &all);
    OWNED(permit) *replacing = permit_of(ACTION_ADMINISTRATOR_REPLACE, &all);

    assert_true(administrator_draw(true, &first, &err).ok);
    assert_true(administrator_draw(false, &second, &err).ok);
    assert_false(administrator_create(permit, fixture->pg, &first, &making, &err).ok);
    assert_int_equal(err.kind, ERROR_FULL);
    assert_true(administrator_was_made(fixture->pg, &exists, &err).ok);
    assert_false(exists); /* nobody has its secret */
    making.context = NULL;
    assert_true(administrator_create(permit, fixture->pg, &first, &making, &err).ok);
    assert_true(administrator_was_made(fixture->pg, &exists, &err).ok);
    assert_true(exists);
    assert_false(administrator_create(permit, fixture->pg, &second, &making, &err).ok);
    assert_int_equal(err.kind, ERROR_CONFLICT);
    making.replaces = true;
    assert_true(administrator_create(replacing, fixture->pg, &second, &making, &err).ok);

    OWNED(authz_snapshot) *snapshot = load(fixture->pg);
    const struct bytes name = bytes_of_text(ADMINISTRATOR_NAME);
    assert_null(
        authz_snapshot_login(snapshot, name, bytes_of_text((const char *)secret_bytes(first.secret).data), clock_wall_ms()));
    const struct authz_robot *robot =
        authz_snapshot_login(snapshot, name, bytes_of_text((const char *)secret_bytes(second.secret).data), clock_wall_ms());
    assert_non_null(robot);
    const struct principal principal = {.kind = PRINCIPAL_ROBOT, .id = robot->id};
    assert_int_equal(authz_snapshot_authorize(snapshot, &principal, ACTION_ROBOT_CREATE, &all, clock_wall_ms()).verdict,
                     AUTHZ_ALLOWED);
    assert_int_equal(authz_snapshot_authorize(snapshot, &principal, ACTION_AUDIT_READ, &all, clock_wall_ms()).verdict,
                     AUTHZ_ALLOWED);
    assert_int_equal(authz_snapshot_authorize(snapshot, &principal, ACTION_BLOB_READ, &repository, clock_wall_ms()).verdict,
                     AUTHZ_NOT_ALLOWED);
    robot_create_done(&first);
    robot_create_done(&second);
}

static void assert_in_snapshot(struct pg *pg, int64_t lifetime_max_s, unsigned algorithms)
{
    OWNED(authz_snapshot) *snapshot = load(pg);
    const struct issuer *issuer = authz_snapshot_issuer(snapshot, "https://i");

    assert_non_null(issuer);
    assert_int_equal(issuer_record_of(issuer)->lifetime_max_s, lifetime_max_s);
    assert_int_equal(issuer_record_of(issuer)->algorithms, algorithms);
    assert_ptr_equal(authz_snapshot_issuer_by_digest(snapshot, bytes_of_text(issuer_digest(issuer))), issuer);
}

static void issuers_are_put_and_removed(void **state)
{
    struct fixture *fixture = *state;
    struct issuer_record record = {.url = "https://i",
                                   .audience = "us",
                                   .algorithms = 1U << JOSE_ES256 | 1U << JOSE_RS256,
                                   .lifetime_max_s = 600,
                                   .jwks = JWKS};
    const struct resource all = resource_of(RESOURCE_SYSTEM, "");
    struct issuer_page page = {0};
    struct issuer_remove gone;
    struct issuer_trust trust;
    struct uuid id = {{0}};
    struct error err = {0};

    OWNED(permit) *reading = permit_of(ACTION_ISSUER_READ, &all);
    assert_true(issuer_trust_init(&trust, &record, &err).ok);
    assert_true(run(fixture->pg, &trust.change, ACTION_ISSUER_TRUST, &all, &err));
    id = trust.id;
    record.lifetime_max_s = 300;
    assert_true(issuer_trust_init(&trust, &record, &err).ok);
    assert_true(trust.change.raises_epoch); /* else two gateways wait for each other's locks */
    assert_true(run(fixture->pg, &trust.change, ACTION_ISSUER_TRUST, &all, &err));
    assert_true(uuid_equal(&trust.id, &id)); /* the same row */
    assert_true(issuer_list(reading, fixture->pg, NULL, 10, &page, &err).ok);
    assert_int_equal(page.count, 1);
    assert_string_equal(page.rows[0].record.url, "https://i");
    assert_int_equal(page.rows[0].record.algorithms, record.algorithms);
    free(page.rows);
    assert_true(issuer_list(reading, fixture->pg, "https://i", 10, &page, &err).ok);
    assert_int_equal(page.count, 0);
    free(page.rows);
    record.jwks = "{\"keys\":[]}";
    assert_false(issuer_trust_init(&trust, &record, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);

    assert_in_snapshot(fixture->pg, 300, 1U << JOSE_ES256 | 1U << JOSE_RS256);

    /* Keys that were changed outside the application remove one issuer, not all. */
    database_execute(fixture->database, "INSERT INTO trusted_issuer (issuer_id, url, audience, algorithms, lifetime_max_s, jwks)"
                                        " VALUES (gen_random_uuid(), 'https://bad', 'us', '{ES256}', 60, 'x')");
    OWNED(authz_snapshot) *later = load(fixture->pg);
    assert_int_equal(authz_snapshot_bad_issuers(later), 1);
    assert_non_null(authz_snapshot_issuer(later, "https://i"));
    issuer_remove_init(&gone, &id, &(struct principal){.kind = PRINCIPAL_SYSTEM});
    assert_true(gone.change.raises_epoch);
    assert_true(run(fixture->pg, &gone.change, ACTION_ISSUER_REMOVE, &all, &err));
    assert_false(run(fixture->pg, &gone.change, ACTION_ISSUER_REMOVE, &all, &err));
    assert_int_equal(err.kind, ERROR_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        TEST(a_robot_lives_and_ends),
        cmocka_unit_test(lifetimes_are_bounded),
        TEST(a_robot_that_took_a_name_meanwhile_gets_nothing),
        TEST(a_change_in_one_organisation_makes_its_part_anew),
        TEST(lists_page_by_key),
        TEST(an_administrator_is_made_and_replaced),
        TEST(issuers_are_put_and_removed),
    };

    return RUN_TABLE(name_rows, names_robots) + RUN_TABLE(certificate_rows, names_certificates) +
           cmocka_run_group_tests_name("others", others, NULL, NULL);
}
