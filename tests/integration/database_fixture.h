/*
 * tests/integration/database_fixture.h -- a database of its own for each test, and a connection to it.
 * For one source file of a program only: it defines what it declares.
 */
#pragma once

#include "tests/support/unit.h"

#include "storage/pg.h"
#include "tests/support/database.h"

struct fixture {
    struct database *database;
    struct pg *pg;
};

static inline int open_fixture(void **state, const char *arrange, const struct pg_table *const *statements)
{
    static struct fixture fixture;
    struct error err = {0};

    fixture.database = database_new();
    database_execute(fixture.database, arrange);
    if (!pg_open(database_app(fixture.database), statements, &fixture.pg, &err).ok) fail_msg("%s", err.message);
    *state = &fixture;
    return 0;
}

static inline int tear_down(void **state)
{
    struct fixture *fixture = *state;

    pg_free(fixture->pg);
    database_free(fixture->database);
    return 0;
}

/** A case with the file's own set_up(), which calls open_fixture(). */
#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
