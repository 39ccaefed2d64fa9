/* The person behind a robot and behind the granter of a role, in the rows: through a chain of makers, and after revocations. */
#include "tests/integration/authz_fixture.h"

#include "storage/migrations_priv.h"

static const struct principal alice = {.kind = PRINCIPAL_EXTERNAL, .issuer = "https://i", .subject = "alice"},
                              bob = {.kind = PRINCIPAL_EXTERNAL, .issuer = "https://i", .subject = "bob"};

static struct person as_person(const struct principal *principal)
{
    struct person person = {.key = ""};

    if (principal->kind == PRINCIPAL_EXTERNAL) principal_key(principal, person.key);
    return person;
}

/* A robot of the registry, made by `maker` (NULL: by "system"); its principal. */
static struct principal made_by(struct pg *pg, const char *name, const struct principal *maker, struct person *person_out)
{
    const struct resource where = resource_of(RESOURCE_SYSTEM, "");
    struct robot_create create;
    struct error err = {0};

    assert_true(robot_create_init(&create, name, NULL, 3600, &err).ok);
    (void)snprintf(create.created_by, sizeof create.created_by, "system");
    if (maker != NULL) principal_key(maker, create.created_by);
    if (!run(pg, &create.change, ACTION_ROBOT_CREATE, &where, &err)) fail_msg("%s", err.message);
    if (person_out != NULL) *person_out = create.robot.person;
    robot_create_done(&create);
    return (struct principal){.kind = PRINCIPAL_ROBOT, .id = create.robot.id};
}

static void revoke(struct pg *pg, const struct principal *robot)
{
    const struct resource where = resource_of(RESOURCE_SYSTEM, "");
    struct robot_revoke change;
    struct error err = {0};

    robot_revoke_init(&change, &robot->id, NULL);
    if (!run(pg, &change.change, ACTION_ROBOT_REVOKE, &where, &err)) fail_msg("%s", err.message);
}

static void rotate(struct pg *pg, const struct principal *robot, const struct principal *by, int64_t grace_s)
{
    struct resource where = resource_of(RESOURCE_SYSTEM, "");
    struct robot_rotate change;
    struct error err = {0};

    uuid_format(&robot->id, where.detail);
    assert_true(robot_rotate_init(&change, &robot->id, &(struct uuid){{0}}, 3600, grace_s, &err).ok);
    principal_key(by, change.rotated_by);
    if (!run(pg, &change.change, ACTION_ROBOT_ROTATE, &where, &err)) fail_msg("%s", err.message);
    robot_rotate_done(&change);
}

/* Gives the role on the registry, as `granter`. */
static bool give(struct pg *pg, enum role role, const struct principal *to, const struct principal *granter,
                 struct binding_create *create, struct error *err)
{
    struct resource where = resource_of(RESOURCE_SYSTEM, "");
    struct authz_binding wanted = {.kind = to->kind, .robot = to->id, .role = role};

    memcpy(wanted.issuer, to->issuer, sizeof wanted.issuer);
    memcpy(wanted.subject, to->subject, sizeof wanted.subject);
    principal_key(granter, wanted.granted_by);
    authz_grant_detail(role, &wanted, where.detail);
    binding_create_init(create, &wanted, 0);
    return run(pg, &create->change, ACTION_BINDING_CREATE, &where, err);
}

static void assert_person(struct pg *pg, const struct principal *principal, const char *wanted)
{
    OWNED(authz_snapshot) *snapshot = load(pg);
    const struct person person = person_of(snapshot, principal);

    assert_string_equal(person.key, wanted);
}

static void a_robot_of_a_robot_is_the_person_at_the_root(void **state)
{
    struct fixture *fixture = *state;
    const struct person root = as_person(&alice);
    struct person person;

    const struct principal first = made_by(fixture->pg, "robot$first", &alice, &person);
    assert_string_equal(person.key, root.key);
    const struct principal second = made_by(fixture->pg, "robot$second", &first, NULL);
    const struct principal third = made_by(fixture->pg, "robot$third", &second, &person);
    assert_string_equal(person.key, root.key);
    revoke(fixture->pg, &second);
    revoke(fixture->pg, &first);
    assert_person(fixture->pg, &third, root.key);
    assert_person(fixture->pg, &second, ""); /* it is no principal any more */
    const struct principal fourth = made_by(fixture->pg, "robot$fourth", &third, NULL);
    assert_person(fixture->pg, &fourth, root.key);
    /* Its maker is revoked while it asks, so that only the row tells. */
    const struct principal late = made_by(fixture->pg, "robot$late", &second, &person);
    assert_string_equal(person.key, root.key);
    assert_person(fixture->pg, &late, root.key);
}

static void what_no_person_made_is_nobody(void **state)
{
    struct fixture *fixture = *state;
    const struct principal founded = made_by(fixture->pg, "robot$founded", NULL, NULL);
    const struct principal its = made_by(fixture->pg, "robot$its", &founded, NULL);
    const struct principal stranger = {.kind = PRINCIPAL_ROBOT, .id = uuid_random()};
    const struct principal lost = made_by(fixture->pg, "robot$lost", &stranger, NULL);

    assert_person(fixture->pg, &founded, "");
    assert_person(fixture->pg, &its, "");
    assert_person(fixture->pg, &lost, "");
}

static struct result keep(void *context, const struct robot_create *create, struct error *err)
{
    (void)context;
    (void)create;
    (void)err;
    return SUCCESS;
}

static void an_administrator_is_a_person_or_nobody(void **state)
{
    struct fixture *fixture = *state;
    const struct resource all = {.kind = RESOURCE_SYSTEM};
    struct robot_create create;
    struct error err = {0};

    for (unsigned is_person = 0; is_person < 2; is_person++) {
        const char *wanted = is_person ? PERSON_ADMINISTRATOR : "";
        assert_true(administrator_draw(is_person, &create, &err).ok);
        const struct administrator_making making = {.replaces = is_person, .keep = keep};
        OWNED(permit) *permit = permit_of(is_person ? ACTION_ADMINISTRATOR_REPLACE : ACTION_ROBOT_CREATE, &all);
        assert_true(administrator_create(permit, fixture->pg, &create, &making, &err).ok);
        robot_create_done(&create);
        const struct principal admin = {.kind = PRINCIPAL_ROBOT, .id = create.robot.id};
        assert_person(fixture->pg, &admin, wanted);
        const struct principal its = made_by(fixture->pg, is_person ? "robot$b" : "robot$a", &admin, NULL);
        assert_person(fixture->pg, &its, wanted);
    }
}

/* Anybody with its secret can act as a robot: once another person has seen a secret, the robot counts as nobody. */
static void a_secret_that_two_have_seen_is_nobodys(void **state)
{
    struct fixture *fixture = *state;
    const struct person root = as_person(&alice);
    const struct principal robot = made_by(fixture->pg, "robot$one", &alice, NULL),
                           other = made_by(fixture->pg, "robot$two", &alice, NULL);
    const struct principal its = made_by(fixture->pg, "robot$three", &robot, NULL);

    rotate(fixture->pg, &robot, &alice, 0);
    assert_person(fixture->pg, &robot, root.key);
    rotate(fixture->pg, &robot, &other, 60);
    assert_person(fixture->pg, &robot, root.key);
    rotate(fixture->pg, &robot, &bob, 60);
    assert_person(fixture->pg, &robot, "");
    rotate(fixture->pg, &robot, &alice, 0);
    assert_person(fixture->pg, &robot, "");
    assert_person(fixture->pg, &its, root.key);
    const struct principal later = made_by(fixture->pg, "robot$four", &robot, NULL);
    assert_person(fixture->pg, &later, "");
    rotate(fixture->pg, &later, &bob, 0);
    assert_person(fixture->pg, &later, "");
}

/* Robots that one person made appointed both officers, each as "another", also once their maker was gone. */
static void robots_of_one_person_do_not_appoint_both_officers(void **state)
{
    struct fixture *fixture = *state;
    const struct principal maker = made_by(fixture->pg, "robot$maker", &alice, NULL);
    const struct principal one = made_by(fixture->pg, "robot$one", &maker, NULL),
                           two = made_by(fixture->pg, "robot$two", &alice, NULL);
    const struct principal bobs = made_by(fixture->pg, "robot$bobs", &bob, NULL);
    const struct principal ours = {.kind = PRINCIPAL_EXTERNAL, .issuer = "https://i", .subject = "carol"};
    struct resource where = resource_of(RESOURCE_SYSTEM, "");
    const struct authz_binding second = {.kind = PRINCIPAL_EXTERNAL, .role = ROLE_SECURITY_OFFICER};
    struct binding_create create;
    struct error err = {0};

    assert_true(give(fixture->pg, ROLE_REGISTRY_ADMIN, &two, &bob, &create, &err));
    assert_true(give(fixture->pg, ROLE_REGISTRY_ADMIN, &bobs, &alice, &create, &err));
    assert_true(give(fixture->pg, ROLE_SECURITY_OFFICER, &ours, &one, &create, &err));
    revoke(fixture->pg, &one);
    revoke(fixture->pg, &maker);
    authz_grant_detail(ROLE_SECURITY_OFFICER, &second, where.detail);
    OWNED(authz_snapshot) *snapshot = load(fixture->pg);
    assert_int_equal(authz_snapshot_authorize(snapshot, &two, ACTION_BINDING_CREATE, &where, 0).verdict, AUTHZ_NOT_ALLOWED);
    assert_int_equal(authz_snapshot_authorize(snapshot, &bobs, ACTION_BINDING_CREATE, &where, 0).verdict, AUTHZ_ALLOWED);
}

static void a_subject_and_its_robot_are_not_two_officers(void **state)
{
    struct fixture *fixture = *state;
    const struct principal robot = made_by(fixture->pg, "robot$one", &alice, NULL),
                           unknown = made_by(fixture->pg, "robot$two", NULL, NULL);
    struct binding_create create;
    struct error err = {0};

    assert_true(give(fixture->pg, ROLE_SECURITY_OFFICER, &robot, &bob, &create, &err));
    assert_false(give(fixture->pg, ROLE_SECURITY_OFFICER, &alice, &bob, &create, &err));
    assert_int_equal(err.kind, ERROR_DENIED);
    assert_true(give(fixture->pg, ROLE_AUDITOR, &alice, &bob, &create, &err));
    assert_true(give(fixture->pg, ROLE_SECURITY_OFFICER, &bob, &alice, &create, &err));
    revoke(fixture->pg, &robot);
    assert_true(give(fixture->pg, ROLE_SECURITY_OFFICER, &unknown, &bob, &create, &err));
    assert_false(give(fixture->pg, ROLE_SECURITY_OFFICER, &alice, &bob, &create, &err)); /* who may be alice's */
    assert_int_equal(err.kind, ERROR_DENIED);
    revoke(fixture->pg, &unknown);
    assert_true(give(fixture->pg, ROLE_SECURITY_OFFICER, &alice, &bob, &create, &err));
}

static void nobody_gives_himself_a_role_by_a_robot(void **state)
{
    struct fixture *fixture = *state;
    const struct person root = as_person(&alice);
    const struct principal robot = made_by(fixture->pg, "robot$one", &alice, NULL);
    struct binding_create create;
    struct error err = {0};

    assert_false(give(fixture->pg, ROLE_AUDITOR, &alice, &robot, &create, &err));
    assert_int_equal(err.kind, ERROR_DENIED);
    assert_true(give(fixture->pg, ROLE_AUDITOR, &bob, &robot, &create, &err));
    assert_string_equal(create.binding.granting_person.key, root.key);
    assert_true(give(fixture->pg, ROLE_AUDITOR, &robot, &alice, &create, &err)); /* what it may do is seen to be its maker's */
}

/* Rows from before persons were stored. */
static void what_is_there_already_gets_its_persons(void **state)
{
    struct fixture *fixture = *state;
    const struct principal first = made_by(fixture->pg, "robot$first", &alice, NULL),
                           second = made_by(fixture->pg, "robot$second", &first, NULL);
    const struct principal founded = made_by(fixture->pg, "robot$founded", NULL, NULL),
                           its = made_by(fixture->pg, "robot$its", &founded, NULL);
    const struct principal replaced = made_by(fixture->pg, "robot$replaced", &alice, NULL);
    const struct migration *migration = storage_migrations;
    const struct person root = as_person(&alice);
    struct binding_create create;
    struct error err = {0};

    assert_true(give(fixture->pg, ROLE_AUDITOR, &bob, &second, &create, &err) &&
                give(fixture->pg, ROLE_AUDITOR, &its, &founded, &create, &err));
    revoke(fixture->pg, &first);
    rotate(fixture->pg, &replaced, &alice, 0);
    while (strstr(migration->name, "_persons") == NULL) migration++;
    database_execute(
        fixture->database,
        "DROP FUNCTION keep_person CASCADE; ALTER TABLE robot DROP COLUMN person; ALTER TABLE binding DROP COLUMN giver");
    database_execute(fixture->database, migration->sql);
    assert_person(fixture->pg, &second, root.key);
    assert_person(fixture->pg, &founded, "");
    assert_person(fixture->pg, &its, "");
    assert_person(fixture->pg, &replaced, ""); /* the test does not know by whom */
    assert_string_equal(
        database_ask(fixture->database,
                     "SELECT string_agg(coalesce(giver, '-'), ' ' ORDER BY giver) = min(giver) || ' -' FROM binding"),
        "t");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_robot_of_a_robot_is_the_person_at_the_root),
        TEST(what_no_person_made_is_nobody),
        TEST(an_administrator_is_a_person_or_nobody),
        TEST(a_secret_that_two_have_seen_is_nobodys),
        TEST(robots_of_one_person_do_not_appoint_both_officers),
        TEST(a_subject_and_its_robot_are_not_two_officers),
        TEST(nobody_gives_himself_a_role_by_a_robot),
        TEST(what_is_there_already_gets_its_persons),
    };

    return cmocka_run_group_tests_name("persons", tests, NULL, NULL);
}
