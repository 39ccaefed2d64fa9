/* Documents of organisations that are deleted and made again under the same name (docs/documents.md, "After a deletion"). */
#include "tests/integration/documents_fixture.h"

static struct result count_one(void *context, const struct pinned_document *pinned, struct error *err)
{
    (void)pinned;
    (void)err;
    ++*(size_t *)context;
    return SUCCESS;
}

static size_t count_of_scope(struct store *store)
{
    struct document_scope scope;
    struct error err = {0};
    size_t count = 0;

    assert_true(document_scope_find(store->pg, store->scope, &scope, &err).ok);
    const struct view_range all = {DOCUMENT_SIGNING_KEY, &scope, "", 1};
    if (!document_view_visit(store->view, &all, count_one, &count, &err).ok) fail_msg("%s", err.message);
    return count;
}

static void make_organisation(struct store *store)
{
    database_execute(store->log.database, "INSERT INTO organisation (organisation_id, name, born)"
                                          " SELECT gen_random_uuid(), 'acme', size FROM audit_log");
}

static void delete_organisation(struct store *store)
{
    database_execute(store->log.database, "SELECT bury_organisation(organisation_id) FROM organisation WHERE name = 'acme'");
}

static void a_new_organisation_of_the_name_has_none_of_the_old_documents(void **state)
{
    struct store store;
    struct made_document made;
    struct seen seen;

    (void)state;
    store_open(&store);
    store.scope = "acme";
    make_organisation(&store);
    make(&store, 0, 1, true, &made);
    assert_int_equal(record_made(&store, &made, false), ERROR_NONE);
    record_key(&store, 1, 1, true);
    look_well(&store);
    assert_true(is_in_force(&store, 0) && count_of_scope(&store) == 1); /* at most one was asked for */
    delete_organisation(&store);
    assert_int_equal(find(&store, 0, &seen), ERROR_NOT_FOUND);
    assert_int_equal(count_of_scope(&store), 0);
    make_organisation(&store);
    assert_int_equal(record_made(&store, &made, false), ERROR_NONE); /* a gateway that lies records the enrolment again */
    for (unsigned i = 0; i < 2; i++) {
        look_well(&store);
        assert_int_equal(find(&store, 0, &seen), ERROR_NOT_FOUND);
        assert_int_equal(count_of_scope(&store), 0);
        forget(&store);
    }
    record_key(&store, 1, 1, true); /* its holder and an approver have signed it for the new organisation */
    look_well(&store);
    assert_true(is_in_force(&store, 1) && count_of_scope(&store) == 1);
    made_done(&made);
    store_close(&store);
}

static void a_scope_begins_with_its_organisation_and_its_project(void **state)
{
    struct store store;
    struct document_scope scope;
    struct error err = {0};

    (void)state;
    store_open(&store);
    database_execute(store.log.database,
                     "INSERT INTO region (region_id, region_tag, driver, location) VALUES"
                     " ('local/main', decode(repeat('00', 16), 'hex'), 'fs', '/');"
                     "INSERT INTO organisation (organisation_id, name, born) SELECT gen_random_uuid(), 'acme', 5;"
                     "INSERT INTO project (project_id, organisation_id, name, home_region, born)"
                     " SELECT gen_random_uuid(), organisation_id, 'models', 'local/main', 9 FROM organisation");
    const struct {
        const char *name;
        uint64_t since;
    } rows[] = {
        {"", 0}, {"acme", 5}, {"acme/models", 9}, {"acme/other", INT64_MAX}, {"other", INT64_MAX}, {"other/models", INT64_MAX}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_true(document_scope_find(store.pg, rows[i].name, &scope, &err).ok);
        assert_string_equal(scope.name, rows[i].name);
        assert_int_equal(scope.since, rows[i].since);
    }
    store_close(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_organisation_of_the_name_has_none_of_the_old_documents),
        cmocka_unit_test(a_scope_begins_with_its_organisation_and_its_project),
    };

    return cmocka_run_group_tests_name("scopes of documents", tests, NULL, NULL);
}
