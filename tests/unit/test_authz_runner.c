/* The rights of runners come from their document; neither a role nor a name gives more. */
#include "tests/support/unit.h"

#include <string.h>

#include "authz/snapshot.h"

#define NOW_MS INT64_C(1795000000000)

static const struct uuid acme = {{1}}, other = {{2}}, nobody = {{0}}, robot_id = {{9}};

static const struct row {
    const char *name;
    enum principal_kind kind;
    const struct uuid *home, *resource; /* organisations */
    enum action action;
    int64_t lives_ms;
    enum authz_verdict verdict;
} rows[] = {
    {"its own organisation", PRINCIPAL_RUNNER, &acme, &acme, ACTION_RUNNER_CERTIFY, 1, AUTHZ_ALLOWED},
    {"another organisation", PRINCIPAL_RUNNER, &acme, &other, ACTION_RUNNER_CERTIFY, 1, AUTHZ_INVISIBLE},
    {"the registry, for a runner of an organisation", PRINCIPAL_RUNNER, &acme, &nobody, ACTION_RUNNER_CERTIFY, 1,
     AUTHZ_INVISIBLE},
    {"the registry, for a runner of the registry", PRINCIPAL_RUNNER, &nobody, &nobody, ACTION_RUNNER_CERTIFY, 1, AUTHZ_ALLOWED},
    {"any organisation, for a runner of the registry", PRINCIPAL_RUNNER, &nobody, &other, ACTION_RUNNER_CERTIFY, 1,
     AUTHZ_ALLOWED},
    {"a certificate that has ended", PRINCIPAL_RUNNER, &acme, &acme, ACTION_RUNNER_CERTIFY, 0, AUTHZ_NOT_LIVE},
    {"content", PRINCIPAL_RUNNER, &acme, &acme, ACTION_BLOB_READ, 1, AUTHZ_INVISIBLE},
    {"a token", PRINCIPAL_RUNNER, &nobody, &nobody, ACTION_TOKEN_MINT, 1, AUTHZ_INVISIBLE},
    {"its own approval", PRINCIPAL_RUNNER, &acme, &acme, ACTION_RUNNER_APPROVE, 1, AUTHZ_INVISIBLE},
    {"a robot", PRINCIPAL_ROBOT, &acme, &acme, ACTION_RUNNER_CERTIFY, 1, AUTHZ_NOT_ALLOWED},
};

static void decides(void **state)
{
    const struct row *row = *state;
    const struct authz_robot robot = {
        .id = robot_id, .organisation = acme, .name = "robot$acme+ci", .enabled = true, .expires_ms = NOW_MS + 1000};
    const struct authz_binding binding = {.id = {{5}},
                                          .kind = PRINCIPAL_ROBOT,
                                          .robot = robot_id,
                                          .role = ROLE_ORG_ADMIN,
                                          .scope = RESOURCE_ORGANISATION,
                                          .organisation = acme};
    const struct authz_parts parts = {.robots = &robot, .robot_count = 1, .bindings = &binding, .binding_count = 1};
    const struct principal principal = {
        .kind = row->kind, .id = robot_id, .organisation = *row->home, .expires_ms = NOW_MS + row->lives_ms};
    const struct resource resource = {.kind = uuid_is_nil(row->resource) ? RESOURCE_SYSTEM : RESOURCE_ORGANISATION,
                                      .organisation = *row->resource};
    OWNED(authz_snapshot) *snapshot = NULL;
    struct error err = {0};

    assert_true(authz_snapshot_build(&parts, &snapshot, &err).ok);
    const struct authz_answer answer = authz_snapshot_authorize(snapshot, &principal, row->action, &resource, NOW_MS);
    assert_int_equal(answer.verdict, row->verdict);
}

static void has_a_key_and_no_person(void **state)
{
    const struct principal principal = {.kind = PRINCIPAL_RUNNER, .id = robot_id};
    const struct authz_parts parts = {0};
    OWNED(authz_snapshot) *snapshot = NULL;
    char key[PRINCIPAL_KEY_SIZE];
    struct error err = {0};

    (void)state;
    assert_true(authz_snapshot_build(&parts, &snapshot, &err).ok);
    principal_key(&principal, key);
    assert_string_equal(key, "runner:09000000-0000-0000-0000-000000000000");
    const struct persons_scope scope = {snapshot, &(struct uuid){{0}}, 0};
    const struct persons persons = persons_of(&scope, &principal), of_key = persons_of_key(&scope, key);
    assert_false(persons_are_known(&persons) || persons_are_known(&of_key));
}

int main(void)
{
    const struct CMUnitTest others[] = {cmocka_unit_test(has_a_key_and_no_person)};

    return RUN_TABLE(rows, decides) + cmocka_run_group_tests_name("others", others, NULL, NULL);
}
