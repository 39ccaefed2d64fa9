/*
 * tests/integration/pg_fixture.h -- a table for tests, and its statements.
 */
#pragma once

#include "tests/integration/database_fixture.h"

#include "storage/pg_priv.h"

static const char arrange_sql[] =
    "CREATE TABLE thing (id int8 PRIMARY KEY, name text, raw bytea, uuid uuid, is_on bool, small int4,"
    "                    at timestamptz);"
    "CREATE FUNCTION fail_as(state text) RETURNS text LANGUAGE plpgsql AS"
    " $$ BEGIN RAISE EXCEPTION 'a test' USING ERRCODE = state, DETAIL = 'secret'; END $$;"
    "GRANT ALL ON thing TO sijil_app";

static const struct pg_statement thing_insert_sql = {"thing_insert", "INSERT INTO thing VALUES ($1, $2, $3, $4, $5, $6, $7)",
                                                     "int8 text bytea uuid bool int4 timestamptz", ""};
static const struct pg_statement thing_find_sql = {"thing_find", "SELECT * FROM thing WHERE id = $1", "int8",
                                                   "int8 text bytea uuid bool int4 timestamptz"};
static const struct pg_statement thing_add_sql = {"thing_add", "INSERT INTO thing (id) VALUES ($1)", "int8", ""};
static const struct pg_statement thing_name_sql = {"thing_name", "INSERT INTO thing (id, name) VALUES ($1, $2)", "int8 text", ""};
static const struct pg_statement thing_count_sql = {"thing_count", "SELECT count(*) FROM thing", "", "int8"};
static const struct pg_statement lengths_sql = {
    "lengths",
    "SELECT cardinality($1)::int8, cardinality($2)::int8, cardinality($3)::int8, cardinality($4)::int8,"
    " $1[2], $2[2], $3[2], $4[2]",
    "text[] bytea[] uuid[] int8[]", "int8 int8 int8 int8 text bytea uuid int8"};
static const struct pg_statement fail_as_sql = {"fail_as", "SELECT fail_as($1)", "text", "text"};
static const struct pg_statement backend_sql = {"backend", "SELECT pg_backend_pid()", "", "int4"};
static const struct pg_statement tell_sql = {"tell", "SELECT pg_notify('news', '')::text", "", "text"};
static const struct pg_statement zone_sql = {"zone", "SELECT current_setting('TimeZone')", "", "text"};
static const struct pg_statement sleep_sql = {"sleep", "SELECT pg_sleep(30)::text", "", "text"};
static const struct pg_statement prepared_sql = {"prepared", "SELECT count(*) FROM pg_prepared_statements", "", "int8"};
static const struct pg_statement *const statements[] = {
    &thing_insert_sql, &thing_find_sql, &thing_add_sql, &thing_name_sql, &thing_count_sql, &lengths_sql,
    &fail_as_sql,      &backend_sql,    &tell_sql,      &zone_sql,       &sleep_sql,       &prepared_sql,
};
static const struct pg_table table = PG_TABLE(statements);
static const struct pg_table *const tables[] = {&table, NULL};

static inline int set_up(void **state)
{
    return open_fixture(state, arrange_sql, tables);
}

static inline struct result add_thing(struct pg *pg, int64_t id, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_int8(&arguments, id);
    return pg_run(pg, &thing_add_sql, &arguments, NULL, err);
}
