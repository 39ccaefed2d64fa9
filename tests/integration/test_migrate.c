#include "tests/support/unit.h"

#include <pthread.h>
#include <string.h>

#include "base/fault.h"
#include "storage/migrate.h"
#include "storage/migrations_priv.h"
#include "storage/pg.h"
#include "tests/support/database.h"

#define FIRST                                                                         \
    {                                                                                 \
        1, "0001_first", "CREATE TABLE one (x int); INSERT INTO one VALUES (1)", "aa" \
    }
#define SECOND                                                                                \
    {                                                                                         \
        2, "0002_second", "CREATE TABLE two (x int); INSERT INTO two SELECT x FROM one", "bb" \
    }
#define END                 \
    {                       \
        0, NULL, NULL, NULL \
    }

static const struct migration first_only[] = {FIRST, END};
static const struct migration both[] = {FIRST, SECOND, END};

static void the_real_ones_apply_once(void **state)
{
    OWNED(database) *database = database_new_empty();
    struct migration_report report;
    struct error err = {0};

    (void)state;
    assert_false(storage_check_schema(database_app(database), &err).ok);
    assert_int_equal(err.kind, ERROR_CONFLICT);
    assert_non_null(strstr(err.message, "run sijild --migrate"));

    assert_true(storage_migrate(database_owner(database), &report, &err).ok);
    assert_int_equal(report.version, storage_schema_version());
    assert_true(report.applied > 0);
    assert_true(storage_check_schema(database_app(database), &err).ok);

    assert_true(storage_migrate(database_owner(database), &report, &err).ok);
    assert_int_equal(report.applied, 0);
    assert_int_equal(report.version, storage_schema_version());
}

static void a_gateway_is_not_the_owner_nor_the_owner_a_gateway(void **state)
{
    OWNED(database) *database = database_new();
    struct error err = {0};

    (void)state;
    assert_true(storage_check_role(database_app(database), &err).ok);
    assert_true(storage_check_owner(database_owner(database), &err).ok);
    assert_false(storage_check_role(database_owner(database), &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
    assert_non_null(strstr(err.message, "owns the tables"));
    assert_false(storage_check_owner(database_app(database), &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
    assert_non_null(strstr(err.message, "does not own the database"));
}

static void the_application_cannot_change_the_schema(void **state)
{
    OWNED(database) *database = database_new();
    struct migration_report report;
    struct error err = {0};

    (void)state;
    assert_false(storage_migrate(database_app(database), &report, &err).ok);
    assert_string_equal(database_ask(database, "SELECT count(*) FROM pg_class WHERE relowner ="
                                               " (SELECT oid FROM pg_roles WHERE rolname = 'sijil_app')"),
                        "0");
    assert_string_equal(database_ask(database, "SELECT has_table_privilege('sijil_app', 'schema_migration',"
                                               " 'INSERT, UPDATE, DELETE, TRUNCATE')"),
                        "f");
}

/* A temporary table stood for one of ours in functions that run as the owner, and in triggers that keep rows. */
static void temporary_tables_come_last(void **state)
{
    OWNED(database) *database = database_new();

    (void)state;
    assert_string_equal(database_ask(database, "SELECT count(*) >= 7 FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace"
                                               " WHERE n.nspname = 'public' AND p.prosecdef"),
                        "t");
    assert_string_equal(
        database_ask(database,
                     "SELECT coalesce(string_agg(p.oid::regprocedure::text, ' ' ORDER BY 1), '') FROM pg_proc p"
                     " WHERE p.pronamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)"
                     "   AND (p.prosecdef OR p.prorettype = 'trigger'::regtype OR p.proconfig::text LIKE '%search_path%')"
                     "   AND NOT ('search_path=public, pg_temp' = ANY (coalesce(p.proconfig, '{}')))"),
        "");
}

static const struct refused_row {
    const char *name;
    struct migration migrations[3];
    const char *said;
} refused_rows[] = {
    {"an edited file", {{1, "0001_first", "SELECT 1", "cc"}, SECOND, END}, "0001_first was edited"},
    {"a renamed file", {{1, "0001_other", "SELECT 1", "aa"}, SECOND, END}, "is 0001_first, this program's is 0001_other"},
    {"a missing first file", {SECOND, END, END}, "is 0001_first, this program's is 0002_second"},
    {"an older program", {FIRST, END, END}, "0002_second, which this program does not know"},
};

static void what_was_applied_must_stand(void **state)
{
    const struct refused_row *row = *state;
    OWNED(database) *database = database_new_empty();
    struct migration_report report;
    struct error err = {0};

    assert_true(storage_migrate_with(database_owner(database), both, &report, &err).ok);
    assert_int_equal(report.applied, 2);
    assert_false(storage_migrate_with(database_owner(database), row->migrations, &report, &err).ok);
    assert_int_equal(err.kind, ERROR_CONFLICT);
    if (strstr(err.message, row->said) == NULL) fail_msg("%s", err.message);
    assert_string_equal(database_ask(database, "SELECT count(*) FROM schema_migration"), "2");
}

/* A running gateway does not check the schema again, so an older one would continue with tables that it does not know. */
static void nothing_changes_under_a_running_gateway(void **state)
{
    OWNED(database) *database = database_new_empty();
    OWNED(pg) *gateway = NULL;
    struct migration_report report = {0};
    struct error err = {0};

    (void)state;
    assert_true(storage_migrate_with(database_owner(database), first_only, &report, &err).ok);
    assert_true(pg_open(database_app(database), NULL, &gateway, &err).ok);
    assert_false(storage_migrate_with(database_owner(database), both, &report, &err).ok);
    assert_int_equal(err.kind, ERROR_CONFLICT);
    assert_string_equal(err.message, "the role sijil_app has sessions (1): stop all gateways, then migrate");
    assert_string_equal(database_ask(database, "SELECT count(*) FROM schema_migration"), "1");
    assert_true(storage_migrate_with(database_owner(database), first_only, &report, &err).ok); /* it changes nothing */
    pg_free(GIVE(gateway));
    assert_true(storage_migrate_with(database_owner(database), both, &report, &err).ok);
    assert_int_equal(report.applied, 1);
}

static void a_failing_one_leaves_nothing(void **state)
{
    static const struct migration failing[] = {
        FIRST, {2, "0002_bad", "CREATE TABLE two (x int); SELECT 1 / 0; CREATE TABLE three (x int)", "bb"}, END};
    OWNED(database) *database = database_new_empty();
    struct migration_report report = {77, 77};
    struct error err = {0};

    (void)state;
    assert_false(storage_migrate_with(database_owner(database), failing, &report, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_non_null(strstr(err.message, "0002_bad"));
    assert_int_equal(report.version, 77);
    assert_string_equal(database_ask(database, "SELECT to_regclass('two')"), "");
    assert_string_equal(database_ask(database, "SELECT to_regclass('three')"), "");
    assert_string_equal(database_ask(database, "SELECT string_agg(name, ' ') FROM schema_migration"), "0001_first");
    assert_true(storage_migrate_with(database_owner(database), both, &report, &err).ok);
    assert_int_equal(report.applied, 1);
}

struct migrator {
    const char *conninfo;
    struct migration_report report;
    bool ok;
    struct error err;
};

static void *migrate_in_thread(void *argument)
{
    struct migrator *migrator = argument;

    migrator->ok = storage_migrate_with(migrator->conninfo, both, &migrator->report, &migrator->err).ok;
    return NULL;
}

static void several_at_once_apply_each_once(void **state)
{
    OWNED(database) *database = database_new_empty();
    struct migrator migrators[4] = {0};
    pthread_t threads[COUNT(migrators)];
    unsigned applied = 0;

    (void)state;
    for (size_t i = 0; i < COUNT(migrators); i++) {
        migrators[i].conninfo = database_owner(database);
        assert_int_equal(pthread_create(&threads[i], NULL, migrate_in_thread, &migrators[i]), 0);
    }
    for (size_t i = 0; i < COUNT(migrators); i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        if (!migrators[i].ok) fail_msg("%s", migrators[i].err.message);
        assert_int_equal(migrators[i].report.version, 2);
        applied += migrators[i].report.applied;
    }
    assert_int_equal(applied, 2);
    assert_string_equal(database_ask(database, "SELECT count(*) FROM two"), "1");
}

static void an_older_database_is_refused(void **state)
{
    OWNED(database) *database = database_new();
    struct error err = {0};

    (void)state;
    database_execute(database, "DELETE FROM schema_migration WHERE number = (SELECT max(number) FROM schema_migration)");
    assert_false(storage_check_schema(database_app(database), &err).ok);
    assert_int_equal(err.kind, ERROR_CONFLICT);
    assert_non_null(strstr(err.message, "run sijild --migrate"));
}

static void a_newer_database_is_refused(void **state)
{
    OWNED(database) *database = database_new();
    struct error err = {0};

    (void)state;
    database_execute(database, "INSERT INTO schema_migration VALUES (9999, '9999_later', 'aa')");
    assert_false(storage_check_schema(database_app(database), &err).ok);
    assert_int_equal(err.kind, ERROR_CONFLICT);
    assert_non_null(strstr(err.message, "9999_later"));
}

/* After any failure the next run finishes the migration. */
static struct result migrate(const struct database *database, struct error *err)
{
    struct migration_report report;

    TRY_UNTOUCHED_BYTES(report, storage_migrate_with(database_owner(database), first_only, &report, err));
    return SUCCESS;
}

static void any_failure_can_be_repeated(void **state)
{
    struct migration_report report;
    unsigned long nth = 1;

    (void)state;
    for (bool has_fired = true; has_fired; nth++) {
        OWNED(database) *database = database_new_empty();
        struct error err = {0};

        fault_arm(nth);
        const bool ok = migrate(database, &err).ok;
        has_fired = fault_has_fired();
        fault_arm(0);
        assert_int_equal(ok, !has_fired);
        assert_true(storage_migrate_with(database_owner(database), first_only, &report, &err).ok);
        assert_string_equal(database_ask(database, "SELECT count(*) FROM one"), "1");
    }
    assert_failures(nth - 2, 45);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(the_real_ones_apply_once),
        cmocka_unit_test(a_gateway_is_not_the_owner_nor_the_owner_a_gateway),
        cmocka_unit_test(the_application_cannot_change_the_schema),
        cmocka_unit_test(temporary_tables_come_last),
        cmocka_unit_test(nothing_changes_under_a_running_gateway),
        cmocka_unit_test(a_failing_one_leaves_nothing),
        cmocka_unit_test(several_at_once_apply_each_once),
        cmocka_unit_test(an_older_database_is_refused),
        cmocka_unit_test(a_newer_database_is_refused),
        cmocka_unit_test(any_failure_can_be_repeated),
    };

    return RUN_TABLE(refused_rows, what_was_applied_must_stand) + cmocka_run_group_tests_name("others", others, NULL, NULL);
}
