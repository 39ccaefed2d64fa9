/*
 * tests/unit/decide_fixture.h -- rights, names and policies of a small registry. For one source file of a program only: it
 * defines what it declares.
 */
#pragma once

#include "tests/support/policy.h"

#include <stdio.h>
#include <string.h>

#include "policy/decider/decider_priv.h"

#define NOW_MS         INT64_C(1795171186000)
#define NETWORKS       "[{\"cidr\":\"10.1.0.0/16\",\"facts\":{\"geo\":\"AE/DU\",\"assurance\":2,\"recipient\":\"same-controller\"}}]"
#define SHA_OF(letter) "sha256:" letter letter letter letter letter letter letter letter
#define DIGEST         SHA_OF("01234567")

static inline struct uuid id_of(char letter)
{
    return (struct uuid){{(uint8_t)letter, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
}

/* Robots: p publishes in both projects of acme, c may only pull from acme/models, z has no binding, o is acme's administrator. */
static inline struct authz_snapshot *make_rights(void)
{
    static const char names[] = "pczo";
    struct authz_robot robots[4] = {0};
    struct authz_binding bindings[] = {
        {.id = id_of('1'),
         .kind = PRINCIPAL_ROBOT,
         .robot = id_of('p'),
         .role = ROLE_PUBLISHER,
         .scope = RESOURCE_ORGANISATION,
         .organisation = id_of('A'),
         .granted_by = "system"},
        {.id = id_of('2'),
         .kind = PRINCIPAL_ROBOT,
         .robot = id_of('c'),
         .role = ROLE_CONSUMER,
         .scope = RESOURCE_PROJECT,
         .organisation = id_of('A'),
         .project = id_of('m'),
         .granted_by = "system"},
        {.id = id_of('3'),
         .kind = PRINCIPAL_ROBOT,
         .robot = id_of('o'),
         .role = ROLE_ORG_ADMIN,
         .scope = RESOURCE_ORGANISATION,
         .organisation = id_of('A'),
         .granted_by = "system"},
    };
    struct authz_snapshot *rights = NULL;
    struct error err = {0};

    for (size_t i = 0; i < COUNT(robots); i++) {
        robots[i].id = id_of(names[i]);
        robots[i].enabled = true;
        robots[i].expires_ms = NOW_MS + 1000;
        (void)snprintf(robots[i].name, sizeof robots[i].name, "robot$acme+%c", names[i]);
    }
    const struct authz_parts parts = {
        .robots = robots, .robot_count = COUNT(robots), .bindings = bindings, .binding_count = COUNT(bindings)};
    if (!authz_snapshot_build(&parts, &rights, &err).ok) fail_msg("%s", err.message);
    return rights;
}

static inline struct policy_set *make_set(void)
{
    OWNED_JSON networks = policy_json(NETWORKS);
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX), again = BUFFER(POLICY_SET_BYTES_MAX);
    const struct policy_default_options options = {.epoch = 5, .region = "local/main", .now_ms = NOW_MS - 1000};
    struct policy_set *set = NULL;
    struct error err = {0};

    assert_true(policy_default_set(&options, &payload, &err).ok);
    OWNED_JSON json = policy_json(buffer_text(&payload));
    const struct policy_set_parts parts = {.epoch = 5,
                                           .policies = json_object_get(json, "policies"),
                                           .regions = json_object_get(json, "regions"),
                                           .networks = networks};
    assert_true(policy_set_compose(&parts, &again, &err).ok);
    assert_true(policy_set_compile(buffer_bytes(&again), &set, &err).ok);
    buffer_done(&again);
    return set;
}

static inline struct floor_label *floor_of(const char *text)
{
    static struct floor_label floors[4];
    static size_t count;
    struct floor_label *floor = &floors[count++];
    bool is_stated = false;
    struct error err = {0};

    floor->json = policy_json(text);
    assert_true(label_read_floor(floor->json, &floor->label, &is_stated, &err).ok);
    return floor;
}

static struct tenant_organisation organisations[] = {{.name = "acme"}};
static struct tenant_project projects[] = {{.name = "acme/health", .home_region = "local/main"},
                                           {.name = "acme/lost", .home_region = "local/gone"},
                                           {.name = "acme/models", .home_region = "local/main"}};
static struct tenant_repository repositories[] = {{.name = "acme/models/top"}};
static struct snapshot snapshot = {.epoch = 42,
                                   .tenancy = {.organisation_count = 1,
                                               .project_count = 3,
                                               .repository_count = 1,
                                               .organisations = organisations,
                                               .projects = projects,
                                               .repositories = repositories}};

static inline void make_snapshot(void)
{
    organisations[0].id = id_of('A');
    for (size_t i = 0; i < COUNT(projects); i++) projects[i].organisation = id_of('A');
    projects[0].id = id_of('h');
    projects[1].id = id_of('l');
    projects[2].id = id_of('m');
    projects[0].floor = floor_of("{\"subjects\":[\"health\"]}");
    repositories[0].floor = floor_of("{\"class\":\"secret\"}");
    snapshot.authz = make_rights();
    snapshot.set = make_set();
}

struct decide_row {
    const char *name;
    char robot; /* '-': no credential; '?': an unknown one */
    enum action action;
    const char *resource, *detail, *client;
    enum verdict verdict;
    const char *denials; /* "RULE policy (missing); ..." in order */
};

static inline void fill(const struct decide_row *row, struct principal *principal, struct decision_request *request)
{
    *principal = (struct principal){.kind = row->robot == '-' ? PRINCIPAL_NONE : PRINCIPAL_ROBOT, .id = id_of(row->robot)};
    *request = (struct decision_request){.principal = principal, .pair_count = 1, .now_ms = NOW_MS};
    request->pairs[0].action = row->action;
    tenancy_resolve(&snapshot.tenancy, row->resource, &request->pairs[0].resource);
    (void)snprintf(request->pairs[0].resource.detail, RESOURCE_DETAIL_MAX, "%s", row->detail);
}

static inline void forget_snapshot(void)
{
    authz_snapshot_free(snapshot.authz);
    policy_set_free(snapshot.set);
    json_decref(projects[0].floor->json);
    json_decref(repositories[0].floor->json);
}
