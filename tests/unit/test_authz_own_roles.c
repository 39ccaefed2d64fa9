/* Roles of signed documents: which actions they may have, when and where they count, and who may grant them. */
#include "tests/unit/rights_fixture.h"

#include <string.h>

#include "base/clock.h"
#include "base/json.h"

#define DAY_MS INT64_C(86400000)

static const char *const own_actions[] = {
#define OWN(action) action,
#include "documents/format/own_actions.def"
#undef OWN
};

static enum action action_of(const char *name)
{
    for (enum action action = 0; action < ACTION_COUNT; action++)
        if (strcmp(action_name(action), name) == 0) return action;
    fail_msg("there is no action %s", name);
    return ACTION_COUNT;
}

/* What officers, approvers and administrators do is in no role of its own, nor is the right to grant, nor what everybody may do anyway. */
static void the_list_of_actions_is_closed(void **state)
{
    static const enum role ordinary[] = {ROLE_PUBLISHER, ROLE_PROMOTER,      ROLE_CONSUMER,
                                         ROLE_TRAINER,   ROLE_PROJECT_ADMIN, ROLE_AUDITOR};

    (void)state;
    for (size_t i = 0; i < COUNT(own_actions); i++) {
        const enum action action = action_of(own_actions[i]);
        bool is_ordinary = false;
        for (size_t k = 0; k < COUNT(ordinary); k++) is_ordinary = is_ordinary || role_permits(ordinary[k], action);
        if (!is_ordinary) fail_msg("%s is of none of the ordinary roles", own_actions[i]);
        assert_false(action_needs_no_role(action) || action_is_for_runners(action) || action_is_for_provisioners(action));
        assert_true(action != ACTION_BINDING_CREATE && action != ACTION_BINDING_REVOKE && action != ACTION_ROBOT_ROTATE);
    }
    assert_true(COUNT(own_actions) <= OWN_ROLE_ACTIONS_MAX);
}

/* ---- documents ---- */

struct paper {
    const char *actions, *organisation; /* actions NULL: there is no document */
    uint64_t version;
    int64_t begins_ms, days;
    bool is_withdrawn, is_unplaced;
};

static struct document *document_of(const struct paper *paper, const char *name)
{
    struct buffer OWNED_BUFFER payload = BUFFER(OWN_ROLE_BYTES_MAX);
    OWNED_JSON body = json_object();
    const struct document_parts parts = {.kind = DOCUMENT_OWN_ROLE,
                                         .scope = "",
                                         .name = name,
                                         .version = paper->version,
                                         .withdrawn = paper->is_withdrawn ? "no longer used" : NULL,
                                         .effective_ms = NOW + paper->begins_ms,
                                         .expires_ms = NOW + paper->begins_ms + paper->days * DAY_MS,
                                         .body = body};
    struct document *document = NULL;
    struct error err = {0};

    if (!paper->is_withdrawn) {
        OWNED_JSON actions = json_loads(paper->actions, 0, NULL);
        assert_non_null(actions);
        assert_int_equal(json_object_set(body, "actions", actions) + json_object_set_new(body, "meaning", json_string("tested")),
                         0);
        if (paper->organisation != NULL)
            assert_int_equal(json_object_set_new(body, "organisation", json_string(paper->organisation)), 0);
    }
    must(document_compose(&parts, &payload, &err), &err);
    must(document_read_payload(DOCUMENT_OWN_ROLE, buffer_bytes(&payload), &document, &err), &err);
    return document;
}

/* z has the role on A/m; the administrators r, o and j of the fixture are there, too. */
static struct authz_snapshot *snapshot_with(const struct paper *paper)
{
    OWNED(trust_rules) *rules = NULL;
    OWNED(document) *document = paper->actions == NULL && !paper->is_withdrawn ? NULL : document_of(paper, "a.own");
    const struct pinned_document pinned = {document, 7};
    struct authz_robot rows[sizeof robots - 1];
    struct authz_binding bindings[5];
    struct authz_snapshot *made = NULL;
    struct error err = {0};

    must(trust_rules_of(&pinned, document == NULL ? 0 : 1, &rules, &err), &err);
    const struct uuid organisation = id_of('A');
    for (size_t i = 0; i < own_role_entries_count(rules) && !paper->is_unplaced; i++)
        entry_place_note(&own_role_entries_at(rules, i)->place, &organisation);
    for (size_t i = 0; i < COUNT(rows); i++) {
        rows[i] = (struct authz_robot){.id = id_of(robots[i]), .enabled = true, .expires_ms = NOW + 2 * DAY_MS};
        (void)snprintf(rows[i].name, sizeof rows[i].name, "robot$acme+%c", robots[i]);
    }
    for (size_t i = 0; i < 4; i++) bindings[i] = binding_of(&given[i], i);
    const struct given own = {'z', ROLE_OWN, RESOURCE_PROJECT, 'A', 'm', "", 'o', 0};
    bindings[4] = binding_of(&own, 4);
    assert_true(binding_read_role(&bindings[4], "a.own"));
    const struct authz_parts parts = {
        .robots = rows, .robot_count = COUNT(rows), .bindings = bindings, .binding_count = COUNT(bindings), .rules = rules};
    must(authz_snapshot_build(&parts, &made, &err), &err);
    return made;
}

#define READS "[\"manifest.read\",\"blob.read\",\"tag.list\"]"

static const struct force_row {
    const char *name;
    struct paper paper;
    enum action action;
    int64_t later_ms;
    enum authz_verdict verdict;
    uint64_t version; /* of the role that is shown; 0: none is */
} force_rows[] = {
    {"what it permits", {READS, "acme", 3, -1000, 30, false, false}, ACTION_MANIFEST_READ, 0, AUTHZ_ALLOWED, 3},
    {"in all organisations", {READS, NULL, 1, -1000, 30, false, true}, ACTION_BLOB_READ, 0, AUTHZ_ALLOWED, 1},
    {"what it does not permit", {READS, "acme", 3, -1000, 30, false, false}, ACTION_MANIFEST_PUSH, 0, AUTHZ_NOT_ALLOWED, 3},
    {"an action that shows nothing",
     {"[\"audit.read\"]", "acme", 1, -1000, 30, false, false},
     ACTION_BLOB_READ,
     0,
     AUTHZ_INVISIBLE,
     1},
    {"an organisation that is not there, or was made later",
     {READS, "acme", 1, -1000, 30, false, true},
     ACTION_BLOB_READ,
     0,
     AUTHZ_INVISIBLE,
     0},
    {"no document", {NULL, NULL, 0, 0, 0, false, false}, ACTION_BLOB_READ, 0, AUTHZ_INVISIBLE, 0},
    {"a withdrawn one", {NULL, NULL, 2, -1000, 30, true, false}, ACTION_BLOB_READ, 0, AUTHZ_INVISIBLE, 0},
    {"the last moment", {READS, "acme", 1, 0, 1, false, false}, ACTION_BLOB_READ, DAY_MS - 1, AUTHZ_ALLOWED, 1},
    {"the end", {READS, "acme", 1, 0, 1, false, false}, ACTION_BLOB_READ, DAY_MS, AUTHZ_INVISIBLE, 0},
    {"before it begins", {READS, "acme", 1, 1000, 30, false, false}, ACTION_BLOB_READ, 999, AUTHZ_INVISIBLE, 0},
    {"when it begins", {READS, "acme", 1, 1000, 30, false, false}, ACTION_BLOB_READ, 1000, AUTHZ_ALLOWED, 1},
};

static void it_counts_while_its_document_does(void **state)
{
    const struct force_row *row = *state;
    OWNED(authz_snapshot) *made = snapshot_with(&row->paper);
    const struct principal principal = principal_of('z');
    const struct resource repository = resource_of(RESOURCE_REPOSITORY, 'A', 'm', "acme/m/d");
    const struct authz_binding *held[BINDINGS_PER_PRINCIPAL_MAX];
    const struct uuid organisation = id_of('A');
    struct principal_access access;

    const struct authz_answer found = authz_snapshot_authorize(made, &principal, row->action, &repository, NOW + row->later_ms);
    assert_int_equal(found.verdict, row->verdict);
    const size_t count = authz_snapshot_held(made, &organisation, &principal, NOW + row->later_ms, held);
    assert_int_equal(count, row->version == 0 ? 0 : 1);
    if (count == 1) assert_int_equal(held[0]->own.version, row->version);
    if (count == 1) assert_string_equal(binding_role_name(held[0]), "a.own");
    authz_snapshot_access(made, &principal, &repository, NOW + row->later_ms, &access);
    assert_int_equal(access.pull, row->version != 0 && strcmp(row->paper.actions, READS) == 0);
    assert_false(access.push || access.remove);
}

/* ---- the right to grant it ---- */

#define CONTENT "[\"manifest.read\",\"manifest.push\",\"run.request\"]"
#define LOG     "[\"manifest.read\",\"audit.read\"]"
#define ADMIN   "[\"repository.delete\"]"

static const struct grant_row {
    const char *name, *actions; /* NULL: there is no document */
    char granter;
    enum resource_kind kind;
    char project;
    const char *on, *rule; /* NULL: allowed */
    bool takes;            /* may revoke z's */
} grant_rows[] = {
    {"a project-admin gives content", CONTENT, 'j', RESOURCE_PROJECT, 'm', "acme/m", NULL, true},
    {"on a path", CONTENT, 'j', RESOURCE_REPOSITORY, 'm', "acme/m/x/*", NULL, true},
    {"but not the log", LOG, 'j', RESOURCE_PROJECT, 'm', "acme/m", "SYS-GRANT", false},
    {"nor what it does itself", ADMIN, 'j', RESOURCE_PROJECT, 'm', "acme/m", "SYS-GRANT", false},
    {"an org-admin gives the log", LOG, 'o', RESOURCE_PROJECT, 'm', "acme/m", NULL, true},
    {"and what project-admins do", ADMIN, 'o', RESOURCE_ORGANISATION, '-', "acme", NULL, true},
    {"a registry-admin does, too", LOG, 'r', RESOURCE_ORGANISATION, '-', "acme", NULL, true},
    {"nobody gives it on the registry", CONTENT, 'r', RESOURCE_SYSTEM, '-', "", "SYS-GRANT", true},
    {"its holder gives it to nobody", CONTENT, 'z', RESOURCE_PROJECT, 'm', "acme/m", "SYS-NO-BINDING", false},
    {"nobody gives it without a document", NULL, 'o', RESOURCE_PROJECT, 'm', "acme/m", "SYS-GRANT", true},
    {"which a project-admin may take, because it is nothing", NULL, 'j', RESOURCE_PROJECT, 'm', "acme/m", "SYS-GRANT", true},
};

static void who_may_grant_its_actions_may_grant_it(void **state)
{
    const struct grant_row *row = *state;
    const struct paper paper = {row->actions, "acme", 1, -1000, 30, false, false};
    OWNED(authz_snapshot) *made = snapshot_with(&paper);
    const struct principal principal = principal_of(row->granter);
    struct authz_binding wanted = {.kind = PRINCIPAL_ROBOT, .robot = id_of('c')};
    struct resource scope = resource_of(row->kind, row->kind == RESOURCE_SYSTEM ? '-' : 'A', row->project, row->on);
    struct resource place = resource_of(RESOURCE_PROJECT, 'A', 'm', "acme/m");

    assert_true(binding_read_role(&wanted, "a.own"));
    authz_grant_detail(&wanted, scope.detail);
    const struct authz_answer found = authz_snapshot_authorize(made, &principal, ACTION_BINDING_CREATE, &scope, NOW);
    assert_int_equal(found.verdict == AUTHZ_ALLOWED, row->rule == NULL);
    if (row->rule != NULL) assert_string_equal(found.rule, row->rule);
    struct uuid id = id_of(5); /* the fifth binding */
    id.bytes[1] = 'b';
    uuid_format(&id, place.detail);
    assert_int_equal(authz_snapshot_authorize(made, &principal, ACTION_BINDING_REVOKE, &place, NOW).verdict == AUTHZ_ALLOWED,
                     row->takes);
}

static void content_alone_is_told(void **state)
{
    static const struct {
        const char *actions;
        bool is_content;
    } rows[] = {{READS, true}, {CONTENT, true}, {LOG, false}, {ADMIN, false}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct paper paper = {rows[i].actions, "acme", 1, -1000, 30, false, false};
        OWNED(authz_snapshot) *made = snapshot_with(&paper);
        const struct principal principal = principal_of('z');
        assert_int_equal(authz_snapshot_has_content_alone(made, &principal, NOW), rows[i].is_content);
    }
}

/* As many may be in force as there are places, whatever was before. */
static void roles_that_have_expired_take_no_place(void **state)
{
    const int64_t past_ms = clock_wall_ms() - NOW - 3 * DAY_MS;
    struct pinned_document pinned[OWN_ROLES_MAX + 1];
    struct own_role_use use = {.name = "z.own"};
    const struct uuid organisation = id_of('A');
    OWNED(trust_rules) *rules = NULL;
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i <= OWN_ROLES_MAX; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "a.%03zu", i);
        const struct paper old = {READS, NULL, 1, past_ms, 1, false, false}, new = {READS, NULL, 1, past_ms, 30, false, false};
        pinned[i] = (struct pinned_document){i == OWN_ROLES_MAX ? document_of(&new, use.name) : document_of(&old, name), i};
    }
    must(trust_rules_of(pinned, COUNT(pinned), &rules, &err), &err);
    own_role_resolve(rules, &organisation, &use);
    assert_true(own_role_is_in_force(&use, clock_wall_ms()));
    for (size_t i = 0; i < COUNT(pinned); i++) document_free((struct document *)(uintptr_t)pinned[i].document);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_list_of_actions_is_closed),
        cmocka_unit_test(content_alone_is_told),
        cmocka_unit_test(roles_that_have_expired_take_no_place),
    };

    (void)snapshot;
    (void)build;
    return RUN_TABLE(force_rows, it_counts_while_its_document_does) +
           RUN_TABLE(grant_rows, who_may_grant_its_actions_may_grant_it) +
           cmocka_run_group_tests_name("others", tests, NULL, NULL);
}
