#include "tests/support/unit.h"

#include <string.h>

#include "storage/region_store.h"
#include "tests/support/database.h"

static const struct pg_table *const tables[] = {&region_store_table, NULL};

static void regions_are_kept(void **state)
{
    /* sha256sum of "local/main", first half */
    static const uint8_t tag[REGION_TAG_SIZE] = {0xc5, 0xb6, 0xbe, 0xf6, 0x5d, 0x3e, 0x0f, 0xba,
                                                 0x44, 0xd8, 0xd0, 0x0b, 0x55, 0x25, 0x03, 0xb7};
    struct region region = {.id = "local/main", .driver = REGION_DRIVER_FS, .location = "/srv/x"}, found;
    OWNED(database) *database = database_new();
    OWNED(pg) *pg = NULL;
    struct region *all = NULL;
    size_t count = 0;
    struct error err = {0};

    (void)state;
    assert_true(pg_open(database_app(database), tables, &pg, &err).ok);
    assert_false(region_find(pg, "local/main", &found, &err).ok);
    assert_int_equal(err.kind, ERROR_NOT_FOUND);
    assert_true(region_insert(pg, &region, &err).ok);
    assert_false(region_insert(pg, &region, &err).ok);
    assert_int_equal(err.kind, ERROR_CONFLICT);
    assert_true(region_find(pg, "local/main", &found, &err).ok);
    assert_string_equal(found.location, "/srv/x");
    assert_int_equal(found.driver, REGION_DRIVER_FS);
    assert_memory_equal(found.tag, tag, sizeof tag);

    memcpy(region.id, "aws/me", sizeof "aws/me");
    region.driver = REGION_DRIVER_S3;
    assert_true(region_insert(pg, &region, &err).ok);
    assert_true(region_list(pg, &all, &count, &err).ok);
    assert_int_equal(count, 2);
    assert_string_equal(all[0].id, "aws/me");
    assert_string_equal(all[1].id, "local/main");
    free(all);
}

static struct result look(void *conninfo, struct error *err)
{
    struct {
        struct region *all;
        size_t count;
    } list;
    struct region found;
    OWNED(pg) *pg = NULL;

    TRY_UNTOUCHED_BYTES(pg, pg_open(conninfo, tables, &pg, err));
    TRY_UNTOUCHED_BYTES(found, region_find(pg, "local/main", &found, err));
    TRY_UNTOUCHED_BYTES(list, region_list(pg, &list.all, &list.count, err));
    free(list.all);
    return SUCCESS;
}

static void a_look_that_fails_gives_nothing(void **state)
{
    OWNED(database) *database = database_new();

    (void)state;
    database_execute(database, "INSERT INTO region (region_id, region_tag, driver, location) VALUES"
                               " ('local/main', substring(sha256('local/main') FROM 1 FOR 16), 'memory', '-')");
    fail_each(look, (void *)(uintptr_t)database_app(database), ERROR_NONE, 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(regions_are_kept),
        cmocka_unit_test(a_look_that_fails_gives_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
