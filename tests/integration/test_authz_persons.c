/* The person behind a robot and behind the granter of a role, in the rows: through a chain of makers, and after revocations. */
#include "tests/integration/authz_fixture.h"

#include "base/clock.h"
#include "storage/migrations_priv.h"

static const struct principal alice = {.kind = PRINCIPAL_EXTERNAL, .issuer = "https://i", .subject = "alice"},
                              bob = {.kind = PRINCIPAL_EXTERNAL, .issuer = "https://i", .subject = "bob"};

static struct person as_person(const struct principal *principal)
{
    char key[PRINCIPAL_KEY_SIZE];

    principal_key(principal, key);
    return person_new(key, principal->issuer);
}

/* A robot of the registry, made by `maker` (NULL: by "system"); its principal. */
static struct principal made_by(struct pg *pg, const char *name, const struct principal *maker, struct persons *persons_out)
{
    const struct resource where = resource_of(RESOURCE_SYSTEM, "");
    struct robot_create create;
    struct error err = {0};

    assert_true(robot_create_init(&create, name, NULL, 3600, &err).ok);
    (void)snprintf(create.created_by, sizeof create.created_by, "system");
    if (maker != NULL) principal_key(maker, create.created_by);
    if (maker != NULL) (void)snprintf(create.maker_issuer, sizeof create.maker_issuer, "%s", maker->issuer);
    if (!run(pg, &create.change, ACTION_ROBOT_CREATE, &where, &err)) fail_msg("%s", err.message);
    if (persons_out != NULL) *persons_out = create.robot.persons;
    robot_create_done(&create);
    return (struct principal){.kind = PRINCIPAL_ROBOT, .id = create.robot.id};
}

static bool revoke_as(struct pg *pg, const struct principal *robot, const struct principal *by, struct error *err)
{
    const struct resource where = resource_of(RESOURCE_SYSTEM, "");
    struct robot_revoke change;

    robot_revoke_init(&change, &robot->id, NULL, by);
    return run(pg, &change.change, ACTION_ROBOT_REVOKE, &where, err);
}

static void revoke(struct pg *pg, const struct principal *robot)
{
    struct error err = {0};

    if (!revoke_as(pg, robot, &bob, &err)) fail_msg("%s", err.message);
}

static void rotate(struct pg *pg, const struct principal *robot, const struct principal *by, int64_t grace_s)
{
    struct resource where = resource_of(RESOURCE_SYSTEM, "");
    struct robot_rotate change;
    struct error err = {0};

    uuid_format(&robot->id, where.detail);
    assert_true(robot_rotate_init(&change, &robot->id, &(struct uuid){{0}}, 3600, grace_s, &err).ok);
    principal_key(by, change.rotated_by);
    (void)snprintf(change.rotator_issuer, sizeof change.rotator_issuer, "%s", by->issuer);
    if (!run(pg, &change.change, ACTION_ROBOT_ROTATE, &where, &err)) fail_msg("%s", err.message);
    robot_rotate_done(&change);
}

static const struct persons_separated *separate; /* what documents say; NULL: nothing */

/* Gives the role on the registry, as `granter`. */
static bool give(struct pg *pg, enum role role, const struct principal *to, const struct principal *granter,
                 struct binding_create *create, struct error *err)
{
    struct resource where = resource_of(RESOURCE_SYSTEM, "");
    struct authz_binding wanted = {.kind = to->kind, .robot = to->id, .role = role};

    memcpy(wanted.issuer, to->issuer, sizeof wanted.issuer);
    memcpy(wanted.subject, to->subject, sizeof wanted.subject);
    principal_key(granter, wanted.granted_by);
    authz_grant_detail(&wanted, where.detail);
    binding_create_init(create, &wanted, 0);
    (void)snprintf(create->granter_issuer, sizeof create->granter_issuer, "%s", granter->issuer);
    create->separate = separate;
    return run(pg, &create->change, ACTION_BINDING_CREATE, &where, err);
}

/* The persons that are known, by the beginnings of their keys, and whether somebody unknown is among them. */
static struct persons behind(struct pg *pg, const struct principal *principal)
{
    OWNED(authz_snapshot) *snapshot = load(pg);
    const struct persons_scope scope = {snapshot, &(struct uuid){{0}}, clock_wall_ms()};

    return persons_of(&scope, principal);
}

static void assert_person(struct pg *pg, const struct principal *principal, const char *wanted)
{
    const struct persons persons = behind(pg, principal);

    assert_int_equal(persons_are_one(&persons), wanted[0] != '\0');
    if (wanted[0] != '\0') assert_string_equal(persons.each[0].key, wanted);
    else assert_true(persons.has_unknown);
}

static void a_robot_of_a_robot_is_the_person_at_the_root(void **state)
{
    struct fixture *fixture = *state;
    const struct person root = as_person(&alice);
    struct persons persons = {0};

    const struct principal first = made_by(fixture->pg, "robot$first", &alice, &persons);
    assert_string_equal(persons.each[0].key, root.key);
    const struct principal second = made_by(fixture->pg, "robot$second", &first, NULL);
    const struct principal third = made_by(fixture->pg, "robot$third", &second, &persons);
    assert_string_equal(persons.each[0].key, root.key);
    revoke(fixture->pg, &second);
    revoke(fixture->pg, &first);
    assert_person(fixture->pg, &third, root.key);
    assert_person(fixture->pg, &second, ""); /* it is no principal any more */
    const struct principal fourth = made_by(fixture->pg, "robot$fourth", &third, NULL);
    assert_person(fixture->pg, &fourth, root.key);
    /* Its maker is revoked while it asks, so that only the row tells. */
    const struct principal late = made_by(fixture->pg, "robot$late", &second, &persons);
    assert_string_equal(persons.each[0].key, root.key);
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

/* Anybody with its secret can act as a robot, so its acts count as those of everybody who made it or has seen a secret. */
static void a_robot_is_everybody_who_has_seen_its_secret(void **state)
{
    struct fixture *fixture = *state;
    const struct person root = as_person(&alice), second = as_person(&bob);
    const struct principal robot = made_by(fixture->pg, "robot$one", &alice, NULL),
                           other = made_by(fixture->pg, "robot$two", &alice, NULL);
    const struct principal its = made_by(fixture->pg, "robot$three", &robot, NULL);
    const struct persons of_alice = {1, false, false, {root}}, of_bob = {1, false, false, {second}};

    rotate(fixture->pg, &robot, &alice, 0);
    assert_person(fixture->pg, &robot, root.key);
    rotate(fixture->pg, &robot, &other, 60);
    assert_person(fixture->pg, &robot, root.key);
    rotate(fixture->pg, &robot, &bob, 60);
    rotate(fixture->pg, &robot, &alice, 0);
    const struct persons both = behind(fixture->pg, &robot);
    assert_true(both.count == 2 && persons_are_known(&both) && !persons_are_one(&both));
    assert_true(persons_meet(&both, &of_alice) && persons_meet(&both, &of_bob));
    assert_false(persons_are_others(&both, &of_alice) || persons_are_others(&of_bob, &both));
    assert_person(fixture->pg, &its, root.key);
    const struct principal later = made_by(fixture->pg, "robot$four", &robot, NULL);
    const struct persons inherited = behind(fixture->pg, &later);
    assert_true(inherited.count == 2 && persons_are_known(&inherited));
    const struct principal founded = made_by(fixture->pg, "robot$founded", NULL, NULL);
    rotate(fixture->pg, &later, &founded, 0);
    const struct persons more = behind(fixture->pg, &later);
    assert_true(more.count == 2 && more.has_unknown);
}

/* The row grows with each person, up to a bound; then somebody unknown is behind the robot. */
static void a_robot_that_many_have_seen_is_not_complete(void **state)
{
    struct fixture *fixture = *state;
    const struct principal robot = made_by(fixture->pg, "robot$one", &alice, NULL);
    struct persons persons = {0};

    for (unsigned i = 0; i < 40; i++) {
        struct principal each = {.kind = PRINCIPAL_EXTERNAL, .issuer = "https://i"};
        (void)snprintf(each.subject, sizeof each.subject, "person %u", i);
        rotate(fixture->pg, &robot, &each, 0);
        persons = behind(fixture->pg, &robot);
        assert_int_equal(persons_are_known(&persons), i + 2 <= PERSONS_MAX);
    }
    assert_int_equal(persons.count, PERSONS_MAX);
    const struct principal its = made_by(fixture->pg, "robot$two", &robot, &persons);
    assert_true(persons.has_unknown && its.kind == PRINCIPAL_ROBOT);
}

/* One person may have an account at two issuers, so only a document makes two officers of them. */
static void subjects_of_two_issuers_are_one_officer(void **state)
{
    static const struct principal alex = {.kind = PRINCIPAL_EXTERNAL, .issuer = "https://j", .subject = "alex"};
    struct fixture *fixture = *state;
    static struct persons_separated alone = {.count = 1};
    struct binding_create create;
    struct error err = {0};

    assert_true(give(fixture->pg, ROLE_SECURITY_OFFICER, &alice, &bob, &create, &err));
    assert_false(give(fixture->pg, ROLE_SECURITY_OFFICER, &alex, &bob, &create, &err));
    assert_int_equal(err.kind, ERROR_DENIED);
    principal_key(&alex, alone.keys[0]);
    separate = &alone;
    assert_true(give(fixture->pg, ROLE_SECURITY_OFFICER, &alex, &bob, &create, &err));
    separate = NULL;
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
    authz_grant_detail(&second, where.detail);
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

static bool end_role(struct pg *pg, const struct binding_create *given, const struct principal *by, struct error *err)
{
    struct resource where = resource_of(RESOURCE_SYSTEM, "");
    struct binding_revoke change;

    uuid_format(&given->binding.id, where.detail);
    binding_revoke_init(&change, &given->binding.id, by);
    return run(pg, &change.change, ACTION_BINDING_REVOKE, &where, err);
}

/* Else an administrator ends the officers of others, and appoints the first one again, alone. */
static void the_last_officer_is_ended_by_who_appointed_it(void **state)
{
    static const struct principal carol = {.kind = PRINCIPAL_EXTERNAL, .issuer = "https://i", .subject = "carol"};
    struct fixture *fixture = *state;
    struct pg *pg = fixture->pg;
    const struct principal robot = made_by(pg, "robot$one", &carol, NULL), of_bob = made_by(pg, "robot$bobs", &bob, NULL);
    struct binding_create first, second;
    struct error err = {0};

    database_execute(fixture->database, "INSERT INTO trusted_issuer (issuer_id, url, audience, algorithms, lifetime_max_s, jwks)"
                                        " VALUES (gen_random_uuid(), 'https://i', 'us', '{ES256}', 60, '{}')");
    assert_true(give(pg, ROLE_SECURITY_OFFICER, &robot, &bob, &first, &err));
    assert_false(end_role(pg, &first, &alice, &err) || revoke_as(pg, &robot, &alice, &err));
    assert_int_equal(err.kind, ERROR_CONFLICT);
    assert_non_null(strstr(err.message, "last security officer"));
    assert_true(give(pg, ROLE_SECURITY_OFFICER, &bob, &alice, &second, &err)); /* now there are two */
    assert_true(end_role(pg, &first, &alice, &err));
    assert_false(end_role(pg, &second, &of_bob, &err)); /* which alice has appointed */
    assert_int_equal(err.kind, ERROR_CONFLICT);
    assert_true(give(pg, ROLE_SECURITY_OFFICER, &robot, &bob, &first, &err));
    assert_true(end_role(pg, &second, &of_bob, &err));
    assert_true(end_role(pg, &first, &of_bob, &err)); /* a robot of the person who appointed it */
}

/* An issuer that makes pairwise subjects gives alice one for each client; SCIM has joined both with her. */
static void pairwise_subjects_are_one_person(void **state)
{
    static const struct principal again = {.kind = PRINCIPAL_EXTERNAL, .issuer = "https://i", .subject = "alice-2"},
                                  carol = {.kind = PRINCIPAL_EXTERNAL, .issuer = "https://i", .subject = "carol"};
    struct fixture *fixture = *state;
    struct pg *pg = fixture->pg;
    struct binding_create create;
    struct error err = {0};

    database_execute(
        fixture->database,
        "INSERT INTO scim_user (user_id, issuer, external_id, active) VALUES (gen_random_uuid(), 'https://i', 'A-1', true);"
        "INSERT INTO scim_subject (issuer, subject, person) SELECT 'https://i', s, person FROM scim_user,"
        " unnest('{alice,alice-2}'::text[]) AS s");
    const struct persons one = behind(pg, &alice), other = behind(pg, &again), third = behind(pg, &carol);
    assert_true(persons_are_known(&one) && persons_are_known(&other) && persons_meet(&one, &other));
    assert_false(persons_are_others(&one, &other) || persons_are_none_of(&other, &one));
    assert_true(persons_are_others(&one, &third) && persons_are_others(&third, &other));
    const struct principal robot = made_by(pg, "robot$one", &alice, NULL);
    rotate(pg, &robot, &again, 0);
    const struct persons both = behind(pg, &robot);
    assert_true(persons_are_one(&both));
    assert_false(give(pg, ROLE_AUDITOR, &again, &alice, &create, &err) || give(pg, ROLE_AUDITOR, &again, &robot, &create, &err));
    assert_int_equal(err.kind, ERROR_DENIED);
    assert_true(give(pg, ROLE_SECURITY_OFFICER, &alice, &bob, &create, &err));
    assert_false(give(pg, ROLE_SECURITY_OFFICER, &again, &carol, &create, &err)); /* the second officer is the first one */
    assert_int_equal(err.kind, ERROR_DENIED);
}

/* SCIM has ended the one that would be left. */
static void a_deactivated_officer_is_not_left(void **state)
{
    struct fixture *fixture = *state;
    struct pg *pg = fixture->pg;
    const struct principal robot = made_by(pg, "robot$one", &alice, NULL);
    struct binding_create first, second;
    struct error err = {0};

    database_execute(
        fixture->database,
        "INSERT INTO trusted_issuer (issuer_id, url, audience, algorithms, lifetime_max_s, jwks)"
        " VALUES (gen_random_uuid(), 'https://i', 'us', '{ES256}', 60, '{}');"
        "INSERT INTO scim_user (user_id, issuer, external_id, active) VALUES (gen_random_uuid(), 'https://i', 'B-1', true);"
        "INSERT INTO scim_subject (issuer, subject, person) SELECT 'https://i', 'bob', person FROM scim_user");
    assert_true(give(pg, ROLE_SECURITY_OFFICER, &robot, &bob, &first, &err));
    assert_true(give(pg, ROLE_SECURITY_OFFICER, &bob, &alice, &second, &err));
    database_execute(fixture->database, "UPDATE scim_user SET active = false");
    assert_false(end_role(pg, &first, &alice, &err)); /* bob can't do anything as an officer */
    assert_int_equal(err.kind, ERROR_CONFLICT);
    assert_true(end_role(pg, &first, &bob, &err));
    assert_false(end_role(pg, &second, &bob, &err)); /* and its role does not end by any hand */
    assert_true(end_role(pg, &second, &alice, &err));
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
    rotate(fixture->pg, &robot, &bob, 0); /* a second one has seen the secret, and the first one still has */
    assert_false(give(fixture->pg, ROLE_AUDITOR, &bob, &robot, &create, &err) ||
                 give(fixture->pg, ROLE_AUDITOR, &alice, &robot, &create, &err));
    assert_int_equal(err.kind, ERROR_DENIED);
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
    database_execute(
        fixture->database,
        "DROP FUNCTION keep_person CASCADE; DROP FUNCTION keep_persons_behind CASCADE; ALTER TABLE robot DROP COLUMN person,"
        " DROP COLUMN behind; ALTER TABLE binding DROP COLUMN giver, DROP COLUMN giver_issuer");
    for (; migration->name != NULL; migration++)
        if (strncmp(migration->name, "0038_", 5) == 0 || strncmp(migration->name, "0104_", 5) == 0)
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
        TEST(a_robot_is_everybody_who_has_seen_its_secret),
        TEST(a_robot_that_many_have_seen_is_not_complete),
        TEST(subjects_of_two_issuers_are_one_officer),
        TEST(robots_of_one_person_do_not_appoint_both_officers),
        TEST(a_subject_and_its_robot_are_not_two_officers),
        TEST(the_last_officer_is_ended_by_who_appointed_it),
        TEST(pairwise_subjects_are_one_person),
        TEST(a_deactivated_officer_is_not_left),
        TEST(nobody_gives_himself_a_role_by_a_robot),
        TEST(what_is_there_already_gets_its_persons),
    };

    return cmocka_run_group_tests_name("persons", tests, NULL, NULL);
}
