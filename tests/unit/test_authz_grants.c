/* The right to give and take roles: grants, and the access within a token's limits. */
#include "tests/unit/rights_fixture.h"

#include <stdio.h>

#include "authz/snapshot.h"

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
                                          .robot = id_of(row->grantee == 0 ? '-' : row->grantee),
                                          .role = row->role};
    struct resource resource = resource_of(row->kind, row->organisation, row->project, row->on);

    authz_grant_detail(&grantee, resource.detail);
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

/* The right to grant is never the right that is granted: who may give a role may not do what it permits, and who has it may not give it. */
static const struct apart_row {
    const char *name;
    char granter, holder;
    enum role role;
    enum action action; /* that the role permits */
    enum resource_kind kind;
    char project;
    const char *on;
} apart_rows[] = {
    {"reading, in a project", 'j', 'l', ROLE_CONSUMER, ACTION_BLOB_READ, RESOURCE_PROJECT, 'm', "acme/m"},
    {"reading, in an organisation", 'o', 'c', ROLE_CONSUMER, ACTION_MANIFEST_READ, RESOURCE_ORGANISATION, '-', "acme"},
    {"reading, by the registry's administrator", 'r', 'c', ROLE_CONSUMER, ACTION_TAG_LIST, RESOURCE_ORGANISATION, '-', "acme"},
    {"pushing", 'j', 'p', ROLE_PUBLISHER, ACTION_MANIFEST_PUSH, RESOURCE_PROJECT, 'm', "acme/m"},
    {"pushing, in a repository", 'j', '1', ROLE_PUBLISHER, ACTION_UPLOAD_BEGIN, RESOURCE_REPOSITORY, 'm', "acme/m/digits"},
    {"promoting", 'o', 't', ROLE_PROMOTER, ACTION_BLOB_MOUNT, RESOURCE_PROJECT, 'm', "acme/m"},
    {"reading the log", 'o', 'u', ROLE_AUDITOR, ACTION_AUDIT_READ, RESOURCE_PROJECT, 'm', "acme/m"},
    {"reading the log, by the registry's administrator", 'r', 'u', ROLE_AUDITOR, ACTION_AUDIT_EXPORT, RESOURCE_PROJECT, 'm',
     "acme/m"},
    {"training", 'j', 'p', ROLE_TRAINER, ACTION_RUN_REQUEST, RESOURCE_PROJECT, 'm', "acme/m"},
};

static void granting_is_apart_from_what_is_granted(void **state)
{
    const struct apart_row *row = *state;
    const struct principal granter = principal_of(row->granter), holder = principal_of(row->holder);
    const struct authz_binding grantee = {.kind = PRINCIPAL_ROBOT, .robot = id_of('z'), .role = row->role};
    const struct resource thing = resource_of(row->kind, 'A', row->project, row->on);
    struct resource scope = thing;

    authz_grant_detail(&grantee, scope.detail);
    assert_true(role_permits(row->role, row->action));
    assert_int_equal(authz_snapshot_authorize(snapshot, &granter, ACTION_BINDING_CREATE, &scope, NOW).verdict, AUTHZ_ALLOWED);
    assert_int_not_equal(authz_snapshot_authorize(snapshot, &granter, row->action, &thing, NOW).verdict, AUTHZ_ALLOWED);
    assert_int_not_equal(authz_snapshot_authorize(snapshot, &holder, ACTION_BINDING_CREATE, &scope, NOW).verdict, AUTHZ_ALLOWED);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(a_grant_without_its_detail_is_refused),
        cmocka_unit_test(who_may_give_may_take),
    };
    struct error err = {0};

    snapshot = build(&err);
    const int failed = RUN_TABLE(grant_rows, authorizes_grants) + RUN_TABLE(apart_rows, granting_is_apart_from_what_is_granted) +
                       cmocka_run_group_tests_name("others", others, NULL, NULL);
    authz_snapshot_free(snapshot);
    return failed;
}
