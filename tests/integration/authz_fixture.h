/*
 * tests/integration/authz_fixture.h -- two organisations and a project, for tests of the tables of rights.
 * For one source file of a program only: it defines what it declares.
 */
#pragma once

#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#include "authz/administrator.h"
#include "authz/binding.h"
#include "authz/robot.h"
#include "authz/trusted_issuer.h"
#include "tests/support/database.h"

#define ACME   "10000000-0000-4000-8000-000000000001"
#define BETA   "10000000-0000-4000-8000-000000000002"
#define MODELS "20000000-0000-4000-8000-000000000001"
#define JWKS                                                                                                      \
    "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"k\","                                                    \
    "\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\",\"y\":\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0\"}]}"

static const struct pg_table *const tables[] = {&robot_table,         &binding_table,        &administrator_table,
                                                &trusted_issuer_table, &authz_snapshot_table, NULL};

struct fixture {
    struct database *database;
    struct pg *pg;
};

static inline int set_up(void **state)
{
    static struct fixture fixture;
    struct error err = {0};

    fixture.database = database_new();
    database_execute(fixture.database,
                     "INSERT INTO region (region_id, region_tag, driver, location) VALUES"
                     " ('local/main', substring(sha256('local/main') FROM 1 FOR 16), 'memory', '-');"
                     "INSERT INTO organisation (organisation_id, name) VALUES ('" ACME "', 'acme'), ('" BETA "', 'beta');"
                     "INSERT INTO project (project_id, organisation_id, name, home_region)"
                     " VALUES ('" MODELS "', '" ACME "', 'models', 'local/main')");
    if (!pg_open(database_app(fixture.database), tables, &fixture.pg, &err).ok) fail_msg("%s", err.message);
    *state = &fixture;
    return 0;
}

static inline int tear_down(void **state)
{
    struct fixture *fixture = *state;

    pg_free(fixture->pg);
    database_free(fixture->database);
    return 0;
}

static inline struct uuid uuid_of(const char *text)
{
    struct uuid uuid = {{0}};

    assert_true(uuid_parse(bytes_of_text(text), &uuid));
    return uuid;
}

static inline struct resource resource_of(enum resource_kind kind, const char *name)
{
    struct resource resource = {.kind = kind};

    (void)snprintf(resource.name, sizeof resource.name, "%s", name);
    if (strncmp(name, "acme", 4) == 0) resource.organisation = uuid_of(ACME);
    if (strncmp(name, "beta", 4) == 0) resource.organisation = uuid_of(BETA);
    if (strncmp(name, "acme/models", 11) == 0) resource.project = uuid_of(MODELS);
    return resource;
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
