#include "tests/integration/pg_fixture.h"

#include <string.h>

static void every_type_survives_a_round_trip(void **state)
{
    struct fixture *fixture = *state;
    static const uint8_t raw[] = {0, 255, 10, 0};
    const struct uuid uuid = uuid_random();
    struct pg_arguments row = {0}, key = {0};
    OWNED(pg_rows) *rows = NULL;
    struct error err;

    pg_add_int8(&row, INT64_MIN);
    pg_add_text(&row, "\xd8\xb3\xd8\xac\xd9\x84");
    pg_add_bytes(&row, (struct bytes){raw, sizeof raw});
    pg_add_uuid(&row, &uuid);
    pg_add_bool(&row, true);
    pg_add_int4(&row, INT32_MIN);
    pg_add_time(&row, 1795171186123);
    assert_true(pg_run(fixture->pg, &thing_insert_sql, &row, NULL, &err).ok);
    pg_add_int8(&key, INT64_MIN);
    assert_true(pg_run(fixture->pg, &thing_find_sql, &key, &rows, &err).ok);

    assert_int_equal(pg_rows_count(rows), 1);
    assert_true(pg_int8(rows, 0, 0) == INT64_MIN);
    assert_string_equal(pg_text(rows, 0, 1), "\xd8\xb3\xd8\xac\xd9\x84");
    assert_true(bytes_equal(pg_bytes(rows, 0, 2), (struct bytes){raw, sizeof raw}));
    const struct uuid again = pg_uuid(rows, 0, 3);
    assert_true(uuid_equal(&again, &uuid));
    assert_true(pg_bool(rows, 0, 4));
    assert_true(pg_int8(rows, 0, 5) == INT32_MIN);
    assert_true(pg_time_ms(rows, 0, 6) == 1795171186123);
    assert_string_equal(database_ask(fixture->database, "SELECT at AT TIME ZONE 'UTC' FROM thing"), "2026-11-20 10:39:46.123");
}

static void null_reads_as_nothing(void **state)
{
    struct fixture *fixture = *state;
    struct pg_arguments row = {0}, key = {0};
    OWNED(pg_rows) *rows = NULL;
    struct error err;

    pg_add_int8(&row, 1);
    pg_add_text(&row, NULL);
    pg_add_null(&row);
    pg_add_uuid(&row, NULL);
    for (int i = 0; i < 3; i++) pg_add_null(&row);
    assert_true(pg_run(fixture->pg, &thing_insert_sql, &row, NULL, &err).ok);
    pg_add_int8(&key, 1);
    assert_true(pg_run(fixture->pg, &thing_find_sql, &key, &rows, &err).ok);

    for (size_t column = 1; column < 7; column++) assert_true(pg_is_null(rows, 0, column));
    assert_string_equal(pg_text(rows, 0, 1), "");
    assert_int_equal(pg_bytes(rows, 0, 2).length, 0);
    const struct uuid uuid = pg_uuid(rows, 0, 3);
    assert_true(uuid_is_nil(&uuid));
    assert_false(pg_bool(rows, 0, 4));
    assert_int_equal(pg_int8(rows, 0, 5), 0);
    assert_int_equal(pg_time_ms(rows, 0, 6), 0);
}

static void arrays_arrive_whole(void **state)
{
    struct fixture *fixture = *state;
    const struct uuid uuids[] = {uuid_random(), uuid_random()};
    const struct bytes texts[] = {bytes_of_text("one"), bytes_of_text("{\"two\",}")};
    const struct bytes raws[] = {{0}, {(const uint8_t *)"\0\xff", 2}};
    const struct bytes views[] = {uuid_bytes(&uuids[0]), uuid_bytes(&uuids[1])};
    const int64_t numbers[] = {1, -2};
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;
    struct error err;

    pg_add_text_array(&arguments, texts, 2);
    pg_add_bytes_array(&arguments, raws, 2);
    pg_add_uuid_array(&arguments, views, 2);
    pg_add_int8_array(&arguments, numbers, 2);
    assert_true(pg_run(fixture->pg, &lengths_sql, &arguments, &rows, &err).ok);
    for (size_t i = 0; i < 4; i++) assert_int_equal(pg_int8(rows, 0, i), 2);
    assert_string_equal(pg_text(rows, 0, 4), "{\"two\",}");
    assert_true(bytes_equal(pg_bytes(rows, 0, 5), raws[1]));
    const struct uuid uuid = pg_uuid(rows, 0, 6);
    assert_true(uuid_equal(&uuid, &uuids[1]));
    assert_int_equal(pg_int8(rows, 0, 7), -2);
}

static void empty_arrays_are_empty(void **state)
{
    struct fixture *fixture = *state;
    struct pg_arguments arguments = {0};
    OWNED(pg_rows) *rows = NULL;
    struct error err;

    pg_add_text_array(&arguments, NULL, 0);
    pg_add_bytes_array(&arguments, NULL, 0);
    pg_add_uuid_array(&arguments, NULL, 0);
    pg_add_int8_array(&arguments, NULL, 0);
    assert_true(pg_run(fixture->pg, &lengths_sql, &arguments, &rows, &err).ok);
    for (size_t i = 0; i < 4; i++) assert_int_equal(pg_int8(rows, 0, i), 0);
    for (size_t i = 4; i < 8; i++) assert_true(pg_is_null(rows, 0, i));
}

static const struct misfit_row {
    const char *name;
    struct pg_statement statement;
    const char *said;
} misfit_rows[] = {
    {"a column of another type",
     {"x", "SELECT location FROM region", "", "int8"},
     "column location of statement x is of type text, not int8"},
    {"a column too many",
     {"x", "SELECT location, driver FROM region", "", "text"},
     "statement x yields 2 columns, not the 1 that are declared"},
    {"a column too few",
     {"x", "SELECT location FROM region", "", "text text"},
     "statement x yields 1 columns, not the 2 that are declared"},
    {"a type that we do not read",
     {"x", "SELECT 1.5", "", "text"},
     "column ?column? of statement x is of type another type, not text"},
    {"a parameter of another type",
     {"x", "SELECT driver FROM region WHERE location = $1", "uuid", "text"},
     "operator does not exist: text = uuid"},
    {"a parameter that is not declared",
     {"x", "SELECT driver FROM region WHERE location = $1", "", "text"},
     "statement x has 1 parameters, not the 0 that are declared"},
    {"a word that is no type", {"x", "SELECT 1", "", "integer"}, "no type is called integer"},
    {"a table that is not there", {"x", "SELECT 1 FROM nowhere", "", "int4"}, "relation \"nowhere\" does not exist"},
    {"a name that stands twice", {"lengths", "SELECT 1", "", "int4"}, "two statements are called lengths"},
};

static void statements_must_fit_the_schema(void **state)
{
    const struct misfit_row *row = *state;
    OWNED(database) *database = database_new();
    const struct pg_statement *const statement = &row->statement;
    const struct pg_table misfit = {&statement, 1};
    const struct pg_table *const both[] = {&table, &misfit, NULL};
    struct pg *pg = NULL;
    struct error err = {0};

    database_execute(database, arrange_sql);
    assert_false(pg_open(database_app(database), both, &pg, &err).ok);
    assert_null(pg);
    assert_int_equal(err.kind, ERROR_INVALID);
    if (strstr(err.message, row->said) == NULL) fail_msg("%s", err.message);
}

/* The statements beside it do not suffer. */
static void a_lazy_connection_refuses_them_at_their_first_run(void **state)
{
    const struct misfit_row *row = *state;
    OWNED(database) *database = database_new();
    const struct pg_statement *const statement = &row->statement;
    const struct pg_table misfit = {&statement, 1};
    const struct pg_table *const both[] = {&table, &misfit, NULL};
    OWNED(pg) *pg = NULL;
    struct error err = {0};

    database_execute(database, arrange_sql);
    struct result refused = pg_open_lazily(database_app(database), both, &pg, &err);
    for (int i = 0; pg != NULL && i < 2; i++) {
        refused = pg_run(pg, statement, NULL, NULL, &err);
        assert_true(!refused.ok && pg_is_broken(pg));
        struct error why = {0};
        must(pg_reopen(pg, &why), &why);
        must(add_thing(pg, i, &why), &why);
    }
    assert_false(refused.ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    if (strstr(err.message, row->said) == NULL) fail_msg("%s", err.message);
}

static int64_t count_of_prepared(struct pg *pg)
{
    OWNED(pg_rows) *rows = NULL;
    struct error err = {0};

    if (!pg_run(pg, &prepared_sql, NULL, &rows, &err).ok) fail_msg("%s", err.message);
    return pg_int8(rows, 0, 0);
}

static void a_lazy_connection_prepares_what_it_runs(void **state)
{
    struct fixture *fixture = *state;
    OWNED(pg) *pg = NULL;
    struct error err = {0};

    assert_int_equal(count_of_prepared(fixture->pg), COUNT(statements) + 2); /* and BEGIN and COMMIT */
    must(pg_open_lazily(database_app(fixture->database), tables, &pg, &err), &err);
    for (int64_t round = 1; round <= 2; round++) { /* the new connection prepares again */
        assert_int_equal(count_of_prepared(pg), 1);
        for (int64_t id = 0; id < 2; id++) must(add_thing(pg, 10 * round + id, &err), &err);
        assert_int_equal(count_of_prepared(pg), 2);
        must(pg_begin(pg, &err), &err);
        assert_false(add_thing(pg, 10 * round, &err).ok);
        assert_int_equal(err.kind, ERROR_CONFLICT);
        assert_false(pg_run(pg, &thing_count_sql, NULL, NULL, &err).ok); /* not prepared yet, and now it can't be */
        pg_rollback(pg);
        must(pg_reopen(pg, &err), &err);
    }
    assert_string_equal(database_ask(fixture->database, "SELECT count(*) FROM thing"), "4");
}

static const struct state_row {
    const char *name, *state;
    enum error_kind kind;
} state_rows[] = {
    {"unique", "23505", ERROR_CONFLICT},
    {"foreign key", "23503", ERROR_CONFLICT},
    {"restrict", "23001", ERROR_CONFLICT},
    {"exclusion", "23P01", ERROR_CONFLICT},
    {"check", "23514", ERROR_INVALID}, /* the same call fails again: nobody was faster */
    {"not null", "23502", ERROR_INVALID},
    {"serialization", "40001", ERROR_CONFLICT},
    {"deadlock", "40P01", ERROR_CONFLICT},
    {"disk full", "53100", ERROR_FULL},
    {"out of memory", "53200", ERROR_UNAVAILABLE},
    {"too many connections", "53300", ERROR_UNAVAILABLE},
    {"lock timeout", "55P03", ERROR_UNAVAILABLE},
    {"statement timeout", "57014", ERROR_UNAVAILABLE},
    {"shutting down", "57P01", ERROR_UNAVAILABLE},
    {"read-only", "25006", ERROR_UNAVAILABLE},
    {"broken page", "XX001", ERROR_CORRUPT},
    {"row too large", "54000", ERROR_LIMIT},
    {"anything else", "42883", ERROR_INVALID},
};

static void states_become_kinds(void **state)
{
    const struct state_row *row = *state;
    void *fixture_state = NULL;
    struct pg_arguments arguments = {0};
    struct error err = {0};

    set_up(&fixture_state);
    struct fixture *fixture = fixture_state;
    pg_add_text(&arguments, row->state);
    assert_false(pg_run(fixture->pg, &fail_as_sql, &arguments, NULL, &err).ok);
    assert_int_equal(err.kind, row->kind);
    assert_null(strstr(err.message, "secret")); /* the detail may quote a row */
    assert_false(pg_is_broken(fixture->pg));
    assert_true(add_thing(fixture->pg, 1, &err).ok);
    tear_down(&fixture_state);
}

static void only_a_commit_makes_it_true(void **state)
{
    struct fixture *fixture = *state;
    struct error err;

    assert_true(pg_begin(fixture->pg, &err).ok);
    assert_true(add_thing(fixture->pg, 1, &err).ok);
    pg_rollback(fixture->pg);
    assert_string_equal(database_ask(fixture->database, "SELECT count(*) FROM thing"), "0");

    assert_true(pg_begin(fixture->pg, &err).ok);
    assert_true(add_thing(fixture->pg, 1, &err).ok);
    assert_string_equal(database_ask(fixture->database, "SELECT count(*) FROM thing"), "0");
    assert_true(pg_commit(fixture->pg, &err).ok);
    assert_string_equal(database_ask(fixture->database, "SELECT count(*) FROM thing"), "1");
}

static void a_snapshot_is_of_one_moment(void **state)
{
    struct fixture *fixture = *state;
    struct error err;

    assert_true(pg_begin_snapshot(fixture->pg, &err).ok);
    for (int i = 0; i < 2; i++) {
        OWNED(pg_rows) *rows = NULL;
        assert_true(pg_run(fixture->pg, &thing_count_sql, NULL, &rows, &err).ok);
        assert_int_equal(pg_int8(rows, 0, 0), 0);
        if (i == 0) database_execute(fixture->database, "INSERT INTO thing (id) VALUES (1)");
    }
    assert_false(add_thing(fixture->pg, 2, &err).ok);
    pg_rollback(fixture->pg);
}

static void a_failed_transaction_does_not_commit(void **state)
{
    struct fixture *fixture = *state;
    struct error err;

    assert_true(pg_begin(fixture->pg, &err).ok);
    assert_true(add_thing(fixture->pg, 1, &err).ok);
    assert_false(add_thing(fixture->pg, 1, &err).ok);
    assert_int_equal(err.kind, ERROR_CONFLICT);
    assert_false(pg_commit(fixture->pg, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_true(pg_begin(fixture->pg, &err).ok);
    assert_true(add_thing(fixture->pg, 1, &err).ok);
    assert_true(pg_commit(fixture->pg, &err).ok);
}

static void add_to_pipeline(struct pg *pg, const struct pg_statement *statement, int64_t id)
{
    struct pg_arguments arguments = {0};
    struct error err;

    if (id != 0) pg_add_int8(&arguments, id);
    assert_true(pg_pipeline_add(pg, statement, &arguments, &err).ok);
}

static void a_pipeline_keeps_its_order(void **state)
{
    struct fixture *fixture = *state;
    struct pg_rows *rows[3];
    struct error err;

    for (int round = 0; round < 2; round++) {
        add_to_pipeline(fixture->pg, &thing_count_sql, 0);
        add_to_pipeline(fixture->pg, &thing_add_sql, round + 1);
        add_to_pipeline(fixture->pg, &thing_count_sql, 0);
        assert_true(pg_pipeline_run(fixture->pg, rows, 3, &err).ok);
        assert_int_equal(pg_int8(rows[0], 0, 0), round);
        assert_int_equal(pg_rows_affected(rows[1]), 1);
        assert_int_equal(pg_int8(rows[2], 0, 0), round + 1);
        for (int i = 0; i < 3; i++) pg_rows_free(rows[i]);
    }
}

static void the_first_error_ends_a_pipeline(void **state)
{
    struct fixture *fixture = *state;
    struct pg_rows *rows[4];
    struct error err;

    add_to_pipeline(fixture->pg, &thing_add_sql, 1);
    add_to_pipeline(fixture->pg, &thing_add_sql, 1);
    add_to_pipeline(fixture->pg, &thing_add_sql, 2);
    add_to_pipeline(fixture->pg, &thing_count_sql, 0);
    assert_false(pg_pipeline_run(fixture->pg, rows, 4, &err).ok);
    assert_int_equal(err.kind, ERROR_CONFLICT);
    for (int i = 0; i < 4; i++) assert_null(rows[i]);
    assert_false(pg_is_broken(fixture->pg));
    assert_string_equal(database_ask(fixture->database, "SELECT count(*) FROM thing"), "0");
    assert_true(add_thing(fixture->pg, 1, &err).ok);
}

/* A pipeline of more than any socket buffer holds, in both directions. */
static void a_large_pipeline_does_not_stall(void **state)
{
    enum { STATEMENTS = 3000 };
    static char long_text[4000];
    static struct pg_rows *rows[STATEMENTS];
    struct fixture *fixture = *state;
    struct error err;

    memset(long_text, 'x', sizeof long_text - 1);
    for (size_t i = 0; i < STATEMENTS; i++) {
        struct pg_arguments arguments = {0};
        pg_add_text_array(&arguments, (struct bytes[]){{0}, bytes_of_text(long_text)}, 2);
        pg_add_bytes_array(&arguments, NULL, 0);
        pg_add_uuid_array(&arguments, NULL, 0);
        pg_add_int8_array(&arguments, NULL, 0);
        assert_true(pg_pipeline_add(fixture->pg, &lengths_sql, &arguments, &err).ok);
    }
    assert_true(pg_pipeline_run(fixture->pg, rows, STATEMENTS, &err).ok);
    for (size_t i = 0; i < STATEMENTS; i++) {
        assert_int_equal(strlen(pg_text(rows[i], 0, 4)), sizeof long_text - 1);
        pg_rows_free(rows[i]);
    }
}

/* In any time zone of the server: with summer time, 90 days are not always 90 times 24 hours. */
static void a_day_has_24_hours(void **state)
{
    struct fixture *fixture = *state;
    OWNED(pg_rows) *rows = NULL;
    struct error err;

    database_execute(fixture->database, "ALTER ROLE sijil_app SET TimeZone = 'Europe/Berlin'");
    const struct result reopened = pg_reopen(fixture->pg, &err);
    database_execute(fixture->database, "ALTER ROLE sijil_app RESET TimeZone");
    assert_true(reopened.ok);
    assert_true(pg_run(fixture->pg, &zone_sql, NULL, &rows, &err).ok);
    assert_string_equal(pg_text(rows, 0, 0), "UTC");
}

int main(void)
{
    const struct CMUnitTest others[] = {
        TEST(every_type_survives_a_round_trip),
        TEST(null_reads_as_nothing),
        TEST(arrays_arrive_whole),
        TEST(empty_arrays_are_empty),
        TEST(only_a_commit_makes_it_true),
        TEST(a_snapshot_is_of_one_moment),
        TEST(a_failed_transaction_does_not_commit),
        TEST(a_pipeline_keeps_its_order),
        TEST(the_first_error_ends_a_pipeline),
        TEST(a_large_pipeline_does_not_stall),
        TEST(a_day_has_24_hours),
        TEST(a_lazy_connection_prepares_what_it_runs),
    };

    return RUN_TABLE(misfit_rows, statements_must_fit_the_schema) +
           RUN_TABLE(misfit_rows, a_lazy_connection_refuses_them_at_their_first_run) +
           RUN_TABLE(state_rows, states_become_kinds) + cmocka_run_group_tests_name("others", others, NULL, NULL);
}
