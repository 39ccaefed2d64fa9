/* Roles and scopes: what a snapshot allows. */
#include "tests/unit/rights_fixture.h"

#include <stdio.h>
#include <string.h>

#include "authz/snapshot.h"

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
    {"and no tiles of the whole log", 'u', ACTION_TILE_READ, RESOURCE_SYSTEM, '-', '-', "", AUTHZ_NOT_ALLOWED},
    {"a witness reads tiles", 'w', ACTION_TILE_READ, RESOURCE_SYSTEM, '-', '-', "", AUTHZ_ALLOWED},
    {"and checkpoints", 'w', ACTION_CHECKPOINT_READ, RESOURCE_SYSTEM, '-', '-', "", AUTHZ_ALLOWED},
    {"but no entries, which have names", 'w', ACTION_ENTRIES_READ, RESOURCE_SYSTEM, '-', '-', "", AUTHZ_NOT_ALLOWED},
    {"nor the log with its actors", 'w', ACTION_AUDIT_READ, RESOURCE_SYSTEM, '-', '-', "", AUTHZ_NOT_ALLOWED},
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
        /* A role that may grant can't access content, and a role with access to content may not grant. */
        const bool grants = role_permits(each, ACTION_BINDING_CREATE);
        assert_false(grants && (role_permits(each, ACTION_BLOB_READ) || role_permits(each, ACTION_UPLOAD_BEGIN)));
        for (enum role given_role = 0; given_role < ROLE_COUNT; given_role++)
            assert_true(grants || !role_may_grant(each, given_role));
        assert_false(role_may_grant(each, ROLE_BREAK_GLASS));
    }
    assert_false(role_find(bytes_of_text("owner"), &role));
    assert_false(role_find(bytes_of_text(""), &role));
}

/* No role has the right to the server's own work. */
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

/* Each binding inside the scope that has not ended comes once, whatever the size of a page. */
static void bindings_come_in_pages(void **state)
{
    const struct resource scopes[] = {{.kind = RESOURCE_SYSTEM},
                                      resource_of(RESOURCE_ORGANISATION, 'A', '-', "acme"),
                                      resource_of(RESOURCE_PROJECT, 'A', 'm', "acme/m"),
                                      resource_of(RESOURCE_PROJECT, 'A', '-', "acme/z")};
    const struct authz_binding *whole[BINDINGS_PER_PRINCIPAL_MAX], *page[3];
    size_t before = SIZE_MAX;

    (void)state;
    for (size_t i = 0; i < sizeof scopes / sizeof scopes[0]; i++) {
        struct uuid after = {{0}};
        const size_t count = authz_snapshot_page(snapshot, &scopes[i], &after, NOW, whole, BINDINGS_PER_PRINCIPAL_MAX);
        size_t seen = 0, got = 0;
        assert_true(count < before && (count > 0 || i == 3));
        before = count;
        while ((got = authz_snapshot_page(snapshot, &scopes[i], &after, NOW, page, 3)) > 0) {
            for (size_t k = 0; k < got; k++) assert_ptr_equal(page[k], whole[seen + k]);
            after = page[got - 1]->id;
            seen += got;
        }
        assert_int_equal(seen, count);
        for (size_t k = 0; k < count; k++) assert_true(whole[k]->expires_ms == 0 || whole[k]->expires_ms > NOW);
    }
    assert_int_equal(authz_snapshot_page(snapshot, &scopes[0], &scopes[0].organisation, NOW, page, 0), 0);
}

/* The bindings that are shown as those of a thing have the one that allows, and none that ended or is elsewhere. */
static void covering_bindings_have_the_one_that_allows(void **state)
{
    const struct authz_binding *found[BINDINGS_COVERING_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof authorize_rows / sizeof authorize_rows[0]; i++) {
        const struct authorize_row *row = &authorize_rows[i];
        const struct principal principal = principal_of(row->robot);
        const struct resource resource = resource_of(row->kind, row->organisation, row->project, row->on);
        const struct authz_answer answer = authz_snapshot_authorize(snapshot, &principal, row->action, &resource, NOW);
        const size_t count = authz_snapshot_covering(snapshot, &principal, &resource, NOW, found);
        bool has = uuid_is_nil(&answer.binding);
        for (size_t k = 0; k < count; k++) has = has || uuid_equal(&found[k]->id, &answer.binding);
        assert_true(has);
        if (row->verdict == AUTHZ_INVISIBLE && row->robot != 'u') assert_int_equal(count, 0);
    }
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(bindings_come_in_pages),
        cmocka_unit_test(covering_bindings_have_the_one_that_allows),
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
    const int failed = RUN_TABLE(authorize_rows, authorizes_actions) + RUN_TABLE(access_rows, live_access) +
                       cmocka_run_group_tests_name("others", others, NULL, NULL);
    authz_snapshot_free(snapshot);
    return failed;
}
