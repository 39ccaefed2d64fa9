/* The tables also refuse all values that the program refuses. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#include "authz/role.h"
#include "base/bytes.h"
#include "tests/support/database.h"

#define ACME   "10000000-0000-4000-8000-000000000001"
#define MODELS "20000000-0000-4000-8000-000000000001"

/* What no rule of the roles allows. */
static const char *const refused_rows[] = {
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
    "INSERT INTO binding (binding_id, issuer, subject, role, organisation_id, granted_by)"
    " VALUES (gen_random_uuid(), 'https://i', 's', 'witness', '" ACME "', 'system')",
    "INSERT INTO robot (robot_id, name, secret_hash, created_by, expires_at)"
    " VALUES (gen_random_uuid(), 'robot$a', sha256('x'), 's', now() + interval '91 days')",
    "INSERT INTO robot (robot_id, name, secret_hash, created_by, expires_at)"
    " VALUES (gen_random_uuid(), 'a', sha256('x'), 's', now() + interval '1 day')",
    "INSERT INTO robot (robot_id, name, secret_hash, created_by, expires_at)"
    " VALUES (gen_random_uuid(), 'robot$a', 'x', 's', now() + interval '1 day')",
    "INSERT INTO trusted_issuer (issuer_id, url, audience, algorithms, lifetime_max_s, jwks)"
    " VALUES (gen_random_uuid(), 'https://i', 'us', '{HS256}', 60, 'x')",
    "INSERT INTO robot (robot_id, name, secret_hash, created_by, expires_at, person) VALUES (gen_random_uuid(), 'robot$a', sha256('x'),"
    " 'ext:' || repeat('a', 64), now(), 'ext:' || repeat('b', 64))",
    "INSERT INTO robot (robot_id, name, secret_hash, created_by, expires_at, person) VALUES (gen_random_uuid(), 'robot$a', sha256('x'),"
    " 'ext:' || repeat('a', 64), now(), 'administrator')",
    "INSERT INTO trusted_issuer (issuer_id, url, audience, algorithms, lifetime_max_s, jwks)"
    " VALUES (gen_random_uuid(), 'http://i', 'us', '{ES256}', 60, 'x')",
};

static void the_schema_holds_the_rules(void **state)
{
    OWNED(database) *database = database_new();
    struct buffer OWNED_BUFFER sql = BUFFER(4096);
    struct error err = {0};

    (void)state;
    database_execute(database, "INSERT INTO organisation (organisation_id, name) VALUES ('" ACME "', 'acme')");
    for (size_t i = 0; i < COUNT(refused_rows); i++) {
        buffer_clear(&sql);
        assert_true(
            buffer_format(&sql, &err,
                          "DO $do$ BEGIN %s; RAISE EXCEPTION 'accepted'; EXCEPTION WHEN check_violation THEN NULL; END $do$",
                          refused_rows[i])
                .ok);
        database_execute(database, buffer_text(&sql));
    }
}

#define ROBOT "30000000-0000-4000-8000-000000000001"
#define GRANT "40000000-0000-4000-8000-000000000001"
#define GONE  "50000000-0000-4000-8000-00000000000"
#define SHA   "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static const char one_way_arrange[] =
    "INSERT INTO organisation (organisation_id, name, label) VALUES ('" ACME "', 'acme', '{\"class\":\"confidential\"}');"
    "INSERT INTO robot (robot_id, name, secret_hash, created_by, expires_at, revoked_at)"
    " VALUES ('" ROBOT
    "', 'robot$a', sha256('x'), 'system', now() + interval '1 day', now()); UPDATE robot SET person = 'administrator', behind = '{administrator}';"
    "INSERT INTO binding (binding_id, issuer, subject, role, granted_by, revoked_at)"
    " VALUES ('" GRANT "', 'https://i', 's', 'consumer', 'system', now());"
    "INSERT INTO forgotten_key (blob_id, project_id, region_id, digest, size_bytes, key_version, sequence) VALUES"
    " ('" GONE "1', '" MODELS "', 'r', '" SHA "', 1, 1, NULL), ('" GONE "2', '" MODELS "', 'r', '" SHA "', 1, 1, 2);"
    "INSERT INTO audit_entry SELECT n, 1, convert_to(leaf, 'UTF8'), sha256(''), action, 'allowed' FROM (VALUES (1, 'other', 'key.forgotten'),"
    " (2, '" SHA "', 'key.forgotten'), (3, '" SHA "', 'key.forgotten'), (4, '" SHA "', 'tag.delete')) AS e (n, leaf, action);"
    "CREATE FUNCTION try(sql text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN SET LOCAL ROLE sijil_app; EXECUTE sql; RESET ROLE;"
    " RETURN 'done'; EXCEPTION WHEN insufficient_privilege THEN RESET ROLE; RETURN 'refused';"
    " WHEN unique_violation THEN RESET ROLE; RETURN 'taken'; END $$";

static const struct one_way_row {
    const char *sql, *answer;
} one_way_rows[] = {
    {"UPDATE robot SET revoked_at = NULL", "refused"},
    {"UPDATE robot SET revoked_at = now() + interval '1 day'", "refused"},
    {"UPDATE binding SET revoked_at = NULL", "refused"},
    {"UPDATE binding SET giver = 'administrator'", "refused"},
    {"UPDATE robot SET created_by = 'robot:" ROBOT "'", "refused"},
    {"UPDATE robot SET person = 'ext:' || repeat('a', 64)", "refused"},
    {"UPDATE robot SET person = NULL", "done"},
    {"UPDATE robot SET person = 'administrator'", "refused"},
    {"UPDATE robot SET asked_since = now()", "done"},
    {"UPDATE robot SET asked_since = NULL", "refused"},
    {"UPDATE robot SET asked_since = now() - interval '1 day'", "refused"},
    {"UPDATE robot SET asked_since = now() + interval '1 s'", "done"},
    {"UPDATE robot SET behind = '{unknown}'", "refused"},
    {"UPDATE robot SET behind = behind[2:]", "refused"},
    {"UPDATE robot SET behind = behind || '{unknown}'", "done"},
    {"UPDATE binding SET giver_issuer = 'https://i'", "refused"},
    {"UPDATE organisation SET label = '{}'", "refused"},
    {"UPDATE organisation SET label = '{\"class\":\"open\"}'", "refused"},
    {"UPDATE organisation SET label = '{\"class\":\"top\"}'", "refused"},
    {"UPDATE organisation SET label = '{\"class\":\"secret\",\"lineage\":\"declared\"}'", "refused"},
    {"UPDATE organisation SET label = '{\"class\":\"sensitive\",\"subjects\":[\"health\"],\"attached\":[\"a\"]}'", "done"},
    {"UPDATE organisation SET label = '{\"class\":\"secret\",\"attached\":[\"a\"]}'", "refused"},
    {"UPDATE organisation SET label = '{\"class\":\"secret\",\"subjects\":[\"health\"]}'", "refused"},
    {"UPDATE organisation SET label = '{\"class\":\"secret\",\"subjects\":[\"health\"],\"attached\":[\"b\",\"a\"],\"lineage\":\"unknown\"}'",
     "done"},
    {"UPDATE organisation SET label = '{\"class\":\"secret\",\"subjects\":[\"health\"],\"attached\":[\"b\",\"a\"]}'", "refused"},
    {"UPDATE forgotten_key SET sequence = 9 WHERE sequence IS NULL", "refused"},
    {"UPDATE forgotten_key SET sequence = 1 WHERE sequence IS NULL", "refused"},
    {"UPDATE forgotten_key SET sequence = 4 WHERE sequence IS NULL", "refused"},
    {"UPDATE forgotten_key SET sequence = 2 WHERE sequence IS NULL", "taken"},
    {"UPDATE forgotten_key SET sequence = 3 WHERE sequence = 2", "refused"},
    {"UPDATE forgotten_key SET sequence = NULL WHERE sequence = 2", "refused"},
    {"UPDATE forgotten_key SET claimed_until = 'infinity'", "refused"},
    {"UPDATE forgotten_key SET claimed_until = now() + interval '60 s'", "done"},
    {"UPDATE forgotten_key SET sequence = 3 WHERE sequence IS NULL", "done"},
    {"UPDATE authorization_epoch SET epoch = epoch - 1", "refused"},
    {"UPDATE authorization_epoch SET epoch = epoch + 1", "refused"},
    {"UPDATE authorization_change SET epoch = 0", "refused"},
    {"UPDATE authorization_change SET whole_epoch = 0", "refused"},
    {"INSERT INTO authorization_change (organisation_id, epoch) VALUES ('" ACME "', 9223372036854775807)", "refused"},
    {"SELECT raise_authorization_epoch()", "done"},
    {"SELECT raise_authorization_epoch('" ACME "', true)", "done"},
    {"SELECT raise_authorization_epoch_of_binding('" ACME "')", "done"},
    {"SELECT raise_authorization_epoch_of_set()", "done"},
    {"UPDATE authorization_change SET part_epoch = 0", "refused"},
    {"UPDATE authorization_change SET rights_epoch = 0", "refused"},
    {"UPDATE audit_log SET altered = size + 1", "refused"},
    {"UPDATE audit_log SET size = size + 10, altered = size + 9", "done"},
    {"UPDATE audit_log SET altered = altered - 1", "refused"},
    {"UPDATE audit_log SET size = size - 5", "refused"},
    {"UPDATE audit_log SET size = size + 1", "done"},
};

/* The gateway's role can't undo the changes that the application never undoes. */
static void some_changes_go_one_way(void **state)
{
    OWNED(database) *database = database_new();
    struct buffer OWNED_BUFFER sql = BUFFER(4096);
    struct error err = {0};

    (void)state;
    database_execute(database, one_way_arrange);
    for (size_t i = 0; i < COUNT(one_way_rows); i++) {
        buffer_clear(&sql);
        assert_true(buffer_format(&sql, &err, "SELECT try($sql$%s$sql$)", one_way_rows[i].sql).ok);
        const char *answer = database_ask(database, buffer_text(&sql));
        if (strcmp(answer, one_way_rows[i].answer) != 0) fail_msg("%s: %s", one_way_rows[i].sql, answer);
    }
    database_execute(database, "UPDATE robot SET revoked_at = NULL; UPDATE organisation SET label = '{}'"); /* as the owner */
}

/* The words of the CHECK are those of the table of roles. */
static void the_schema_knows_every_role(void **state)
{
    OWNED(database) *database = database_new();
    const char *definition = database_ask(database, "SELECT string_agg(pg_get_constraintdef(oid), ' ') FROM pg_constraint"
                                                    " WHERE conrelid = 'binding'::regclass AND contype = 'c'");

    (void)state;
    for (enum role role = 0; role < ROLE_COUNT; role++) {
        char quoted[ROLE_NAME_SIZE + 2];
        (void)snprintf(quoted, sizeof quoted, "'%s'", role_name(role));
        assert_true((strstr(definition, quoted) != NULL) == (role != ROLE_UNSIGNED_OFFICER)); /* no row has this one */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_schema_holds_the_rules),
        cmocka_unit_test(the_schema_knows_every_role),
        cmocka_unit_test(some_changes_go_one_way),
    };

    return cmocka_run_group_tests_name("schema", tests, NULL, NULL);
}
