/* Roles, scopes and grants: what a snapshot allows. */
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#include "authz/snapshot.h"
#include "base/fault.h"
#include "crypto/digest.h"

#define NOW INT64_C(1800000000000)

/* Ids are one letter each, so that rows can name them. */
static struct uuid id_of(char letter)
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
    {0, ROLE_CONSUMER, RESOURCE_PROJECT, 'A', 'm', "", 'j', 0},
};
static const char robots[] = "roqjp12tcuselxdz"; /* z has no binding */

static struct authz_snapshot *snapshot;

static char *key_of(char robot, char key_out[PRINCIPAL_KEY_SIZE])
{
    const struct principal principal = {.kind = PRINCIPAL_ROBOT, .id = id_of(robot)};

    principal_key(&principal, key_out);
    return key_out;
}

static struct authz_binding binding_of(const struct given *row, size_t number)
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
    if (row->granter != 0) binding.giver = (struct person){{'e', 'x', 't', ':', row->granter}};
    if (row->granter != 0) (void)key_of(row->granter, binding.granted_by);
    else (void)snprintf(binding.granted_by, sizeof binding.granted_by, "system");
    return binding;
}

static struct authz_snapshot *build(struct error *err)
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
        rows[i] = (struct authz_robot){.id = id_of(robots[i]),
                                       .person = {{'e', 'x', 't', ':', robots[i]}},
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

static struct principal principal_of(char robot)
{
    struct principal principal = {.kind = robot == 0 ? PRINCIPAL_EXTERNAL : PRINCIPAL_ROBOT};

    if (robot != 0) principal.id = id_of(robot);
    else (void)snprintf(principal.issuer, sizeof principal.issuer, "https://i");
    if (robot == 0) (void)snprintf(principal.subject, sizeof principal.subject, "ci");
    return principal;
}

static struct resource resource_of(enum resource_kind kind, char organisation, char project, const char *name)
{
    struct resource resource = {.kind = kind, .organisation = id_of(organisation), .project = id_of(project)};

    (void)snprintf(resource.name, sizeof resource.name, "%s", name);
    return resource;
}

static const struct authorize_row {
    const char *name;
    char robot;
    enum action action;
    enum resource_kind kind;
    char organisation, project;
    const char *on;
    enum authz_verdict verdict;
} authorize_rows[] = {
    {"a publisher pushes", 'p', ACTION_UPLOAD_BEGIN, RESOURCE_REPOSITORY, 'A', 'm', "acme/m/new", AUTHZ_ALLOWED},
    {"a publisher pulls", 'p', ACTION_BLOB_READ, RESOURCE_REPOSITORY, 'A', 'm', "acme/m/digits", AUTHZ_ALLOWED},
    {"a publisher deletes", 'p', ACTION_TAG_DELETE, RESOURCE_REPOSITORY, 'A', 'm', "acme/m/digits", AUTHZ_ALLOWED},
    {"not in the project beside", 'p', ACTION_BLOB_READ, RESOURCE_REPOSITORY, 'A', 'n', "acme/n/digits", AUTHZ_INVISIBLE},
    {"not in another organisation", 'p', ACTION_BLOB_READ, RESOURCE_REPOSITORY, 'B', 'x', "beta/x/digits", AUTHZ_INVISIBLE},
    {"not in a project that does not exist", 'p', ACTION_BLOB_READ, RESOURCE_REPOSITORY, 'A', '-', "acme/z/d", AUTHZ_INVISIBLE},
    {"not in an organisation that does not exist", 'o', ACTION_PROJECT_CREATE, RESOURCE_PROJECT, '-', '-', "z/z",
     AUTHZ_INVISIBLE},
    {"a publisher grants nothing", 'p', ACTION_BINDING_READ, RESOURCE_PROJECT, 'A', 'm', "acme/m", AUTHZ_NOT_ALLOWED},
    {"a publisher of one repository", '1', ACTION_UPLOAD_BEGIN, RESOURCE_REPOSITORY, 'A', 'm', "acme/m/digits", AUTHZ_ALLOWED},
    {"and of no other", '1', ACTION_BLOB_READ, RESOURCE_REPOSITORY, 'A', 'm', "acme/m/digits2", AUTHZ_INVISIBLE},
    {"nor of one below", '1', ACTION_BLOB_READ, RESOURCE_REPOSITORY, 'A', 'm', "acme/m/digits/x", AUTHZ_INVISIBLE},
    {"a pattern holds what is below", '2', ACTION_BLOB_READ, RESOURCE_REPOSITORY, 'A', 'm', "acme/m/team/a/b", AUTHZ_ALLOWED},
    {"a pattern ends at a segment", '2', ACTION_BLOB_READ, RESOURCE_REPOSITORY, 'A', 'm', "acme/m/teams", AUTHZ_INVISIBLE},
    {"a pattern does not hold its root", '2', ACTION_BLOB_READ, RESOURCE_REPOSITORY, 'A', 'm', "acme/m/team", AUTHZ_INVISIBLE},
    {"the same name in another project", '1', ACTION_BLOB_READ, RESOURCE_REPOSITORY, 'A', 'n', "acme/m/digits", AUTHZ_INVISIBLE},
    {"a promoter pushes manifests", 't', ACTION_MANIFEST_PUSH, RESOURCE_REPOSITORY, 'A', 'm', "acme/m/d", AUTHZ_ALLOWED},
    {"but no bytes", 't', ACTION_UPLOAD_BEGIN, RESOURCE_REPOSITORY, 'A', 'm', "acme/m/d", AUTHZ_NOT_ALLOWED},
    {"a consumer pulls", 'c', ACTION_MANIFEST_READ, RESOURCE_REPOSITORY, 'A', 'n', "acme/n/d", AUTHZ_ALLOWED},
    {"a consumer does not push", 'c', ACTION_MANIFEST_PUSH, RESOURCE_REPOSITORY, 'A', 'n', "acme/n/d", AUTHZ_NOT_ALLOWED},
    {"an external consumer pulls", 0, ACTION_BLOB_READ, RESOURCE_REPOSITORY, 'A', 'm', "acme/m/d", AUTHZ_ALLOWED},
    {"an external consumer does not push", 0, ACTION_UPLOAD_BEGIN, RESOURCE_REPOSITORY, 'A', 'm', "acme/m/d", AUTHZ_NOT_ALLOWED},
    {"an auditor reads the log", 'u', ACTION_AUDIT_READ, RESOURCE_PROJECT, 'A', 'm', "acme/m", AUTHZ_ALLOWED},
    {"and sees no repository", 'u', ACTION_BLOB_READ, RESOURCE_REPOSITORY, 'A', 'm', "acme/m/d", AUTHZ_INVISIBLE},
    {"an org-admin has no content", 'o', ACTION_BLOB_READ, RESOURCE_REPOSITORY, 'A', 'm', "acme/m/d", AUTHZ_NOT_ALLOWED},
    {"an org-admin pushes nothing", 'o', ACTION_UPLOAD_BEGIN, RESOURCE_REPOSITORY, 'A', 'm', "acme/m/d", AUTHZ_NOT_ALLOWED},
    {"an org-admin makes projects", 'o', ACTION_PROJECT_CREATE, RESOURCE_PROJECT, 'A', '-', "acme/new", AUTHZ_ALLOWED},
    {"not in another organisation", 'o', ACTION_PROJECT_CREATE, RESOURCE_PROJECT, 'B', '-', "beta/new", AUTHZ_INVISIBLE},
    {"an org-admin makes no organisations", 'o', ACTION_ORGANISATION_CREATE, RESOURCE_ORGANISATION, '-', '-', "c",
     AUTHZ_INVISIBLE},
    {"the registry's administrator does", 'r', ACTION_ORGANISATION_CREATE, RESOURCE_ORGANISATION, '-', '-', "c", AUTHZ_ALLOWED},
    {"the registry's administrator has no content", 'r', ACTION_BLOB_READ, RESOURCE_REPOSITORY, 'A', 'm', "acme/m/d",
     AUTHZ_NOT_ALLOWED},
    {"nor the log", 'r', ACTION_AUDIT_READ, RESOURCE_SYSTEM, '-', '-', "", AUTHZ_NOT_ALLOWED},
    {"a project-admin can't set the floor label", 'j', ACTION_PROJECT_LABEL, RESOURCE_PROJECT, 'A', 'm', "acme/m",
     AUTHZ_NOT_ALLOWED},
    {"a security officer can", 's', ACTION_PROJECT_LABEL, RESOURCE_PROJECT, 'A', 'm', "acme/m", AUTHZ_ALLOWED},
    {"a project-admin reads no content", 'j', ACTION_BLOB_READ, RESOURCE_REPOSITORY, 'A', 'm', "acme/m/d", AUTHZ_NOT_ALLOWED},
    {"a binding that ended", 'e', ACTION_BLOB_READ, RESOURCE_REPOSITORY, 'A', 'm', "acme/m/d", AUTHZ_INVISIBLE},
    {"a binding that ends later", 'l', ACTION_BLOB_READ, RESOURCE_REPOSITORY, 'A', 'm', "acme/m/d", AUTHZ_ALLOWED},
    {"a robot that expired", 'x', ACTION_BLOB_READ, RESOURCE_REPOSITORY, 'A', 'm', "acme/m/d", AUTHZ_NOT_LIVE},
    {"a robot that is disabled", 'd', ACTION_BLOB_READ, RESOURCE_REPOSITORY, 'A', 'm', "acme/m/d", AUTHZ_NOT_LIVE},
    {"a robot that is gone", '!', ACTION_PING, RESOURCE_SYSTEM, '-', '-', "", AUTHZ_NOT_LIVE},
    {"a robot without bindings pings", 'z', ACTION_PING, RESOURCE_SYSTEM, '-', '-', "", AUTHZ_ALLOWED},
    {"and mints", 'z', ACTION_TOKEN_MINT, RESOURCE_SYSTEM, '-', '-', "", AUTHZ_ALLOWED},
    {"and sees nothing", 'z', ACTION_BLOB_READ, RESOURCE_REPOSITORY, 'A', 'm', "acme/m/d", AUTHZ_INVISIBLE},
    {"whoever has a role inside sees the project", '1', ACTION_PROJECT_LABEL, RESOURCE_PROJECT, 'A', 'm', "acme/m",
     AUTHZ_NOT_ALLOWED},
    {"and the organisation", '1', ACTION_ROBOT_CREATE, RESOURCE_ORGANISATION, 'A', '-', "acme", AUTHZ_NOT_ALLOWED},
    {"but not another", '1', ACTION_ROBOT_CREATE, RESOURCE_ORGANISATION, 'B', '-', "beta", AUTHZ_INVISIBLE},
};

static void authorizes_actions(void **state)
{
    const struct authorize_row *row = *state;
    const struct principal principal = principal_of(row->robot);
    const struct resource resource = resource_of(row->kind, row->organisation, row->project, row->on);

    const struct authz_answer found = authz_snapshot_authorize(snapshot, &principal, row->action, &resource, NOW);
    assert_int_equal(found.verdict, row->verdict);
    assert_int_equal(found.verdict == AUTHZ_ALLOWED, found.rule == NULL);
    assert_int_equal(found.verdict == AUTHZ_ALLOWED, found.message == NULL);
    assert_true(uuid_is_nil(&found.binding) || found.verdict == AUTHZ_ALLOWED);
}

static const struct grant_row {
    const char *name;
    char granter;
    enum role role;
    char grantee; /* 0: external */
    enum resource_kind kind;
    char organisation, project;
    const char *on, *rule; /* rule NULL: allowed; "" invisible */
} grant_rows[] = {
    {"a project-admin makes a publisher", 'j', ROLE_PUBLISHER, 'z', RESOURCE_PROJECT, 'A', 'm', "acme/m", NULL},
    {"on a repository", 'j', ROLE_CONSUMER, 'z', RESOURCE_REPOSITORY, 'A', 'm', "acme/m/d", NULL},
    {"on a pattern", 'j', ROLE_CONSUMER, 'z', RESOURCE_REPOSITORY, 'A', 'm', "acme/m/*", NULL},
    {"for an external subject", 'j', ROLE_CONSUMER, 0, RESOURCE_PROJECT, 'A', 'm', "acme/m", NULL},
    {"not to himself", 'j', ROLE_PUBLISHER, 'j', RESOURCE_PROJECT, 'A', 'm', "acme/m", "SYS-SELF-GRANT"},
    {"not in the project beside", 'j', ROLE_PUBLISHER, 'z', RESOURCE_PROJECT, 'A', 'n', "acme/n", ""},
    {"not on the organisation", 'j', ROLE_PUBLISHER, 'z', RESOURCE_ORGANISATION, 'A', '-', "acme", "SYS-NO-BINDING"},
    {"no project-admin", 'j', ROLE_PROJECT_ADMIN, 'z', RESOURCE_PROJECT, 'A', 'm', "acme/m", "SYS-GRANT"},
    {"no auditor", 'j', ROLE_AUDITOR, 'z', RESOURCE_PROJECT, 'A', 'm', "acme/m", "SYS-GRANT"},
    {"a publisher makes nobody", 'p', ROLE_CONSUMER, 'z', RESOURCE_PROJECT, 'A', 'm', "acme/m", "SYS-NO-BINDING"},
    {"an org-admin makes a project-admin", 'o', ROLE_PROJECT_ADMIN, 'z', RESOURCE_PROJECT, 'A', 'n', "acme/n", NULL},
    {"an org-admin makes no registry-admin", 'o', ROLE_REGISTRY_ADMIN, 'z', RESOURCE_SYSTEM, '-', '-', "", "SYS-NO-BINDING"},
    {"an org-admin is not a project's role", 'o', ROLE_ORG_ADMIN, 'z', RESOURCE_PROJECT, 'A', 'm', "acme/m", "SYS-GRANT"},
    {"nobody gives break-glass alone", 'r', ROLE_BREAK_GLASS, 'z', RESOURCE_PROJECT, 'A', 'm', "acme/m", "SYS-GRANT"},
    {"the first security officer was o's", 'o', ROLE_SECURITY_OFFICER, 'z', RESOURCE_ORGANISATION, 'A', '-', "acme",
     "SYS-BOTH-OFFICERS"},
    {"the second is another's", 'q', ROLE_SECURITY_OFFICER, 'z', RESOURCE_ORGANISATION, 'A', '-', "acme", NULL},
    {"or the registry's", 'r', ROLE_SECURITY_OFFICER, 'z', RESOURCE_SYSTEM, '-', '-', "", NULL},
    {"the registry's administrator makes a successor", 'r', ROLE_REGISTRY_ADMIN, 'z', RESOURCE_SYSTEM, '-', '-', "", NULL},
    {"and no other scope for him", 'r', ROLE_REGISTRY_ADMIN, 'z', RESOURCE_ORGANISATION, 'A', '-', "acme", "SYS-GRANT"},
    {"an officer makes nobody", 's', ROLE_CONSUMER, 'z', RESOURCE_ORGANISATION, 'A', '-', "acme", "SYS-NO-BINDING"},
};

static void authorizes_grants(void **state)
{
    const struct grant_row *row = *state;
    const struct principal principal = principal_of(row->granter);
    const struct authz_binding grantee = {.kind = row->grantee == 0 ? PRINCIPAL_EXTERNAL : PRINCIPAL_ROBOT,
                                          .robot = id_of(row->grantee == 0 ? '-' : row->grantee)};
    struct resource resource = resource_of(row->kind, row->organisation, row->project, row->on);

    authz_grant_detail(row->role, &grantee, resource.detail);
    const struct authz_answer found = authz_snapshot_authorize(snapshot, &principal, ACTION_BINDING_CREATE, &resource, NOW);
    if (row->rule == NULL) {
        assert_int_equal(found.verdict, AUTHZ_ALLOWED);
        return;
    }
    assert_int_equal(found.verdict, row->rule[0] == '\0' ? AUTHZ_INVISIBLE : AUTHZ_NOT_ALLOWED);
    assert_string_equal(found.rule, row->rule[0] == '\0' ? "SYS-NO-BINDING" : row->rule);
}

static void a_grant_without_its_detail_is_refused(void **state)
{
    static const char *const details[] = {"", "publisher", "publisher ", "owner robot:x", " robot:x"};
    const struct principal principal = principal_of('j');

    (void)state;
    for (size_t i = 0; i < COUNT(details); i++) {
        struct resource resource = resource_of(RESOURCE_PROJECT, 'A', 'm', "acme/m");
        (void)snprintf(resource.detail, sizeof resource.detail, "%s", details[i]);
        assert_int_equal(authz_snapshot_authorize(snapshot, &principal, ACTION_BINDING_CREATE, &resource, NOW).verdict,
                         AUTHZ_NOT_ALLOWED);
    }
}

static void who_may_give_may_take(void **state)
{
    static const struct {
        char robot;
        size_t binding; /* of `given` */
        bool allowed;
    } rows[] = {{'j', 4, true}, {'j', 3, false}, {'o', 3, true}, {'p', 4, false}, {'j', 99, false}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct principal principal = principal_of(rows[i].robot);
        struct resource resource = resource_of(RESOURCE_PROJECT, 'A', 'm', "acme/m");
        struct uuid id = id_of((char)(rows[i].binding + 1));
        id.bytes[1] = 'b';
        uuid_format(&id, resource.detail);
        assert_int_equal(authz_snapshot_authorize(snapshot, &principal, ACTION_BINDING_REVOKE, &resource, NOW).verdict ==
                             AUTHZ_ALLOWED,
                         rows[i].allowed);
    }
}

static void a_token_bounds_what_bindings_allow(void **state)
{
    struct principal principal = principal_of('p');
    struct resource resource = resource_of(RESOURCE_REPOSITORY, 'A', 'm', "acme/m/d");

    (void)state;
    principal.is_limited = true;
    assert_int_equal(authz_snapshot_authorize(snapshot, &principal, ACTION_BLOB_READ, &resource, NOW).verdict,
                     AUTHZ_OUT_OF_SCOPE);
    assert_int_equal(authz_snapshot_authorize(snapshot, &principal, ACTION_PING, &resource, NOW).verdict, AUTHZ_ALLOWED);
    assert_int_equal(authz_snapshot_authorize(snapshot, &principal, ACTION_CATALOG_LIST, &resource, NOW).verdict,
                     AUTHZ_OUT_OF_SCOPE);
    principal.access_count = 1;
    principal.access[0] = (struct principal_access){.name = "acme/m/d", .pull = true};
    assert_int_equal(authz_snapshot_authorize(snapshot, &principal, ACTION_BLOB_READ, &resource, NOW).verdict, AUTHZ_ALLOWED);
    assert_int_equal(authz_snapshot_authorize(snapshot, &principal, ACTION_UPLOAD_BEGIN, &resource, NOW).verdict,
                     AUTHZ_OUT_OF_SCOPE);
    assert_int_equal(authz_snapshot_authorize(snapshot, &principal, ACTION_TAG_DELETE, &resource, NOW).verdict,
                     AUTHZ_OUT_OF_SCOPE);
    principal.access[0].repository = id_of('1');
    assert_int_equal(authz_snapshot_authorize(snapshot, &principal, ACTION_BLOB_READ, &resource, NOW).verdict, AUTHZ_ALLOWED);
    resource.repository = id_of('2'); /* made again since: another repository */
    assert_int_equal(authz_snapshot_authorize(snapshot, &principal, ACTION_BLOB_READ, &resource, NOW).verdict,
                     AUTHZ_OUT_OF_SCOPE);
    principal = principal_of('j');
    principal.is_limited = true;
    resource = resource_of(RESOURCE_PROJECT, 'A', 'm', "acme/m");
    assert_int_equal(authz_snapshot_authorize(snapshot, &principal, ACTION_BINDING_READ, &resource, NOW).verdict,
                     AUTHZ_OUT_OF_SCOPE);
    principal.administration = true;
    assert_int_equal(authz_snapshot_authorize(snapshot, &principal, ACTION_BINDING_READ, &resource, NOW).verdict, AUTHZ_ALLOWED);
}

static const struct access_row {
    const char *name;
    char robot;
    const char *on;
    bool pull, push, remove;
    size_t pulling; /* bindings */
} access_rows[] = {
    {"a publisher", 'p', "acme/m/d", true, true, true, 1},         {"a promoter", 't', "acme/m/d", true, true, false, 1},
    {"a consumer", 'c', "acme/m/d", true, false, false, 1},        {"a project-admin", 'j', "acme/m/d", false, false, true, 0},
    {"an auditor", 'u', "acme/m/d", false, false, false, 0},       {"nobody", 'z', "acme/m/d", false, false, false, 0},
    {"an expired robot", 'x', "acme/m/d", false, false, false, 0},
};

static void live_access(void **state)
{
    const struct access_row *row = *state;
    const struct principal principal = principal_of(row->robot);
    struct resource resource = resource_of(RESOURCE_REPOSITORY, 'A', 'm', row->on);
    const struct authz_binding *pulling[BINDINGS_PER_PRINCIPAL_MAX];
    struct principal_access access;

    resource.repository = id_of('7');
    authz_snapshot_access(snapshot, &principal, &resource, NOW, &access);
    assert_string_equal(access.name, row->on);
    assert_true(uuid_equal(&access.repository, &resource.repository));
    assert_int_equal(access.pull, row->pull);
    assert_int_equal(access.push, row->push);
    assert_int_equal(access.remove, row->remove);
    assert_int_equal(authz_snapshot_permitting(snapshot, &resource.organisation, &principal, ACTION_BLOB_READ, NOW, pulling),
                     row->pulling);
    for (size_t i = 0; i < row->pulling; i++) assert_true(role_permits(pulling[i]->role, ACTION_BLOB_READ));
}

static void robots_log_in(void **state)
{
    const struct bytes name = bytes_of_text("robot$acme+p"); /* is its own secret here */

    (void)state;
    assert_non_null(authz_snapshot_login(snapshot, name, name, NOW));
    assert_null(authz_snapshot_login(snapshot, name, bytes_of_text("robot$acme+q"), NOW));
    assert_null(authz_snapshot_login(snapshot, name, bytes_of_text(""), NOW));
    assert_null(authz_snapshot_login(snapshot, name, name, NOW + 1000));
    assert_null(authz_snapshot_login(snapshot, bytes_of_text("robot$acme+d"), bytes_of_text("robot$acme+d"), NOW));
    assert_null(authz_snapshot_login(snapshot, bytes_of_text("robot$acme+!"), bytes_of_text("robot$acme+!"), NOW));
}

static void one_name_is_one_robot(void **state)
{
    struct authz_robot twice[2] = {{.id = id_of('a'), .name = "robot$a"}, {.id = id_of('b'), .name = "robot$a"}};
    const struct authz_parts parts = {.robots = twice, .robot_count = 2};
    struct authz_snapshot *made = NULL;
    struct error err = {0};

    (void)state;
    assert_false(authz_snapshot_build(&parts, &made, &err).ok);
    assert_int_equal(err.kind, ERROR_CORRUPT);
    twice[1] = twice[0];
    twice[1].name[6] = 'b';
    assert_false(authz_snapshot_build(&parts, &made, &err).ok);
    assert_null(made);
}

static void roles_are_a_table(void **state)
{
    enum role role = ROLE_COUNT;

    (void)state;
    for (enum role each = 0; each < ROLE_COUNT; each++) {
        assert_true(strlen(role_name(each)) < ROLE_NAME_SIZE && role_meaning(each)[0] != '\0');
        assert_true(role_find(bytes_of_text(role_name(each)), &role) && role == each);
        /* Who may grant can't touch content, and who can touch content may not grant. */
        const bool grants = role_permits(each, ACTION_BINDING_CREATE);
        assert_false(grants && (role_permits(each, ACTION_BLOB_READ) || role_permits(each, ACTION_UPLOAD_BEGIN)));
        for (enum role given_role = 0; given_role < ROLE_COUNT; given_role++)
            assert_true(grants || !role_may_grant(each, given_role));
        assert_false(role_may_grant(each, ROLE_BREAK_GLASS));
    }
    assert_false(role_find(bytes_of_text("owner"), &role));
    assert_false(role_find(bytes_of_text(""), &role));
}

/* What the server does by itself is nobody's right. */
static void no_role_does_the_servers_work(void **state)
{
    static const enum action own[] = {ACTION_SERVER_START, ACTION_UPLOAD_REAP, ACTION_BLOB_DAMAGED, ACTION_KEYD_UNWRAPS,
                                      ACTION_DENIED_BURST, ACTION_REFUSED,     ACTION_UNRECORDED};

    (void)state;
    for (size_t i = 0; i < COUNT(own); i++) {
        assert_false(action_needs_no_role(own[i]));
        for (enum role role = 0; role < ROLE_COUNT; role++) assert_false(role_permits(role, own[i]));
    }
}

static void a_principals_key_names_no_person(void **state)
{
    struct principal principal = principal_of(0);
    char key[PRINCIPAL_KEY_SIZE], other[PRINCIPAL_KEY_SIZE];

    (void)state;
    principal_key(&principal, key);
    assert_int_equal(strlen(key), 68);
    assert_null(strstr(key, "ci"));
    (void)snprintf(principal.subject, sizeof principal.subject, "cj");
    principal_key(&principal, other);
    assert_string_not_equal(key, other);
    memset(principal.issuer, 'i', sizeof principal.issuer - 1);
    memset(principal.subject, 's', sizeof principal.subject - 1);
    principal_key(&principal, key); /* the longest of both fits */
    assert_int_equal(strlen(key), 68);
}

static struct result build_once(void *context, struct error *err)
{
    (void)context;
    OWNED(authz_snapshot) *made = build(err);
    return (struct result){.ok = made != NULL};
}

static void building_survives_lack_of_memory(void **state)
{
    (void)state;
    fail_each(build_once, NULL, ERROR_NO_MEMORY, 3);
}

static void a_snapshot_lives_as_long_as_one_keeps_it(void **state)
{
    OWNED(authz_directory) *directory = NULL;
    struct error err = {0};

    (void)state;
    assert_true(authz_directory_new(&directory, &err).ok);
    assert_null(authz_directory_take(directory));
    struct authz_snapshot *first = build(&err), *second = build(&err);
    authz_directory_publish(directory, first);
    struct authz_snapshot *taken = authz_directory_take(directory);
    assert_ptr_equal(taken, first);
    authz_snapshot_free(first);
    authz_directory_publish(directory, second);
    authz_snapshot_free(second);
    const struct principal principal = principal_of('p');
    assert_true(authz_snapshot_is_live(taken, &principal, NOW));
    authz_snapshot_free(taken);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(a_grant_without_its_detail_is_refused),
        cmocka_unit_test(who_may_give_may_take),
        cmocka_unit_test(a_token_bounds_what_bindings_allow),
        cmocka_unit_test(robots_log_in),
        cmocka_unit_test(one_name_is_one_robot),
        cmocka_unit_test(roles_are_a_table),
        cmocka_unit_test(no_role_does_the_servers_work),
        cmocka_unit_test(a_principals_key_names_no_person),
        cmocka_unit_test(building_survives_lack_of_memory),
        cmocka_unit_test(a_snapshot_lives_as_long_as_one_keeps_it),
    };
    struct error err = {0};

    snapshot = build(&err);
    const int failed = RUN_TABLE(authorize_rows, authorizes_actions) + RUN_TABLE(grant_rows, authorizes_grants) +
                       RUN_TABLE(access_rows, live_access) + cmocka_run_group_tests_name("others", others, NULL, NULL);
    authz_snapshot_free(snapshot);
    return failed;
}
