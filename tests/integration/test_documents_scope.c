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

    assert_true(document_scope_find(lookup_of(store->pg), store->scope, &scope, &err).ok);
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
        assert_true(document_scope_find(lookup_of(store.pg), rows[i].name, &scope, &err).ok);
        assert_string_equal(scope.name, rows[i].name);
        assert_int_equal(scope.since, rows[i].since);
    }
    store_close(&store);
}

/* ---- one key in several scopes ---- */

/* A key that was stolen would still sign in the other scope. */
static void a_withdrawal_counts_in_every_scope(void **state)
{
    struct store store;

    (void)state;
    store_open(&store);
    make_organisation(&store);
    record_key(&store, 0, 1, true);
    record_key(&store, 1, 1, true);
    store.scope = "acme";
    record_key(&store, 0, 1, true);
    look_well(&store);
    assert_true(is_in_force(&store, 0));
    store.scope = "";
    assert_true(is_in_force(&store, 0));
    record_key(&store, 0, 2, true);
    for (unsigned i = 0; i < 2; i++) {
        look_well(&store);
        store.scope = "acme";
        assert_false(is_in_force(&store, 0));
        store.scope = "";
        assert_false(is_in_force(&store, 0));
        assert_true(is_in_force(&store, 1));
        forget(&store);
    }
    store.scope = "acme";
    record_key(&store, 0, 1, true); /* signed anew, in another second */
    look_well(&store);
    assert_false(is_in_force(&store, 0));
    store_close(&store);
}

/* Two persons with one key would be two signers, and neither could deny a signature of the other. */
static void a_key_has_one_owner_in_all_scopes(void **state)
{
    struct store store;
    struct seen seen;

    (void)state;
    store_open(&store);
    make_organisation(&store);
    record_key(&store, 0, 1, true);
    store.scope = "acme";
    store.principal = "robot:00000000-0000-0000-0000-000000000002";
    record_key(&store, 0, 1, true);
    record_key(&store, 0, 2, true); /* nor does the other one withdraw it */
    look_well(&store);
    assert_int_equal(find(&store, 0, &seen), ERROR_NOT_FOUND);
    store.scope = "";
    assert_true(is_in_force(&store, 0));
    store_close(&store);
}

/* ---- the application's role ---- */

/* Each row runs as sijil_app, between the deletion of an organisation with one key and the next look. */
static const struct attack_row {
    const char *name, *sql;
} attack_rows[] = {
    {"born before everything", "INSERT INTO organisation (organisation_id, name, born) VALUES (gen_random_uuid(), 'acme', 0)"},
    {"born at no stated time", "INSERT INTO organisation (organisation_id, name) VALUES (gen_random_uuid(), 'acme')"},
    {"a log that seems empty", "DO $do$ BEGIN UPDATE audit_log SET size = 0; RAISE 'it was allowed';" /* a trigger refuses it */
                               " EXCEPTION WHEN insufficient_privilege THEN NULL; END $do$;"
                               "INSERT INTO organisation (organisation_id, name, born) VALUES (gen_random_uuid(), 'acme', 0)"},
    {"a temporary log", "CREATE TEMPORARY TABLE audit_entry (seq bigint) ON COMMIT DROP;"
                        "INSERT INTO organisation (organisation_id, name, born) VALUES (gen_random_uuid(), 'acme', 0)"},
};

static void execute_as_app(struct store *store, const char *sql)
{
    char whole[2048];

    (void)snprintf(whole, sizeof whole, "BEGIN; SET LOCAL ROLE sijil_app; %s; COMMIT", sql);
    database_execute(store->log.database, whole);
}

static void prepare_deleted_organisation(struct store *store)
{
    store_open(store);
    store->scope = "acme";
    make_organisation(store);
    record_key(store, 0, 1, true);
    look_well(store);
    assert_true(is_in_force(store, 0));
    delete_organisation(store);
}

static void no_row_of_the_application_revives_documents(void **state)
{
    const struct attack_row *row = *state;
    struct store store;
    struct seen seen;

    prepare_deleted_organisation(&store);
    execute_as_app(&store, row->sql);
    assert_string_equal(database_ask(store.log.database, "SELECT count(*) FROM organisation WHERE name = 'acme'"), "1");
    look_well(&store);
    assert_int_equal(find(&store, 0, &seen), ERROR_NOT_FOUND);
    assert_int_equal(count_of_scope(&store), 0);
    store_close(&store);
}

static void born_is_between_the_highest_entry_and_the_largest_group(void **state)
{
    struct store store;

    (void)state;
    prepare_deleted_organisation(&store);
    execute_as_app(&store, "INSERT INTO organisation (organisation_id, name, born) VALUES (gen_random_uuid(), 'acme', 1000000)");
    assert_string_equal(database_ask(store.log.database, "SELECT o.born - max(e.seq) FROM organisation o, audit_entry e"
                                                         " WHERE o.name = 'acme' GROUP BY o.born"),
                        "4096");
    execute_as_app(&store, "INSERT INTO organisation (organisation_id, name, born)"
                           " SELECT gen_random_uuid(), 'beta', max(seq) + 3 FROM audit_entry"); /* the third of a group */
    assert_string_equal(database_ask(store.log.database, "SELECT o.born - max(e.seq) FROM organisation o, audit_entry e"
                                                         " WHERE o.name = 'beta' GROUP BY o.born"),
                        "3");
    store_close(&store);
}

/* Otherwise a running deletion would commit its entries between the read of the log and the new row. */
static void whoever_makes_an_organisation_holds_the_log(void **state)
{
    struct store store;

    (void)state;
    prepare_deleted_organisation(&store);
    execute_as_app(&store,
                   "INSERT INTO organisation (organisation_id, name) VALUES (gen_random_uuid(), 'acme');"
                   "DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid = 7307 AND objid = 2"
                   " AND mode = 'ExclusiveLock' AND pid = pg_backend_pid()) THEN RAISE 'the lock is not held'; END IF; END $$");
    store_close(&store);
}

static const struct refused_row {
    const char *name, *role, *sql;
} refused_rows[] = {
    {"an old snapshot", "sijil_app", "INSERT INTO organisation (organisation_id, name) VALUES (gen_random_uuid(), 'beta')"},
    {"the application changes born, though it may", "sijil_app", "UPDATE organisation SET born = 0"},
    {"the owner changes born", "sijil_owner", "UPDATE organisation SET born = 0"},
};

static void born_stays_what_the_log_says(void **state)
{
    const struct refused_row *row = *state;
    const bool is_old = strcmp(row->name, "an old snapshot") == 0;
    struct store store;
    char whole[1024];

    prepare_deleted_organisation(&store);
    database_execute(store.log.database,
                     "INSERT INTO organisation (organisation_id, name, born) VALUES (gen_random_uuid(), 'other', 1)");
    (void)snprintf(
        whole, sizeof whole,
        "%s DO $do$ BEGIN SET LOCAL ROLE %s; %s; RAISE 'it was allowed'; EXCEPTION WHEN insufficient_privilege THEN NULL; END $do$; COMMIT",
        is_old ? "BEGIN ISOLATION LEVEL REPEATABLE READ;" : "BEGIN; GRANT UPDATE ON organisation TO sijil_app;", row->role,
        row->sql);
    database_execute(store.log.database, whole);
    store_close(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_organisation_of_the_name_has_none_of_the_old_documents),
        cmocka_unit_test(a_scope_begins_with_its_organisation_and_its_project),
        cmocka_unit_test(a_withdrawal_counts_in_every_scope),
        cmocka_unit_test(a_key_has_one_owner_in_all_scopes),
        cmocka_unit_test(born_is_between_the_highest_entry_and_the_largest_group),
        cmocka_unit_test(whoever_makes_an_organisation_holds_the_log),
    };

    return RUN_TABLE(attack_rows, no_row_of_the_application_revives_documents) +
           RUN_TABLE(refused_rows, born_stays_what_the_log_says) +
           cmocka_run_group_tests_name("scopes of documents", tests, NULL, NULL);
}
