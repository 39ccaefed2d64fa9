/* The rows of one tenant cost others nothing: statements under the log's lock, and those of each start, scan no tenant's rows. */
#include "tests/integration/database_fixture.h"

#include <stdio.h>
#include <string.h>

#include "authz/binding.h"
#include "authz/robot.h"
#include "authz/trusted_issuer.h"
#include "registry/jobs/erase.h"
#include "registry/jobs/statements.h"
#include "registry/registry.h"
#include "registry/stored_blob.h"
#include "storage/pg_table.h"
#include "training/run.h"

static const struct pg_table *const tables[] = {&rights_table,         &binding_table,    &robot_table,
                                                &trusted_issuer_table, &erase_statements, &stored_blob_statements,
                                                &project_statements,   &run_table,        NULL};

#define ID(number) "'00000000-0000-4000-8000-' || lpad(to_hex(" #number "), 12, '0')"
#define ONE        "'00000000-0000-4000-8000-000000000001'"
#define MANY       "20000"
#define RUNS                                                                                                                    \
    "INSERT INTO run (run_id, project_id, state, request, requester, approvals_wanted, pool, expires_at)"                       \
    " SELECT gen_random_uuid(), " ONE ", 'requested', sha256(''), 'robot:1', 0, 'default', now() FROM generate_series(1, " MANY \
    "); INSERT INTO project_runs SELECT project_id, 0, 0 FROM project WHERE deleted_at IS NOT NULL;"

/* Organisations with many robots, roles, blobs, events and runs. The planner is told, and plans for any parameters. */
static int set_up(void **state)
{
    return open_fixture(
        state,
        "INSERT INTO region (region_id, region_tag, driver, location) SELECT 'local/' || n, substring(sha256(n::bytea) FROM 1 FOR 16),"
        " 'memory', '-' FROM unnest('{main,spare}'::text[]) AS n;"
        "INSERT INTO organisation (organisation_id, name) SELECT (" ID(
            i) ")::uuid, 'o' || i FROM generate_series(1, 40) AS i;"
               "INSERT INTO project (project_id, organisation_id, name, home_region) SELECT (" ID(i) ")::uuid, (" ID(
                   i) ")::uuid, 'p',"
                      " 'local/main' FROM generate_series(1, 40) AS i;"
                      "INSERT INTO project (project_id, organisation_id, name, home_region, deleted_name, deleted_at, emptied_at) SELECT (" ID(
                          i +
                          40) ")::uuid,"
                              " (" ID(i % 40 + 1) ")::uuid, '#' || (" ID(
                                  i +
                                  40) "), 'local/main', 'o/p' || i, now(), now() FROM generate_series(1, " MANY ") AS i;"
                                      "INSERT INTO repository (repository_id, project_id, name, full_name) SELECT (" ID(i) ")::uuid, (" ID(
                                          i % 40 +
                                          1) ")::uuid, 'r' || i, 'r' || i"
                                             " FROM generate_series(1, " MANY ") AS i;"
                                             "INSERT INTO robot (robot_id, organisation_id, name, secret_hash, created_by, expires_at) SELECT (" ID(
                                                 i) ")::uuid,"
                                                    " (" ID(
                                                        i % 40 +
                                                        1) ")::uuid, 'robot$acme+r' || i, sha256(''), 'a test', now() + interval '1 day' FROM generate_series(1, " MANY
                                                           ") AS i;"
                                                           "INSERT INTO binding (binding_id, robot_id, issuer, subject, role, organisation_id, project_id, granted_by)"
                                                           " SELECT (" ID(i) ")::uuid, CASE WHEN i % 2 = 0 THEN (" ID(
                                                               i) ")::uuid END, CASE WHEN i % 2 = 1 THEN 'https://idp.example' END,"
                                                                  " CASE WHEN i % 2 = 1 THEN 's' || i END, 'consumer', (" ID(
                                                                      i % 40 +
                                                                      1) ")::uuid,"
                                                                         " (" ID(
                                                                             i % 40 +
                                                                             1) ")::uuid, 'a test' FROM generate_series(1, " MANY
                                                                                ") AS i;"
                                                                                "INSERT INTO blob (blob_id, project_id, region_id, digest, size_bytes, part, key_version, wrapped_key, commitment)"
                                                                                " SELECT (" ID(
                                                                                    i) ")::uuid, " ONE
                                                                                       ", 'local/main', 'sha256:' || encode(sha256(i::text::bytea), 'hex'), 1, 0, 1, 'k',"
                                                                                       " sha256('') FROM generate_series(1, " MANY
                                                                                       ") AS i;"
                                                                                       "INSERT INTO audit_entry SELECT i, 0, 'leaf', sha256(''), 'blob.read', 'allowed' FROM generate_series(1, " MANY
                                                                                       ") AS i;"
                                                                                       "INSERT INTO audit_run SELECT substring(sha256('org:acme') FROM 1 FOR 16), i, i, ARRAY[i] FROM generate_series(1, " MANY
                                                                                       ") AS i;" RUNS
                                                                                       "ANALYZE; SET plan_cache_mode = force_generic_plan",
        tables);
}

static const struct cost_row {
    const char *name;
    const struct pg_table *table;
    const char *arguments, *large; /* the table that it must not scan */
} cost_rows[] = {
    {"binding_end_expired_robot", &binding_table, ONE ", " ONE, "binding"},
    {"binding_end_expired_subject", &binding_table, ONE ", 'a', 'b'", "binding"},
    {"binding_count_robot", &binding_table, ONE ", " ONE, "binding"},
    {"binding_count_subject", &binding_table, ONE ", 'a', 'b'", "binding"},
    {"rights_administrators", &rights_table, NULL, "binding"},
    {"binding_revoke", &binding_table, ONE, "binding"},
    {"robot_revoke", &robot_table, ONE ", " ONE, "robot"},
    {"robot_revoke_bindings", &robot_table, ONE, "binding"},
    {"erase_changes", &erase_statements, "'k', 1, 10, '{}'", "audit_run"},
    {"erase_exists", &erase_statements, ONE ", " ONE ", " ONE, "repository"},
    {"erase_sessions", &erase_statements, ONE ", " ONE ", " ONE, "repository"},
    {"erase_bindings_organisation", &erase_statements, ONE, "binding"},
    {"erase_bindings_project", &erase_statements, ONE ", " ONE, "binding"},
    {"erase_bindings_repository", &erase_statements, ONE ", " ONE ", " ONE, "binding"},
    {"erase_robots", &erase_statements, ONE, "robot"},
    {"project_insert", &project_statements, ONE ", " ONE ", 'a', 'local/main', NULL, 10, 1", "project"},
    {"project_is_there", &project_statements, ONE ", 'a'", "project"},
    {"blob_region_elsewhere", &stored_blob_statements, "'{}'", "blob"},
    {"blob_region_is_used", &stored_blob_statements, "'local/spare'", "blob"},
};

static const struct pg_statement *statement_of(const struct cost_row *row)
{
    for (size_t i = 0; i < row->table->count; i++)
        if (strcmp(row->table->statements[i]->name, row->name) == 0) return row->table->statements[i];
    fail_msg("there is no statement %s", row->name);
    return NULL;
}

static const char *plan_of(struct database *database, const struct cost_row *row)
{
    const struct pg_statement *statement = statement_of(row);
    char types[128], sql[4096], explain[512];

    (void)snprintf(types, sizeof types, "%s", statement->parameters);
    for (char *at = types; *at != '\0'; at++)
        if (*at == ' ') *at = ',';
    (void)snprintf(sql, sizeof sql, "PREPARE %s%s%s%s AS %s", row->name, types[0] == '\0' ? "" : " (", types,
                   types[0] == '\0' ? "" : ")", statement->sql);
    database_execute(database, sql);
    (void)snprintf(explain, sizeof explain, "EXPLAIN (FORMAT JSON) EXECUTE %s%s%s%s", row->name,
                   row->arguments == NULL ? "" : " (", row->arguments == NULL ? "" : row->arguments,
                   row->arguments == NULL ? "" : ")");
    return database_ask(database, explain);
}

/* In the plan's JSON each node begins with a line "Node Type"; its table follows some lines later. */
static bool scans(const char *plan, const char *large)
{
    char wanted[80];

    (void)snprintf(wanted, sizeof wanted, "\"Relation Name\": \"%s\"", large);
    for (const char *node = strstr(plan, "\"Seq Scan\""); node != NULL; node = strstr(node + 1, "\"Seq Scan\"")) {
        const char *name = strstr(node, "\"Relation Name\"");
        if (name != NULL && strncmp(name, wanted, strlen(wanted)) == 0) return true;
    }
    return false;
}

/* Each request for a run counted up to 10,001 rows of its project under the log's lock, so a project with many runs slowed every tenant. */
static void the_room_for_a_run_is_one_row(void **state)
{
    static const struct cost_row room = {"run_room", &run_table, ONE, NULL};
    const struct fixture *fixture = *state;

    assert_string_equal(database_ask(fixture->database, "SELECT open_runs FROM project_runs WHERE project_id = " ONE), MANY);
    const char *plan = plan_of(fixture->database, &room);
    const char *node = strstr(plan, "\"Node Type\": \"Index Scan\"");
    if (node == NULL || strstr(plan, "\"Index Name\": \"project_runs_pkey\"") == NULL ||
        strstr(node + 2, "Node Type") != NULL) /* another one would read more than the row */
        fail_msg("%s", plan);
}

static void statements_scan_nothing_of_a_tenant(void **state)
{
    const struct fixture *fixture = *state;

    for (size_t i = 0; i < COUNT(cost_rows); i++) {
        const char *plan = plan_of(fixture->database, &cost_rows[i]);
        if (strstr(plan, "Node Type") == NULL || scans(plan, cost_rows[i].large)) fail_msg("%s: %s", cost_rows[i].name, plan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(statements_scan_nothing_of_a_tenant), TEST(the_room_for_a_run_is_one_row)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
