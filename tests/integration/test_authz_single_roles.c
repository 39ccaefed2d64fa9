/* Roles that are given and taken one by one are read alone, and a snapshot that was renewed by them is the one that a load would make. */
#include "authz/snapshot_load.h"
#include "tests/integration/authz_fixture.h"

#include <stdlib.h>

#include "authz/snapshot_priv.h"
#include "base/clock.h"
#include "base/text.h"

enum { ROBOTS = 400, STEPS = 150, CHANGES = RIGHTS_BINDINGS_MAX + 1 };

static uint64_t epoch_of(struct fixture *fixture)
{
    uint64_t epoch = 0;

    assert_true(text_to_u64(bytes_of_text(database_ask(fixture->database, "SELECT epoch::text FROM authorization_epoch")),
                            INT64_MAX, &epoch));
    return epoch;
}

/* Robots of acme with one role each, in many buckets. */
static void fill(struct fixture *fixture)
{
    database_execute(fixture->database,
                     "INSERT INTO robot (robot_id, organisation_id, name, secret_hash, created_by, expires_at)"
                     " SELECT md5('robot' || n)::uuid, '" ACME
                     "', 'robot$acme+r' || n, sha256('x'), 'system', now() + interval '1 day'"
                     " FROM generate_series(0, 399) n;"
                     "INSERT INTO binding (binding_id, robot_id, role, organisation_id, granted_by)"
                     " SELECT md5('binding' || n)::uuid, md5('robot' || n)::uuid, 'consumer', '" ACME "', 'system'"
                     " FROM generate_series(0, 399) n");
}

static struct uuid robot_at(struct fixture *fixture, unsigned number)
{
    char text[64];

    (void)snprintf(text, sizeof text, "SELECT md5('robot%u')::uuid::text", number);
    return uuid_of(database_ask(fixture->database, text));
}

static struct authz_snapshot *renew(struct fixture *fixture, const struct authz_snapshot *before, uint64_t since)
{
    struct authz_snapshot *after = NULL;
    struct error err = {0};

    if (!authz_snapshot_renew(fixture->pg, before, &(struct rights_change){.since = since}, &after, &err).ok)
        fail_msg("%s", err.message);
    return after;
}

/* In one statement; NULL if more has changed than single roles, or nothing. */
static struct authz_snapshot *add(struct fixture *fixture, const struct authz_snapshot *before, uint64_t since)
{
    struct authz_snapshot *after = NULL;
    uint64_t epoch = 0;
    struct error err = {0};

    if (!authz_snapshot_add(fixture->pg, before, since, &epoch, &after, &err).ok) fail_msg("%s", err.message);
    assert_int_equal(epoch, after == NULL ? 0 : epoch_of(fixture));
    return after;
}

static enum authz_verdict verdict(const struct authz_snapshot *snapshot, const struct uuid *robot, enum action action)
{
    const struct principal principal = {.kind = PRINCIPAL_ROBOT, .id = *robot};
    const struct resource project = resource_of(RESOURCE_PROJECT, "acme/models");

    return authz_snapshot_authorize(snapshot, &principal, action, &project, clock_wall_ms()).verdict;
}

static void revoke(struct fixture *fixture, const struct uuid *binding, const struct resource *where)
{
    struct binding_revoke change;
    struct resource scope = *where;
    struct error err = {0};

    uuid_format(binding, scope.detail);
    binding_revoke_init(&change, binding, &(struct principal){.kind = PRINCIPAL_SYSTEM});
    assert_true(run(fixture->pg, &change.change, ACTION_BINDING_REVOKE, &scope, &err));
}

static size_t buckets_shared(const struct rights_part *a, const struct rights_part *b)
{
    size_t same = 0;

    assert_int_equal(a->bucket_count, b->bucket_count);
    for (size_t i = 0; i < a->bucket_count; i++) same += a->buckets[i] == b->buckets[i];
    return same;
}

static void a_role_makes_one_bucket_anew(void **state)
{
    struct fixture *fixture = *state;
    struct resource project = resource_of(RESOURCE_PROJECT, "acme/models");
    const struct uuid acme = uuid_of(ACME);
    struct uuid id;
    struct error err = {0};

    fill(fixture);
    const struct uuid robot = robot_at(fixture, 7);
    OWNED(authz_snapshot) *before = load(fixture->pg);
    const uint64_t first = epoch_of(fixture);
    const struct rights_part *part = snapshot_part(before, &acme);
    assert_true(part->bucket_count >= 4);
    assert_int_not_equal(verdict(before, &robot, ACTION_UPLOAD_BEGIN), AUTHZ_ALLOWED);
    assert_true(bind(fixture->pg, &robot, ROLE_PUBLISHER, &project, &id, &err));
    assert_string_equal(database_ask(fixture->database,
                                     "SELECT (epoch > taken_epoch)::text FROM authorization_change WHERE organisation_id = '" ACME
                                     "'"),
                        "true");
    OWNED(authz_snapshot) *given = renew(fixture, before, first);
    assert_int_equal(verdict(given, &robot, ACTION_UPLOAD_BEGIN), AUTHZ_ALLOWED);
    assert_int_not_equal(verdict(before, &robot, ACTION_UPLOAD_BEGIN), AUTHZ_ALLOWED);
    assert_int_equal(buckets_shared(snapshot_part(given, &acme), part), part->bucket_count - 1);
    assert_ptr_equal(given->robots, before->robots);
    assert_ptr_equal(snapshot_part(given, &acme)->rows, part->rows);
    assert_ptr_equal(given->parts[0], before->parts[0]);
    assert_non_null(part_binding(snapshot_part(given, &acme), &id));

    const uint64_t second = epoch_of(fixture);
    OWNED(authz_snapshot) *same = renew(fixture, given, second);
    assert_ptr_equal(same, given);
    revoke(fixture, &id, &project);
    assert_string_equal(database_ask(fixture->database,
                                     "SELECT (epoch = taken_epoch)::text FROM authorization_change WHERE organisation_id = '" ACME
                                     "'"),
                        "true");
    OWNED(authz_snapshot) *taken = renew(fixture, given, second);
    assert_int_not_equal(verdict(taken, &robot, ACTION_UPLOAD_BEGIN), AUTHZ_ALLOWED);
    assert_int_equal(verdict(taken, &robot, ACTION_PROJECT_READ), AUTHZ_ALLOWED); /* its other role */
    assert_null(part_binding(snapshot_part(taken, &acme), &id));
    OWNED(authz_snapshot) *both = renew(fixture, before, first); /* given and taken between two looks */
    assert_int_not_equal(verdict(both, &robot, ACTION_UPLOAD_BEGIN), AUTHZ_ALLOWED);
}

/* Of an organisation without robots, and of the registry. */
static void a_first_role_makes_a_part(void **state)
{
    struct fixture *fixture = *state;
    struct resource beta = resource_of(RESOURCE_ORGANISATION, "beta"), all = resource_of(RESOURCE_SYSTEM, "");
    const struct uuid beta_id = uuid_of(BETA);
    struct robot_create robot;
    struct error err = {0};

    assert_true(make_robot(fixture->pg, "robot$acme+a", "acme", &robot, &err));
    OWNED(authz_snapshot) *before = load(fixture->pg);
    const uint64_t epoch = epoch_of(fixture);
    assert_null(snapshot_part(before, &beta_id));
    assert_true(bind(fixture->pg, NULL, ROLE_CONSUMER, &beta, NULL, &err));
    assert_true(bind(fixture->pg, NULL, ROLE_AUDITOR, &all, NULL, &err));
    OWNED(authz_snapshot) *after = renew(fixture, before, epoch);
    assert_int_equal(snapshot_part(after, &beta_id)->binding_count, 1);
    assert_int_equal(after->parts[0]->binding_count, 1);
    assert_non_null(authz_snapshot_robot(after, &robot.robot.id));
    robot_create_done(&robot);
}

static void assert_same(const struct authz_snapshot *renewed, const struct authz_snapshot *loaded)
{
    const struct uuid acme = uuid_of(ACME);
    const struct rights_part *ours = snapshot_part(renewed, &acme), *theirs = snapshot_part(loaded, &acme);
    const struct authz_binding *binding = NULL;
    struct part_walk walk = {0};

    assert_int_equal(ours->binding_count, theirs->binding_count);
    while ((binding = part_next_binding(theirs, &walk)) != NULL) {
        const struct principal principal = {.kind = PRINCIPAL_ROBOT, .id = binding->robot};
        const struct authz_binding *own = part_binding(ours, &binding->id);
        size_t count = 0, wanted = 0;
        assert_non_null(own);
        assert_int_equal(own->role, binding->role);
        assert_non_null(part_bindings_of(ours, &principal, &count));
        (void)part_bindings_of(theirs, &principal, &wanted);
        assert_int_equal(count, wanted);
    }
}

/* Many are renewed one after the other, with several changes at once. */
static void renewed_and_loaded_are_the_same(void **state)
{
    struct fixture *fixture = *state;
    struct resource project = resource_of(RESOURCE_PROJECT, "acme/models");
    static const enum role roles[] = {ROLE_PUBLISHER, ROLE_PROMOTER, ROLE_TRAINER};
    struct uuid given[STEPS];
    size_t count = 0, added = 0;
    struct error err = {0};

    fill(fixture);
    srand(7);
    struct authz_snapshot *snapshot = load(fixture->pg);
    uint64_t epoch = epoch_of(fixture);
    for (unsigned i = 0; i < STEPS; i++) {
        const struct uuid robot = robot_at(fixture, (unsigned)rand() % 20);
        if (count > 0 && rand() % 3 == 0) revoke(fixture, &given[--count], &project);
        else if (bind(fixture->pg, &robot, roles[rand() % 3], &project, &given[count], &err)) count++;
        if (rand() % 4 != 0) continue;
        struct authz_snapshot *next = epoch == epoch_of(fixture) ? NULL : add(fixture, snapshot, epoch);
        added += next != NULL;
        if (next == NULL) next = renew(fixture, snapshot, epoch);
        epoch = epoch_of(fixture);
        authz_snapshot_free(snapshot);
        snapshot = next;
        OWNED(authz_snapshot) *loaded = load(fixture->pg);
        assert_same(snapshot, loaded);
    }
    assert_true(count > 10);
    assert_true(added > 10);
    authz_snapshot_free(snapshot);
}

/* A gateway that took only the roles would keep what another change has taken. */
static void a_role_beside_another_change_is_not_read_alone(void **state)
{
    static const char *const others[] = {"SELECT raise_authorization_epoch('" BETA "', false)",
                                         "SELECT raise_authorization_epoch()", "SELECT raise_authorization_epoch(NULL, true)",
                                         "SELECT raise_authorization_epoch_of_set()"};
    struct fixture *fixture = *state;
    struct resource project = resource_of(RESOURCE_PROJECT, "acme/models"), acme = resource_of(RESOURCE_ORGANISATION, "acme");
    struct uuid id;
    struct error err = {0};

    fill(fixture);
    const struct uuid robot = robot_at(fixture, 7);
    OWNED(authz_snapshot) *before = load(fixture->pg);
    uint64_t first = epoch_of(fixture);
    assert_null(add(fixture, before, first)); /* nothing has changed */
    assert_true(bind(fixture->pg, &robot, ROLE_PUBLISHER, &project, &id, &err));
    OWNED(authz_snapshot) *given = add(fixture, before, first);
    assert_non_null(given);
    assert_int_equal(verdict(given, &robot, ACTION_UPLOAD_BEGIN), AUTHZ_ALLOWED);
    revoke(fixture, &id, &project);
    OWNED(authz_snapshot) *taken = add(fixture, before, first);
    assert_non_null(taken);
    assert_int_not_equal(verdict(taken, &robot, ACTION_UPLOAD_BEGIN), AUTHZ_ALLOWED);
    for (size_t i = 0; i < COUNT(others); i++) {
        first = epoch_of(fixture);
        database_execute(fixture->database, others[i]);
        assert_true(bind(fixture->pg, &robot,
                         i == 0   ? ROLE_TRAINER
                         : i == 1 ? ROLE_PROMOTER
                                  : ROLE_AUDITOR,
                         i == 2 ? &acme : &project, NULL, &err));
        assert_null(add(fixture, before, first));
    }
}

/* `count` roles, as that many changes leave them. */
static void add_roles(struct fixture *fixture, const char *role, unsigned count)
{
    char text[600];

    (void)snprintf(text, sizeof text,
                   "INSERT INTO binding (binding_id, issuer, subject, role, organisation_id, granted_by, changed_epoch)"
                   " SELECT gen_random_uuid(), 'https://i', 's' || n, '%s', '" ACME "', 'system',"
                   " (SELECT epoch FROM authorization_epoch) FROM generate_series(1, %u) n",
                   role, count);
    database_execute(fixture->database, text);
}

static void a_part_that_grows_gets_more_buckets(void **state)
{
    struct fixture *fixture = *state;
    const struct uuid acme = uuid_of(ACME);
    struct robot_create robot;
    struct error err = {0};

    assert_true(make_robot(fixture->pg, "robot$acme+a", "acme", &robot, &err));
    OWNED(authz_snapshot) *before = load(fixture->pg);
    assert_int_equal(snapshot_part(before, &acme)->bucket_count, 1);
    add_roles(fixture, "consumer", RIGHTS_BUCKET_GROWN + 1);
    OWNED(authz_snapshot) *after = renew(fixture, before, epoch_of(fixture) - 1);
    OWNED(authz_snapshot) *loaded = load(fixture->pg);
    assert_true(snapshot_part(after, &acme)->bucket_count > 1);
    assert_int_equal(snapshot_part(after, &acme)->binding_count, RIGHTS_BUCKET_GROWN + 1);
    assert_int_equal(snapshot_part(loaded, &acme)->binding_count, RIGHTS_BUCKET_GROWN + 1);
    assert_non_null(authz_snapshot_robot(after, &robot.robot.id));
    robot_create_done(&robot);
}

static void after_too_many_changes_everything_is_read(void **state)
{
    struct fixture *fixture = *state;
    const struct uuid acme = uuid_of(ACME);

    fill(fixture);
    database_execute(fixture->database, "SELECT raise_authorization_epoch()");
    OWNED(authz_snapshot) *before = load(fixture->pg);
    add_roles(fixture, "consumer", CHANGES);
    OWNED(authz_snapshot) *after = renew(fixture, before, epoch_of(fixture) - 1);
    assert_int_equal(snapshot_part(after, &acme)->binding_count, ROBOTS + CHANGES);
    assert_ptr_not_equal(snapshot_part(after, &acme)->rows, snapshot_part(before, &acme)->rows);
}

/* A role that has ended by time takes no room in what is made anew. */
static void expired_roles_go_with_their_bucket(void **state)
{
    struct fixture *fixture = *state;
    const struct uuid acme = uuid_of(ACME);
    struct resource organisation = resource_of(RESOURCE_ORGANISATION, "acme");
    struct error err = {0};

    database_execute(fixture->database,
                     "INSERT INTO binding (binding_id, issuer, subject, role, organisation_id, granted_by, expires_at)"
                     " VALUES (gen_random_uuid(), 'https://i', 'short', 'consumer', '" ACME
                     "', 'system', now() + interval '300 ms')");
    OWNED(authz_snapshot) *before = load(fixture->pg);
    const uint64_t epoch = epoch_of(fixture);
    assert_int_equal(snapshot_part(before, &acme)->binding_count, 1);
    database_execute(fixture->database, "SELECT pg_sleep(0.35)");
    assert_true(bind(fixture->pg, NULL, ROLE_CONSUMER, &organisation, NULL, &err));
    OWNED(authz_snapshot) *after = renew(fixture, before, epoch);
    assert_int_equal(snapshot_part(after, &acme)->binding_count, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_role_makes_one_bucket_anew),        TEST(a_first_role_makes_a_part),
        TEST(renewed_and_loaded_are_the_same),     TEST(a_role_beside_another_change_is_not_read_alone),
        TEST(a_part_that_grows_gets_more_buckets), TEST(after_too_many_changes_everything_is_read),
        TEST(expired_roles_go_with_their_bucket),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
