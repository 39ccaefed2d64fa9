/*
 * tests/integration/authz_fixture.h -- two organisations and a project, for tests of the tables of rights.
 * For one source file of a program only: it defines what it declares.
 */
#pragma once

#include "authz/snapshot_load.h"
#include "tests/integration/database_fixture.h"

#include <stdio.h>
#include <string.h>

#include "audit/decision_make.h"
#include "audit/permit_priv.h"
#include "authz/administrator.h"
#include "authz/binding.h"
#include "authz/break_glass.h"
#include "authz/elevation.h"
#include "authz/group_login.h"
#include "authz/robot.h"
#include "authz/rows_priv.h"
#include "authz/scim_group.h"
#include "authz/snapshot.h"
#include "authz/trust_rule.h"
#include "authz/trusted_issuer.h"

#define ACME   "10000000-0000-4000-8000-000000000001"
#define BETA   "10000000-0000-4000-8000-000000000002"
#define MODELS "20000000-0000-4000-8000-000000000001"
#define JWKS                                                      \
    "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"k\"," \
    "\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\",\"y\":\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0\"}]}"

static const struct pg_table *const tables[] = {&robot_table,
                                                &robot_rotate_table,
                                                &rights_table,
                                                &binding_table,
                                                &administrator_table,
                                                &trusted_issuer_table,
                                                &authz_snapshot_table,
                                                &persons_places_table,
                                                &trust_rule_table,
                                                &group_login_table,
                                                &scim_load_table,
                                                &scim_user_table,
                                                &scim_change_table,
                                                &scim_group_table,
                                                &break_glass_table,
                                                &elevation_table,
                                                NULL};

static inline int set_up(void **state)
{
    return open_fixture(state,
                        "INSERT INTO region (region_id, region_tag, driver, location) VALUES"
                        " ('local/main', substring(sha256('local/main') FROM 1 FOR 16), 'memory', '-');"
                        "INSERT INTO organisation (organisation_id, name) VALUES ('" ACME "', 'acme'), ('" BETA "', 'beta');"
                        "INSERT INTO project (project_id, organisation_id, name, home_region)"
                        " VALUES ('" MODELS "', '" ACME "', 'models', 'local/main')",
                        tables);
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

/* A permit as the sequencer makes it of a decision that allows. The caller frees it with permit_free(). */
static inline struct permit *permit_of(enum action action, const struct resource *resource)
{
    struct decision_parts parts = {
        .verdict = VERDICT_ALLOW, .id = "sha256:0", .pair_count = 1, .pairs = {{.action = action, .resource = *resource}}};
    OWNED(decision) *decision = NULL;
    struct permit *permit = NULL;
    struct error err = {0};

    assert_true(decision_make(&parts, &decision, &err).ok);
    assert_true(permit_make(decision, &permit, &err).ok);
    return permit;
}

/* Runs a change as the sequencer does: in a transaction, with a permit, rolled back if it fails. */
static inline bool run(struct pg *pg, struct change *change, enum action action, const struct resource *resource,
                       struct error *err)
{
    OWNED(permit) *permit = permit_of(action, resource);

    assert_true(pg_begin(pg, err).ok);
    if (change->run(permit, change, pg, err).ok) {
        assert_true(pg_commit(pg, err).ok);
        return true;
    }
    pg_rollback(pg);
    return false;
}

static inline struct authz_snapshot *load(struct pg *pg)
{
    struct authz_snapshot *snapshot = NULL;
    struct error err = {0};

    if (!authz_snapshot_load(pg, NULL, &snapshot, &err).ok) fail_msg("%s", err.message);
    return snapshot;
}

static inline bool make_robot(struct pg *pg, const char *name, const char *organisation, struct robot_create *create,
                              struct error *err)
{
    const struct resource where =
        resource_of(organisation == NULL ? RESOURCE_SYSTEM : RESOURCE_ORGANISATION, organisation == NULL ? "" : organisation);

    assert_true(robot_create_init(create, name, organisation == NULL ? NULL : &where.organisation, 3600, err).ok);
    (void)snprintf(create->created_by, sizeof create->created_by, "system");
    return run(pg, &create->change, ACTION_ROBOT_CREATE, &where, err);
}

static inline bool bind(struct pg *pg, const struct uuid *robot, enum role role, struct resource *where, struct uuid *id_out,
                        struct error *err)
{
    struct authz_binding wanted = {.role = role};
    struct binding_create create;

    if (robot != NULL) {
        wanted.kind = PRINCIPAL_ROBOT;
        wanted.robot = *robot;
    } else {
        wanted.kind = PRINCIPAL_EXTERNAL;
        (void)snprintf(wanted.issuer, sizeof wanted.issuer, "https://i");
        (void)snprintf(wanted.subject, sizeof wanted.subject, "ci");
    }
    (void)snprintf(wanted.granted_by, sizeof wanted.granted_by, "system");
    authz_grant_detail(&wanted, where->detail);
    binding_create_init(&create, &wanted, 0);
    if (id_out != NULL) *id_out = create.binding.id;
    return run(pg, &create.change, ACTION_BINDING_CREATE, where, err);
}
