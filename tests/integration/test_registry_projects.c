/* Projects, their labels, and lists of them, against a real database. */
#include <stdlib.h>

#include "registry/registry_priv.h"
#include "registry/repository_store.h"
#include "tests/integration/registry_fixture.h"

static struct result label(const struct resource *where, const char *text, struct error *err)
{
    struct label_change change;

    label_change_prepare(where, text, &change);
    return fixture_change(ACTION_PROJECT_LABEL, where, &change.change, err);
}

static void labels_only_rise(void **state)
{
    struct resource where = {
        .kind = RESOURCE_PROJECT, .organisation = fixture.organisation, .name = "acme/labelled", .region = TEST_REGION};
    struct project_create change;

    (void)state;
    MUST(project_create_prepare(fixture.registry, &where, "{\"class\":\"confidential\"}", &change, &err));
    MUST(fixture_change(ACTION_PROJECT_CREATE, &where, &change.change, &err));
    MUST_FAIL(ERROR_CONFLICT, fixture_change(ACTION_PROJECT_CREATE, &where, &change.change, &err));
    where.project = change.project;
    MUST_FAIL(ERROR_CONFLICT, label(&where, "{\"class\":\"open\"}", &err)); /* nothing was pushed yet */
    MUST_FAIL(ERROR_CONFLICT, label(&where, "{}", &err));
    MUST_FAIL(ERROR_CONFLICT, label(&where, "{\"class\":\"confidential\",\"lineage\":\"attested\"}", &err)); /* it was unknown */
    MUST(label(&where, "{\"class\":\"confidential\",\"lineage\":\"unknown\"}", &err));
    MUST(label(&where, "{\"class\":\"sensitive\",\"subjects\":[\"health\"],\"lineage\":\"unknown\"}", &err));
    MUST_FAIL(ERROR_CONFLICT,
              label(&where, "{\"class\":\"secret\",\"lineage\":\"unknown\"}", &err)); /* it would forget the subject */
    assert_string_equal(ask("SELECT label->>'class' FROM project WHERE name = 'labelled'"), "sensitive");
    where = (struct resource){.kind = RESOURCE_ORGANISATION, .organisation = fixture.organisation, .name = "acme"};
    MUST(label(&where, "{\"class\":\"confidential\"}", &err));
    MUST_FAIL(ERROR_CONFLICT, label(&where, "{\"class\":\"open\"}", &err));
}

static void projects_need_their_organisation_and_region(void **state)
{
    struct resource where = {
        .kind = RESOURCE_PROJECT, .organisation = fixture.organisation, .name = "acme/nowhere", .region = "test/nowhere"};
    struct project_create change;

    (void)state;
    MUST(project_create_prepare(fixture.registry, &where, "{}", &change, &err));
    MUST_FAIL(ERROR_NOT_FOUND, fixture_change(ACTION_PROJECT_CREATE, &where, &change.change, &err));
}

static void lists_projects_by_name(void **state)
{
    const struct resource system = {.kind = RESOURCE_SYSTEM};
    OWNED(permit) *permit = fixture_permit(ACTION_PROJECT_LIST, &system);
    struct namespace_query query = {.where = &system, .projects = true, .limit = 1};
    bool found = false, has_more = true;

    (void)state;
    for (char before[RESOURCE_NAME_MAX + 1] = ""; has_more;) {
        OWNED(namespace_page) *page = NULL;
        MUST(namespace_list(permit, fixture.stack->pg, &query, &page, &err));
        assert_int_equal(page->count, 1);
        const struct namespace_record *record = &page->records[0];
        assert_true(strcmp(before, record->name) < 0);
        (void)snprintf(before, sizeof before, "%s", record->name);
        if (strcmp(record->name, "acme/models") == 0) {
            found = true;
            assert_string_equal(record->region, TEST_REGION);
        }
        query.last = record->id;
        has_more = page->has_more;
    }
    assert_true(found);
}

/* A page has as many visible projects as fit. Hidden projects neither shorten it nor make a next page. */
static void hidden_projects_count_in_no_page(void **state)
{
    const struct resource system = {.kind = RESOURCE_SYSTEM};
    OWNED(permit) *permit = fixture_permit(ACTION_PROJECT_LIST, &system);
    OWNED(namespace_page) *all = NULL;
    struct namespace_query query = {.where = &system, .projects = true, .limit = 100};

    (void)state;
    MUST(namespace_list(permit, fixture.stack->pg, &query, &all, &err));
    assert_true(all->count > 1);
    const struct uuid last = all->records[all->count - 1].id;
    const struct namespace_reader readers[] = {{0}, {.projects = &last, .project_count = 1}};
    for (size_t i = 0; i < COUNT(readers); i++) {
        OWNED(namespace_page) *page = NULL;
        query.limit = 1;
        query.reader = &readers[i];
        MUST(namespace_list(permit, fixture.stack->pg, &query, &page, &err));
        assert_int_equal(page->count, i);
        assert_false(page->has_more);
        if (i == 1) assert_true(uuid_equal(&page->records[0].id, &last));
    }
}

static void repositories_are_listed_between_names(void **state)
{
    const struct resource system = {.kind = RESOURCE_SYSTEM};
    OWNED(permit) *permit = fixture_permit(ACTION_CATALOG_LIST, &system);
    struct repository_query query = {.where = &system, .from = "", .until = "~", .last = "", .limit = NAMESPACE_PAGE_MAX};
    OWNED(repository_page) *all = NULL;
    OWNED(repository_page) *rest = NULL;
    OWNED(repository_page) *first = NULL;
    static const char *const names[] = {"listed/a", "listed/b", "listed/c"};

    (void)state;
    for (size_t i = 0; i < COUNT(names); i++) {
        struct resource where = fixture_repository(&fixture.models, names[i]);
        char digest[DIGEST_TEXT_SIZE];
        fixture_push(&where, 28, 1, digest);
    }
    MUST(repository_list(permit, fixture.stack->pg, &query, &all, &err));
    assert_true(all->count > 2);
    for (size_t i = 1; i < all->count; i++) assert_true(strcmp(all->names[i - 1], all->names[i]) < 0);
    query.last = all->names[0];
    MUST(repository_list(permit, fixture.stack->pg, &query, &rest, &err));
    assert_int_equal(rest->count, all->count - 1);
    for (size_t i = 0; i < rest->count; i++) assert_string_equal(rest->names[i], all->names[i + 1]);
    query.from = all->names[1];
    query.until = all->names[2];
    MUST(repository_list(permit, fixture.stack->pg, &query, &first, &err));
    assert_int_equal(first->count, 1);
    assert_string_equal(first->names[0], all->names[1]);
}

static void an_organisation_has_so_many_projects(void **state)
{
    struct resource where = {
        .kind = RESOURCE_PROJECT, .organisation = fixture.organisation, .name = "acme/last", .region = TEST_REGION};
    struct namespace_limits *places = &fixture.registry->namespaces;
    const struct namespace_limits before = *places;
    struct project_create last, more;
    struct error refusal = {0};

    (void)state;
    places->projects_per_organisation =
        (unsigned)strtoul(ask("SELECT 1 + count(*) FROM project JOIN organisation o USING (organisation_id)"
                              " WHERE o.name = 'acme' AND emptied_at IS NULL"),
                          NULL, 10);
    MUST(project_create_prepare(fixture.registry, &where, "{}", &last, &err));
    (void)snprintf(where.name, sizeof where.name, "acme/more");
    MUST(project_create_prepare(fixture.registry, &where, "{}", &more, &err));
    MUST(fixture_change(ACTION_PROJECT_CREATE, &last.where, &last.change, &err));
    assert_false(fixture_change(ACTION_PROJECT_CREATE, &where, &more.change, &refusal).ok);
    assert_int_equal(refusal.kind, ERROR_CONFLICT);
    assert_non_null(strstr(refusal.message, "(projects_per_organisation): delete some"));
    execute("UPDATE project SET deleted_at = now(), deleted_name = 'acme/last', name = '#' || project_id WHERE name = 'last'");
    MUST_FAIL(ERROR_CONFLICT,
              fixture_change(ACTION_PROJECT_CREATE, &where, &more.change, &err)); /* it may hold something still */
    execute("UPDATE project SET emptied_at = now() WHERE deleted_name = 'acme/last'");
    MUST(fixture_change(ACTION_PROJECT_CREATE, &where, &more.change, &err));
    *places = before;
}

static struct result begin(const char *path, struct error *refusal)
{
    struct resource where = fixture_repository(&fixture.models, path);
    struct upload_begin begun;

    MUST(upload_begin_prepare(fixture.registry, &where, &fixture.principal, DIGEST_SHA256, &begun, &err));
    return fixture_change(ACTION_UPLOAD_BEGIN, &where, &begun.change, refusal);
}

static void a_project_has_so_many_repositories(void **state)
{
    struct namespace_limits *places = &fixture.registry->namespaces;
    const struct namespace_limits before = *places;
    struct resource target = fixture_repository(&fixture.models, "limit/mounted"), source;
    struct error refusal = {0};
    struct blob_mount mount;
    char digest[DIGEST_TEXT_SIZE];

    (void)state;
    source = fixture_repository(&fixture.models, "limit/source");
    fixture_push(&source, 29, 1, digest);
    places->repositories_per_project = (unsigned)strtoul(
        ask("SELECT 1 + count(*) FROM repository r JOIN project p USING (project_id) WHERE p.name = 'models'"), NULL, 10);
    MUST(begin("limit/last", &refusal));
    assert_false(begin("limit/more", &refusal).ok);
    assert_int_equal(refusal.kind, ERROR_DENIED);
    assert_non_null(strstr(refusal.message, "(repositories_per_project): delete some"));
    blob_mount_prepare(fixture.registry, &target, &source, digest, &mount);
    MUST_FAIL(ERROR_DENIED, repository_ensure(fixture.stack->pg, &target, mount.repositories_max, &mount.repository, &err));
    MUST(begin("limit/last", &refusal)); /* what is there goes on */
    *places = before;
    MUST(begin("limit/more", &refusal));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_only_rise),
        cmocka_unit_test(projects_need_their_organisation_and_region),
        cmocka_unit_test(lists_projects_by_name),
        cmocka_unit_test(hidden_projects_count_in_no_page),
        cmocka_unit_test(repositories_are_listed_between_names),
        cmocka_unit_test(an_organisation_has_so_many_projects),
        cmocka_unit_test(a_project_has_so_many_repositories),
    };

    return cmocka_run_group_tests_name("projects", tests, fixture_set_up, fixture_tear_down);
}
