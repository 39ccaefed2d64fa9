/* Tests the harness itself: with a harness that does nothing, tests could not fail. */
#include "tests/support/unit.h"

#include "tests/support/database.h"

static void each_test_has_tables_of_its_own(void **state)
{
    OWNED(database) *one = database_new();
    OWNED(database) *other = database_new();

    (void)state;
    database_execute(one, "INSERT INTO region VALUES ('local/main', '0123456789abcdef', 'fs', '/x')");
    assert_string_equal(database_ask(one, "SELECT count(*) FROM region"), "1");
    assert_string_equal(database_ask(other, "SELECT count(*) FROM region"), "0");
}

static void durability_is_on(void **state)
{
    OWNED(database) *database = database_new();

    (void)state;
    assert_string_equal(database_ask(database, "SHOW fsync"), "on");
    assert_string_equal(database_ask(database, "SHOW full_page_writes"), "on");
    assert_string_equal(database_ask(database, "SHOW synchronous_commit"), "on");
    assert_string_equal(database_ask(database, "SHOW data_checksums"), "on");
    assert_string_equal(database_ask(database, "SHOW listen_addresses"), "");
}

static void an_empty_one_is_empty(void **state)
{
    OWNED(database) *database = database_new_empty();

    (void)state;
    assert_string_equal(database_ask(database, "SELECT to_regclass('region')"), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_test_has_tables_of_its_own),
        cmocka_unit_test(durability_is_on),
        cmocka_unit_test(an_empty_one_is_empty),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
