/*
 * tests/unit/rights_fixture.h -- a snapshot of the rights in two organisations.
 * For one source file of a program only: it defines what it declares.
 */
#pragma once

#include "tests/support/unit.h"

#include <stdio.h>

#include "authz/snapshot.h"
#include "crypto/digest.h"

#define NOW INT64_C(1800000000000)

/* Ids are one letter each, so that rows can name them. */
static inline struct uuid id_of(char letter)
{
    struct uuid id = {{0}};

    if (letter != '-') {
        id.bytes[0] = (uint8_t)letter;
        id.bytes[15] = 1;
    }
    return id;
}

/* Organisations A (projects m, n) and B (project x). Robots: one letter. */
static const struct given {
    char robot; /* or 0: the external subject "ci" of https://i */
    enum role role;
    enum resource_kind scope;
    char organisation, project;
    const char *pattern;
    char granter; /* a robot, or 0 for "system" */
    int64_t expires_ms;
} given[] = {
    {'r', ROLE_REGISTRY_ADMIN, RESOURCE_SYSTEM, '-', '-', "", 0, 0},
    {'o', ROLE_ORG_ADMIN, RESOURCE_ORGANISATION, 'A', '-', "", 'r', 0},
    {'q', ROLE_ORG_ADMIN, RESOURCE_ORGANISATION, 'A', '-', "", 'r', 0},
    {'j', ROLE_PROJECT_ADMIN, RESOURCE_PROJECT, 'A', 'm', "", 'o', 0},
    {'p', ROLE_PUBLISHER, RESOURCE_PROJECT, 'A', 'm', "", 'j', 0},
    {'1', ROLE_PUBLISHER, RESOURCE_REPOSITORY, 'A', 'm', "acme/m/digits", 'j', 0},
    {'2', ROLE_PUBLISHER, RESOURCE_REPOSITORY, 'A', 'm', "acme/m/team/*", 'j', 0},
    {'t', ROLE_PROMOTER, RESOURCE_PROJECT, 'A', 'm', "", 'j', 0},
    {'c', ROLE_CONSUMER, RESOURCE_ORGANISATION, 'A', '-', "", 'o', 0},
    {'c', ROLE_AUDITOR, RESOURCE_PROJECT, 'A', 'm', "", 'o', 0},
    {'u', ROLE_AUDITOR, RESOURCE_PROJECT, 'A', 'm', "", 'o', 0},
    {'s', ROLE_SECURITY_OFFICER, RESOURCE_ORGANISATION, 'A', '-', "", 'o', 0},
    {'e', ROLE_CONSUMER, RESOURCE_PROJECT, 'A', 'm', "", 'j', NOW - 1},
    {'l', ROLE_CONSUMER, RESOURCE_PROJECT, 'A', 'm', "", 'j', NOW + 1},
    {'x', ROLE_PUBLISHER, RESOURCE_PROJECT, 'A', 'm', "", 'j', 0}, /* this robot has expired */
    {'d', ROLE_PUBLISHER, RESOURCE_PROJECT, 'A', 'm', "", 'j', 0}, /* and this one is disabled */
    {'w', ROLE_WITNESS, RESOURCE_SYSTEM, '-', '-', "", 'r', 0},
    {0, ROLE_CONSUMER, RESOURCE_PROJECT, 'A', 'm', "", 'j', 0},
};
static const char robots[] = "roqjp12tcuselxdwz"; /* z has no binding */

static struct authz_snapshot *snapshot;

static inline char *key_of(char robot, char key_out[PRINCIPAL_KEY_SIZE])
{
    const struct principal principal = {.kind = PRINCIPAL_ROBOT, .id = id_of(robot)};

    principal_key(&principal, key_out);
    return key_out;
}

static inline struct authz_binding binding_of(const struct given *row, size_t number)
{
    struct authz_binding binding = {.kind = row->robot == 0 ? PRINCIPAL_EXTERNAL : PRINCIPAL_ROBOT,
                                    .role = row->role,
                                    .scope = row->scope,
                                    .organisation = id_of(row->organisation),
                                    .project = id_of(row->project),
                                    .expires_ms = row->expires_ms};

    binding.id = id_of((char)(number + 1));
    binding.id.bytes[1] = 'b';
    if (row->robot != 0) binding.robot = id_of(row->robot);
    else (void)snprintf(binding.issuer, sizeof binding.issuer, "https://i");
    if (row->robot == 0) (void)snprintf(binding.subject, sizeof binding.subject, "ci");
    (void)snprintf(binding.pattern, sizeof binding.pattern, "%s", row->pattern);
    if (row->granter != 0) binding.granting_person = person_new((char[]){'e', 'x', 't', ':', row->granter, '\0'}, "https://i");
    if (row->granter != 0) (void)key_of(row->granter, binding.granted_by);
    else (void)snprintf(binding.granted_by, sizeof binding.granted_by, "system");
    return binding;
}

static inline struct authz_snapshot *build(struct error *err)
{
    static const char jwks[] = "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"k\",\"alg\":\"ES256\","
                               "\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\","
                               "\"y\":\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0\"}]}";
    const struct issuer_record issuer = {
        .url = "https://i", .audience = "us", .algorithms = 1U << JOSE_ES256, .types = 1, .lifetime_max_s = 60, .jwks = jwks};
    struct authz_robot rows[sizeof robots - 1];
    struct authz_binding bindings[COUNT(given)];
    struct authz_snapshot *made = NULL;

    for (size_t i = 0; i < COUNT(rows); i++) {
        rows[i] = (struct authz_robot){
            .id = id_of(robots[i]),
            .persons = {1, false, false, {person_new((char[]){'e', 'x', 't', ':', robots[i], '\0'}, "https://i")}},
            .enabled = robots[i] != 'd',
            .expires_ms = robots[i] == 'x' ? NOW - 1 : NOW + 1000};
        (void)snprintf(rows[i].name, sizeof rows[i].name, "robot$acme+%c", robots[i]);
        sha256_of(bytes_of_text(rows[i].name), rows[i].secret_hash);
    }
    for (size_t i = 0; i < COUNT(given); i++) bindings[i] = binding_of(&given[i], i);
    const struct authz_parts parts = {.robots = rows,
                                      .robot_count = COUNT(rows),
                                      .bindings = bindings,
                                      .binding_count = COUNT(bindings),
                                      .issuers = &issuer,
                                      .issuer_count = 1};
    return authz_snapshot_build(&parts, &made, err).ok ? made : NULL;
}

static inline struct principal principal_of(char robot)
{
    struct principal principal = {.kind = robot == 0 ? PRINCIPAL_EXTERNAL : PRINCIPAL_ROBOT};

    if (robot != 0) principal.id = id_of(robot);
    else (void)snprintf(principal.issuer, sizeof principal.issuer, "https://i");
    if (robot == 0) (void)snprintf(principal.subject, sizeof principal.subject, "ci");
    return principal;
}

static inline struct resource resource_of(enum resource_kind kind, char organisation, char project, const char *name)
{
    struct resource resource = {.kind = kind, .organisation = id_of(organisation), .project = id_of(project)};

    (void)snprintf(resource.name, sizeof resource.name, "%s", name);
    return resource;
}
