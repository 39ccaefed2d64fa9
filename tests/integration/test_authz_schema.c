/* What the program refuses, the tables refuse too. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#include "authz/role.h"
#include "base/bytes.h"
#include "tests/support/database.h"

#define ACME   "10000000-0000-4000-8000-000000000001"
#define MODELS "20000000-0000-4000-8000-000000000001"

static void the_schema_holds_the_rules(void **state)
{
    static const char *const rows[] = {
        "INSERT INTO binding (binding_id, role, granted_by) VALUES (gen_random_uuid(), 'consumer', 'system')",
        "INSERT INTO binding (binding_id, issuer, role, granted_by) VALUES (gen_random_uuid(), 'https://i', 'consumer', 'system')",
        "INSERT INTO binding (binding_id, issuer, subject, role, granted_by) VALUES (gen_random_uuid(), 'https://i', 's', 'owner', 'system')",
        "INSERT INTO binding (binding_id, issuer, subject, role, project_id, granted_by)"
        " VALUES (gen_random_uuid(), 'https://i', 's', 'consumer', '" MODELS "', 'system')",
        "INSERT INTO binding (binding_id, issuer, subject, role, organisation_id, pattern, granted_by)"
        " VALUES (gen_random_uuid(), 'https://i', 's', 'consumer', '" ACME "', 'acme/*', 'system')",
        "INSERT INTO binding (binding_id, issuer, subject, role, organisation_id, granted_by)"
        " VALUES (gen_random_uuid(), 'https://i', 's', 'registry-admin', '" ACME "', 'system')",
        "INSERT INTO binding (binding_id, issuer, subject, role, organisation_id, granted_by)"
        " VALUES (gen_random_uuid(), 'https://i', 's', 'break-glass', '" ACME "', 'a')",
        "INSERT INTO binding (binding_id, issuer, subject, role, organisation_id, granted_by, approved_by, expires_at)"
        " VALUES (gen_random_uuid(), 'https://i', 's', 'break-glass', '" ACME "', 'a', 'a', now() + interval '1 hour')",
        "INSERT INTO binding (binding_id, issuer, subject, role, organisation_id, granted_by, approved_by, expires_at)"
        " VALUES (gen_random_uuid(), 'https://i', 's', 'break-glass', '" ACME "', 'a', 'b', now() + interval '2 hours')",
        "INSERT INTO robot (robot_id, name, secret_hash, created_by, expires_at)"
        " VALUES (gen_random_uuid(), 'robot$a', sha256('x'), 's', now() + interval '91 days')",
        "INSERT INTO robot (robot_id, name, secret_hash, created_by, expires_at)"
        " VALUES (gen_random_uuid(), 'a', sha256('x'), 's', now() + interval '1 day')",
        "INSERT INTO robot (robot_id, name, secret_hash, created_by, expires_at)"
        " VALUES (gen_random_uuid(), 'robot$a', 'x', 's', now() + interval '1 day')",
        "INSERT INTO trusted_issuer (issuer_id, url, audience, algorithms, lifetime_max_s, jwks)"
        " VALUES (gen_random_uuid(), 'https://i', 'us', '{HS256}', 60, 'x')",
        "INSERT INTO trusted_issuer (issuer_id, url, audience, algorithms, lifetime_max_s, jwks)"
        " VALUES (gen_random_uuid(), 'http://i', 'us', '{ES256}', 60, 'x')",
    };
    OWNED(database) *database = database_new();
    struct buffer OWNED_BUFFER sql = BUFFER(4096);
    struct error err = {0};

    (void)state;
    database_execute(database, "INSERT INTO organisation (organisation_id, name) VALUES ('" ACME "', 'acme')");
    for (size_t i = 0; i < COUNT(rows); i++) {
        buffer_clear(&sql);
        assert_true(buffer_format(&sql, &err,
                                  "DO $do$ BEGIN %s; RAISE EXCEPTION 'accepted'; EXCEPTION WHEN check_violation THEN NULL; END $do$",
                                  rows[i]).ok);
        database_execute(database, buffer_text(&sql));
    }
}

/* The words of the CHECK are those of the table of roles. */
static void the_schema_knows_every_role(void **state)
{
    OWNED(database) *database = database_new();
    const char *definition = database_ask(
        database, "SELECT string_agg(pg_get_constraintdef(oid), ' ') FROM pg_constraint"
                           " WHERE conrelid = 'binding'::regclass AND contype = 'c'");

    (void)state;
    for (enum role role = 0; role < ROLE_COUNT; role++) {
        char quoted[ROLE_NAME_SIZE + 2];
        (void)snprintf(quoted, sizeof quoted, "'%s'", role_name(role));
        assert_non_null(strstr(definition, quoted));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_schema_holds_the_rules),
        cmocka_unit_test(the_schema_knows_every_role),
    };

    return cmocka_run_group_tests_name("schema", tests, NULL, NULL);
}
